"""Functions of ours in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakehouse.format.text import FulltextConfig, matches
from lakehouse.sql.engine.functions import add_functions

TEXTS = ["disk full", "Full of disks", None, "the disk is full", "", "ALERT"]


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    """A DuckDB with the functions."""
    with duckdb.connect() as made:
        add_functions(made)
        made.register("texts", pa.table({"t": TEXTS, "w": ["disk", "full", "x", None, "y", "alert"]}))
        yield made


@pytest.mark.parametrize("words", ["disk full", "FULL", "alert", "", "x"])
def test_matches_is_that_of_a_scan(connection: Any, words: str) -> None:
    """A row matches in SQL exactly when it matches in a scan; a null is null."""
    rows = connection.execute("SELECT matches(t, $1) FROM texts", [words]).fetchall()
    assert [row[0] for row in rows] == matches(pa.array(TEXTS), words).to_pylist()


def test_the_configuration_of_an_index_may_be_given(connection: Any) -> None:
    """With the configuration of an index, case counts where it does in the index."""
    config = FulltextConfig(case_sensitive=True)
    rows = connection.execute(
        "SELECT matches(t, 'Full', config := $1) FROM texts", [config.encode()]
    ).fetchall()
    assert [row[0] for row in rows] == matches(pa.array(TEXTS), "Full", config).to_pylist()


def test_words_may_be_a_column(connection: Any) -> None:
    """Each row is asked for the words beside it."""
    rows = connection.execute("SELECT matches(t, w) FROM texts").fetchall()
    assert [row[0] for row in rows] == [True, True, None, None, False, True]


def test_columns_of_many_vectors_keep_their_rows(connection: Any) -> None:
    """Answers stand beside their texts, also where there are more than DuckDB hands over at once."""
    found = "matches('n' || a || ' x', 'x n' || (a % 5000))"
    wrong = connection.execute(f"SELECT count(*) FROM range(10000) r(a) WHERE {found} <> (a < 5000)")
    assert wrong.fetchone() == (0,)


def test_a_wrong_configuration_is_an_error(connection: Any) -> None:
    """Text that is no configuration is refused."""
    with pytest.raises(duckdb.Error, match="fulltext_config"):
        connection.execute("SELECT matches(t, 'x', config := '[]') FROM texts").fetchall()
    with pytest.raises(duckdb.Error, match="one text for all rows"):
        connection.execute("SELECT matches(t, 'x', config := coalesce(t, w)) FROM texts").fetchall()
