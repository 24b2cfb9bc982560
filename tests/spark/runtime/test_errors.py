"""Errors of the engine come out of Spark as themselves."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from lakehouse.errors import InvalidInputError, LakehouseError, NotFoundError
from lakehouse.spark.runtime.errors import carried, error_in, plain_errors

_MESSAGE = "no table sales.orders\n\nhere; create it first"


def _fail() -> None:
    with carried():
        raise NotFoundError(_MESSAGE, kind="missing-bucket", key="a/b", count=3, what={1})


class _Reader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        _fail()
        yield (1,)


class _StreamReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"at": 0}

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:  # noqa: N802 - Spark's name
        _fail()
        return {}

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        yield (1,)


class _Broken(DataSource):
    @classmethod
    def name(cls) -> str:
        return "broken"

    def schema(self) -> str:
        if self.options.get("at") == "schema":
            _fail()
        return "id int"

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader()

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _StreamReader()


@pytest.fixture
def broken(spark: SparkSession) -> SparkSession:
    """A session that knows a source which fails."""
    spark.dataSource.register(_Broken)
    return spark


def _check(error: LakehouseError) -> None:
    assert type(error) is NotFoundError
    assert error.message == _MESSAGE
    assert error.kind == "missing-bucket"
    assert error.context == {"key": "a/b", "count": 3, "what": "{1}"}


@pytest.mark.parametrize("at", ["schema", "read"])
def test_read_error(broken: SparkSession, at: str) -> None:
    """What a source raises while it plans or reads is raised in the driver as it was, from Spark's."""
    with pytest.raises(NotFoundError) as caught, plain_errors():
        broken.read.format("broken").option("at", at).load().collect()
    _check(caught.value)
    assert caught.value.__cause__ is not None
    assert type(caught.value.__cause__).__module__.startswith("pyspark.")


def test_stream_error(broken: SparkSession, tmp_path: Path) -> None:
    """The exception that ended a streaming query says which error of ours it was."""
    query = (
        broken.readStream.format("broken")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    with pytest.raises(NotFoundError) as caught, plain_errors():
        query.awaitTermination()
    _check(caught.value)
    ended = query.exception()
    assert ended is not None
    found = error_in(ended)
    assert found is not None
    _check(found)


def _said(error: BaseException) -> str:
    """As Spark words what a worker raised."""
    text = "".join(traceback.format_exception(error))
    return f"A worker raised:\n{text}\n\nJVM stacktrace:\n\tat org.apache.x(Y:1)"


def _raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as found:
        return found


def test_uncarried_error() -> None:
    """An error that nothing was added to still has its class and message."""
    found = error_in(PythonException(_said(_raised(InvalidInputError("two\nlines")))))
    assert type(found) is InvalidInputError
    assert found.message == "two\nlines"


def test_notes_are_no_message() -> None:
    """Notes that an error had already are not taken for its message."""
    error = NotFoundError("gone", n=1)
    error.add_note("seen at noon")
    with pytest.raises(NotFoundError), carried(), carried():
        raise error
    assert sum("lakehouse-error" in note for note in error.__notes__) == 1
    found = error_in(PythonException(_said(error)))
    assert found is not None
    assert (found.message, found.context) == ("gone", {"n": 1})


def test_newer_release() -> None:
    """Classes and kinds that this release does not know come as the root class with that kind."""
    told = '{"class": "TiredError", "kind": "tired", "chars": 5, "context": {}}'
    text = f"lakehouse.errors.TiredError: later\nlakehouse-error: {told}\n"
    found = error_in(PythonException(text))
    assert type(found) is LakehouseError
    assert (found.message, found.kind) == ("later", "tired")


def test_other_exceptions_stay() -> None:
    """What is no error of ours, or was made of one by other code, is left as it is."""
    other = _raised(KeyError("x"), InvalidInputError("ours"))
    for text in ("Job aborted", _said(other)):
        wrapped = PythonException(text)
        assert error_in(wrapped) is None
        with pytest.raises(PythonException) as caught, plain_errors():
            raise wrapped
        assert caught.value is wrapped


def test_plain_errors_pass() -> None:
    """An error of ours that Spark has not wrapped passes as the same object."""
    error = InvalidInputError("x")
    with pytest.raises(InvalidInputError) as caught, plain_errors():
        raise error
    assert caught.value is error
    assert error_in(error) is error
