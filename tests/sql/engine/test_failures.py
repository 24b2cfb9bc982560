"""Errors of DuckDB as values and as errors of ours."""

from __future__ import annotations

import json
import pickle
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import SqlSettings
from lakehouse.errors import (
    CorruptionError,
    InternalError,
    InvalidInputError,
    LakehouseError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.sql.engine import LoopBridge, SqlFailure, VirtualFiles, failure_of
from lakehouse.sql.engine.failures import SqlFailureError, said_by_duckdb
from lakehouse.testing import memory_store


def _failure(error: Exception, moved: int = 0) -> SqlFailure:
    with pytest.raises(SqlFailureError) as caught, said_by_duckdb(moved):
        raise error
    return caught.value.failure


def _run(text: str) -> SqlFailure:
    with duckdb.connect(config={"errors_as_json": "true"}) as connection:
        connection.execute("SET GLOBAL errors_as_json = true")
        with pytest.raises(SqlFailureError) as caught, said_by_duckdb():
            connection.execute(text)
    return caught.value.failure


async def _error(failure: SqlFailure) -> LakehouseError:
    files = VirtualFiles(LoopBridge())
    return failure.to_error(SqlSettings(), files)


@pytest.mark.parametrize(
    ("text", "category", "place", "candidates"),
    [
        ("SELEC 1", "parser", "SELEC", ()),
        ("SELECT 'ü', abz FROM (SELECT 1 AS abc)", "binder", "abz", ("abc",)),
        ("SELECT * FROM duckdb_tablez", "catalog", "duckdb_tablez", ("duckdb_tables",)),
        ("SELECT upperr('a')", "catalog", "upperr('a')", ("upper",)),
        ("SELECT CAST('x' AS INT)", "conversion", "CAST('x' AS INT)", ()),
        ("SELECT sum('x')", "binder", "sum('x')", ()),
    ],
)
def test_the_place_is_the_wrong_part_of_the_text(
    text: str, category: str, place: str, candidates: tuple[str, ...]
) -> None:
    """A failure has the bytes of the wrong part, and near names apart from the message."""
    failure = _run(text)
    assert failure.offset is not None
    told = text.encode()[failure.offset : failure.offset + failure.length].decode()
    assert (failure.category, told, failure.candidates) == (category, place, candidates)
    assert "Did you mean" not in failure.message
    assert "Candidate bindings" not in failure.message


@pytest.mark.parametrize(
    "text",
    ["SELECT 9223372036854775807 + 1", "SELECT $1", "SELECT error('no')", "SELECT printf('%d')"],
)
async def test_what_a_text_does_wrong_is_wrong_input(text: str) -> None:
    """Errors of users are InvalidInputErrors, with the failure in their context, and travel."""
    failure = _run(text)
    error = await _error(failure)
    assert isinstance(error, InvalidInputError)
    assert failure_of(error) == failure
    assert failure_of(pickle.loads(pickle.dumps(error))) == failure


@pytest.mark.parametrize(
    ("message", "cls", "kind", "match"),
    [
        ("Out of Memory Error: no more", UnavailableError, "out-of-memory", r"sql\.memory_bytes"),
        ("Out of Memory Error: failed to offload", UnavailableError, "out-of-memory", r"sql\.spill_bytes"),
        ("INTERRUPT Error: Interrupted!", UnavailableError, "interrupted", "interrupted"),
        ("INTERRUPT Error: Query exceeded maximum execution time", UnavailableError, "timeout", "longer"),
        ("Permission Error: Cannot access", PermissionDeniedError, "permission-denied", "Cannot access"),
        (
            'IO Error: No files found that match "x"',
            PermissionDeniedError,
            "permission-denied",
            "by its path",
        ),
        ("IO Error: No space left on device", UnavailableError, "unavailable", "spill"),
        ("INTERNAL Error: assertion", InternalError, "internal", "assertion"),
        ("FATAL Error: invalidated", InternalError, "internal", "invalidated"),
        ('{"exception_type":"Missing Extension","exception_message":"x"}', InvalidInputError, None, "x"),
        ("Binder Error: {not json", InvalidInputError, "invalid-input", "not json"),
    ],
)
async def test_categories_become_kinds(
    message: str, cls: type[LakehouseError], kind: str | None, match: str
) -> None:
    """What a caller can do about a failure decides its error and its kind."""
    error = await _error(_failure(OSError(message)))
    assert type(error) is cls
    assert error.kind == (kind or "invalid-input")
    with pytest.raises(cls, match=match):
        raise error


@pytest.mark.parametrize(
    ("raised", "cls"),
    [(TypeError("incompatible"), InvalidInputError), (RuntimeError("std::bad_cast"), InternalError)],
)
async def test_errors_of_the_python_layer_are_errors_of_ours(
    raised: Exception, cls: type[LakehouseError]
) -> None:
    """An exception that is not DuckDB's own becomes an error of ours too."""
    assert type(await _error(_failure(raised))) is cls


def test_errors_of_our_functions_are_their_text_alone() -> None:
    """A message of a function of ours is told without DuckDB's words about Python."""
    said = "Invalid Input Error: Python exception occurred while executing the UDF: FormatError: no JSON"
    assert _failure(OSError(said)).message == "no JSON"


async def test_a_damaged_file_is_told_by_its_key() -> None:
    """What DuckDB says of a virtual file is a CorruptionError that names the object."""
    files = VirtualFiles(LoopBridge())
    path = files.add(memory_store(), "t/1.parquet", 10)
    failure = _failure(OSError(f"Invalid Input Error: No magic bytes found at end of file '{path}'"))
    error = failure.to_error(SqlSettings(), files)
    assert isinstance(error, CorruptionError)
    assert error.context["key"] == "t/1.parquet"
    assert "lake://" not in str(error) + repr(failure_of(error))


def test_our_own_errors_pass() -> None:
    """An error of ours that is raised between calls of DuckDB stays the object that it is."""
    own = InvalidInputError("mine")
    with pytest.raises(InvalidInputError) as caught, said_by_duckdb():
        raise own
    assert caught.value is own


def test_a_place_is_told_without_what_was_put_before_the_text() -> None:
    """Offsets count from the beginning of the user's text."""
    said = json.dumps({"exception_message": "no", "location": "[15,3]"})
    assert _failure(OSError(f"Binder Error: {said}"), moved=8).offset == 7


def test_advice_to_change_settings_is_left_out() -> None:
    """No message advises a SET that the lock refuses."""
    said = 'Parser Error: Max expression depth limit of 1000 exceeded. Use "SET max_expression_depth TO x".'
    assert _failure(OSError(said)).message == "Max expression depth limit of 1000 exceeded."


def test_broken_instances_are_known() -> None:
    """After a bug of DuckDB's own its instance is not used any more."""
    assert _failure(OSError("FATAL Error: x")).is_fatal
    assert _failure(OSError("INTERNAL Error: x")).is_fatal
    assert not _failure(OSError("Binder Error: x")).is_fatal


@settings(max_examples=25)
@given(
    st.one_of(
        st.text(),
        st.dictionaries(
            st.sampled_from(["exception_type", "exception_message", "location", "candidates"]),
            st.one_of(st.text(), st.integers(), st.none(), st.lists(st.integers())),
        ),
    )
)
def test_any_text_of_an_error_is_read(said: Any) -> None:
    """Whatever DuckDB says, it becomes a failure."""
    text = said if isinstance(said, str) else json.dumps(said)
    assert _failure(OSError(f"Binder Error: {text}")).category == "binder"
    assert isinstance(_failure(OSError(text)), SqlFailure)
