"""Rows of CSV, JSON and Parquet files, read piece by piece in the types that a table has.

Invariant: memory does not grow with the file, other than for JSON that is one array; an error says the line,
and the column where it is known.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.io import ObjectStore
from lakehouse.io.work import in_thread

__all__ = ["first_of", "joined", "opened", "read"]

_LINES = 8192
"""Lines of JSON that become one piece."""
_ARRAY_BYTES_MAX = 256 * 1024 * 1024
_READ_BYTES = 4 * 1024 * 1024
_CSV_PLACE = re.compile(r"In CSV column #(?P<column>\d+): Row #(?P<row>\d+): (?P<said>.*)", re.DOTALL)
_WRONG_VALUE = (pa.ArrowException, TypeError, ValueError, OverflowError)


async def read(
    source: BinaryIO, kind: str, schema: pa.Schema | None, *, name: str
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows of a file.

    Args:
        source: the file.
        kind: ``csv``, ``tsv``, ``json`` or ``parquet``.
        schema: columns of the table that they are for; None = types are told by the values.
        name: of the file, for errors.
    """
    pieces = await in_thread(_READERS[kind], source, schema, name)
    while True:
        piece = await in_thread(next, pieces, None)
        if piece is None:
            return
        yield piece


async def first_of(pieces: AsyncGenerator[pa.Table, None]) -> pa.Table:
    """Takes the first piece, whose columns are those of all."""
    first = await anext(pieces, None)
    if first is None:
        raise InvalidInputError(
            "the file has no rows, so that nobody knows its columns: create the table first"
        )
    return first


async def joined(first: pa.Table, others: AsyncGenerator[pa.Table, None]) -> AsyncGenerator[pa.Table, None]:
    """Yields a piece that was taken, and then the others."""
    yield first
    async with aclosing(others) as pieces:
        async for piece in pieces:
            yield piece


# --- formats ----------------------------------------------------------------------


def _csv(source: BinaryIO, schema: pa.Schema | None, name: str, delimiter: str = ",") -> Iterator[pa.Table]:
    with _explained(name):
        reader = pa.csv.open_csv(
            pa.PythonFile(source, mode="r"),
            # One thread, so that errors know the number of their row.
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=_READ_BYTES),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=schema,
                null_values=["", r"\N"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    return _batches(reader, name)


def _tsv(source: BinaryIO, schema: pa.Schema | None, name: str) -> Iterator[pa.Table]:
    return _csv(source, schema, name, "\t")


def _batches(reader: Any, name: str) -> Iterator[pa.Table]:
    while True:
        with _explained(name):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield pa.Table.from_batches([batch])


def _parquet(source: BinaryIO, schema: pa.Schema | None, name: str) -> Iterator[pa.Table]:
    if not source.seekable():
        raise InvalidInputError("a Parquet file is read from its end: name a file instead of standard input")
    with _explained(name):
        file = pq.ParquetFile(source)  # io-ok: over a file of a store
    return _batches(_Following(file.iter_batches()), name)


class _Following:
    """Batches as a reader hands them over."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches

    def read_next_batch(self) -> pa.RecordBatch:
        return next(self._batches)


def _json(source: BinaryIO, schema: pa.Schema | None, name: str) -> Iterator[pa.Table]:
    lines = enumerate(source, 1)
    first = next(((at, line) for at, line in lines if line.strip()), None)
    if first is None:
        return
    if first[1].lstrip().startswith(b"["):
        rows = _array(first[1], source, name)
        yield _of_objects(rows, [1] * len(rows), schema, name)
        return
    numbered = ((at, line) for at, line in itertools.chain([first], lines) if line.strip())
    while some := list(itertools.islice(numbered, _LINES)):
        objects = [_object(line, at, name) for at, line in some]
        yield _of_objects(objects, [at for at, _ in some], schema, name)


def _array(begun: bytes, source: BinaryIO, name: str) -> list[Any]:
    text = begun + source.read(_ARRAY_BYTES_MAX)
    if len(text) > _ARRAY_BYTES_MAX:
        raise InvalidInputError(
            f"{name}: an array of more than {_ARRAY_BYTES_MAX:,} bytes is not loaded: write a line per row"
        )
    values = _object(text, 1, name)
    return values if isinstance(values, list) else [values]


def _object(text: bytes, line: int, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = line + error.lineno - 1
        raise InvalidInputError(
            f"{name}, line {at}, column {error.colno}: this is no JSON: {error.msg}", file=name, line=at
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{name}, line {line}: this is no UTF-8", file=name, line=line) from error


def _of_objects(rows: list[Any], lines: Sequence[int], schema: pa.Schema | None, name: str) -> pa.Table:
    for at, row in zip(lines, rows, strict=True):
        if not isinstance(row, dict):
            raise InvalidInputError(f"{name}, line {at}: a row is an object, not {type(row).__name__}")
    names = list(dict.fromkeys(column for row in rows for column in row))
    return pa.table({column: _column(column, rows, lines, schema, name) for column in names})


def _column(
    column: str, rows: list[Any], lines: Sequence[int], schema: pa.Schema | None, name: str
) -> pa.Array:
    values = [row.get(column) for row in rows]
    kind = schema.field(column).type if schema is not None and column in schema.names else None
    try:
        return _typed(values, kind)
    except _WRONG_VALUE as error:
        for at, value in zip(lines, values, strict=True):
            if not _is_typed(value, kind):
                said = f"column {column!r} is {kind}, and {short(value)} is not"
                raise InvalidInputError(f"{name}, line {at}: {said}", file=name, line=at) from None
        raise InvalidInputError(
            f"{name}: column {column!r} has values of several types from line {lines[0]} on: {error}",
            column=column,
        ) from error


def _is_typed(value: Any, kind: pa.DataType | None) -> bool:
    try:
        _typed([value], kind)
    except _WRONG_VALUE:
        return False
    return True


def _typed(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """Makes a column; what JSON has no type for stands as text, and is read by Arrow's rules."""
    if kind is None:
        return pa.array(values)
    if any(isinstance(value, str) for value in values) and not pa.types.is_nested(kind):
        texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        return pa.array(texts, pa.string()).cast(kind)
    return pa.array(values, kind)


class _explained:  # noqa: N801 - reads as a verb: with _explained(name)
    """Says what Arrow found wrong in a file as an error of the caller."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowException | OSError):
            place = _CSV_PLACE.match(str(error))
            if place is None:
                raise InvalidInputError(f"{self._name}: {error}", file=self._name) from error
            line, column = int(place["row"]), int(place["column"]) + 1
            said = f"{self._name}, line {line}, column {column}: {place['said']}"
            raise InvalidInputError(said, file=self._name, line=line) from error


_READERS: dict[str, Callable[[BinaryIO, pa.Schema | None, str], Iterator[pa.Table]]] = {
    "csv": _csv,
    "tsv": _tsv,
    "json": _json,
    "parquet": _parquet,
}


# --- files ------------------------------------------------------------------------


def opened(store: ObjectStore, key: str, size: int) -> BinaryIO:
    """Returns an object as a file that threads read, while the event loop that calls this runs."""
    raw = _StoreFile(store, key, size, asyncio.get_running_loop())
    return cast(BinaryIO, io.BufferedReader(raw, _READ_BYTES))


class _StoreFile(io.RawIOBase):
    """Object of a store as a file; each read is one request."""

    def __init__(self, store: ObjectStore, key: str, size: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._store, self._key, self._size, self._loop = store, key, size, loop
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        work = self._store.get_range(self._key, self._at, self._at + count)
        data = asyncio.run_coroutine_threadsafe(work, self._loop).result().data
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
