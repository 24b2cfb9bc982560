"""Intake of rows from users: any accepted input becomes Arrow tables of bounded size, in the order of rows.

Invariant: no table is larger than the given bounds, unless a single row is; big inputs that are Arrow already
are sliced, never copied. Everything that may block (readers, generators, conversion) runs in a thread, one
step at a time, so a source is asked for more only when there is room for it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any

import anyio
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Field, TableSchema
from lakehouse.io.work import in_own_thread, in_thread
from lakehouse.storage.rows.fit_to_schema import conform
from lakehouse.storage.rows.python_values import column_of, said

__all__ = ["ACCEPTED", "CheckNames", "fitted_chunks", "input_chunks", "marks_of"]

ACCEPTED = (
    "a pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner, a pandas or polars DataFrame, "
    "anything else with __arrow_c_stream__ or __arrow_c_array__, a list of dicts, a dict of lists, "
    "or an iterable or async iterable of such tables or of dicts"
)
"""Accepted inputs, in words for error messages."""

CheckNames = Callable[[Collection[str], int | None], None]
"""Function that checks the column names of rows, and raises when it does not accept them. It is called once
for each set of names: with None for those of a table, with the number of the row for those of a dict."""
_SETS_MAX = 1_000
"""Maximum number of sets of names that are remembered as checked."""
_MARK = "\0given"
"""Suffix of the names of mark columns, which are true for rows that have a value of their own, even null."""

_ROWS_FIRST = 4_096
"""Number of rows of Python objects that are converted first; their bytes decide how many come next."""
_GROWTH = 8
"""Maximum factor by which that number grows from step to step."""
_SHARED = 1.6
"""Factor by which the halves of a table must outweigh it to count as sharing bytes (a dictionary, views)."""


async def fitted_chunks(
    data: object,
    schema: TableSchema,
    *,
    chunk_bytes: int,
    check: CheckNames | None = None,
    fit: Callable[..., pa.Table] = conform,
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows of any accepted input, fitted to a schema; errors count rows from the first.

    Args:
        data: see :data:`ACCEPTED`.
        schema: the schema to fit.
        chunk_bytes: maximum bytes of Arrow data in one table, before it is fitted.
        check: checks the column names of rows before these are yielded.
        fit: fits a table, called as :func:`lakehouse.storage.rows.fit_to_schema.conform` is, in a thread.
    """
    chunks, first_row = input_chunks(data, schema.fields, chunk_bytes=chunk_bytes, check=check), 0
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            yield await in_thread(functools.partial(fit, chunk, schema, first_row=first_row))
            first_row += chunk.num_rows
            # The generator must not hold rows while it waits for more.
            del chunk


async def input_chunks(
    data: object,
    fields: Sequence[Field],
    *,
    chunk_bytes: int,
    chunk_rows: int = 1 << 23,
    check: CheckNames | None = None,
    marks: bool = False,
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows of any accepted input as tables of bounded bytes and rows.

    Columns keep the names and types they came with; :func:`lakehouse.storage.rows.fit_to_schema.conform`
    judges both. A dict at the top is columns, a dict inside an iterable is a row; a row without a field has
    its ``write_default``. Tables without rows are left out. Generators are closed when the iteration ends
    early.

    Args:
        data: see :data:`ACCEPTED`.
        fields: the table's columns, whose types decide the meaning of Python values.
        chunk_bytes: maximum bytes of Arrow data in one table.
        chunk_rows: maximum rows in one table.
        check: checks the column names of rows before these are yielded.
        marks: add mark columns to tables of dicts, for columns that some of them lack (:func:`marks_of`).

    Raises:
        InvalidInputError: the input is of no accepted kind, or a value does not fit its column; the
            message names column, row and value.
    """
    intake = _Intake(fields, chunk_bytes, chunk_rows, check=check, marks=marks)
    source = (
        _converted_items(intake, data)
        if isinstance(data, AsyncIterable)
        else _stepwise(intake.tables(data, top=True))
    )
    async with contextlib.aclosing(source):
        async for table in source:
            yield table


def marks_of(table: pa.Table) -> tuple[pa.Table, dict[str, pa.ChunkedArray]]:
    """Splits a table made with ``marks`` into its rows and, for columns that some rows lack, the masks."""
    marks = {
        name.removesuffix(_MARK): table.column(name) for name in table.column_names if name.endswith(_MARK)
    }
    return table.drop_columns([name + _MARK for name in marks]), marks


async def _converted_items(intake: _Intake, items: AsyncIterable[Any]) -> AsyncGenerator[pa.Table, None]:
    """Yields the tables of an asynchronous iterable of rows or tables."""
    rows: list[Mapping[Any, Any]] = []
    try:
        async for item in items:
            is_row = isinstance(item, Mapping)
            if is_row:
                rows.append(item)
            # A table between dicts ends their chunk, so that rows keep their order.
            if rows and (len(rows) >= intake.step or not is_row):
                taken, rows = rows, []
                async with contextlib.aclosing(_stepwise(intake.rows(taken))) as tables:
                    async for table in tables:
                        yield table
            if not is_row:
                async with contextlib.aclosing(_stepwise(intake.tables(item))) as tables:
                    async for table in tables:
                        yield table
        async with contextlib.aclosing(_stepwise(intake.rows(rows))) as tables:
            async for table in tables:
                yield table
    finally:
        if isinstance(items, AsyncGenerator):
            with anyio.CancelScope(shield=True):
                await items.aclose()


async def _stepwise(tables: Generator[pa.Table, None, None]) -> AsyncGenerator[pa.Table, None]:
    """Yields the tables of a generator, each step in a thread: user code in it may block."""
    try:
        while (table := await in_own_thread(next, tables, None)) is not None:
            yield table
    finally:
        with anyio.CancelScope(shield=True):
            await in_own_thread(tables.close)


class _Intake:
    """Synchronous converter of inputs, which counts rows so that errors can name one."""

    def __init__(
        self,
        fields: Sequence[Field],
        chunk_bytes: int,
        chunk_rows: int,
        *,
        check: CheckNames | None,
        marks: bool,
    ) -> None:
        self._fields = {field.name.casefold(): field for field in fields}
        self._chunk_bytes = chunk_bytes
        self._chunk_rows = chunk_rows
        self._check, self._marks = check, marks
        self._checked: set[tuple[str, ...]] = set()
        self._before = 0
        """Number of rows yielded so far."""
        self.step = min(_ROWS_FIRST, chunk_rows)
        """Number of rows of Python objects to convert at once."""

    def tables(self, data: Any, *, top: bool = False) -> Generator[pa.Table, None, None]:
        """Yields the tables of any input that is not asynchronous; ``top`` = it is no item of an iterable."""
        if isinstance(data, pa.Table):
            yield from self._cut(data)
        elif isinstance(data, pa.RecordBatch):
            yield from self._cut(pa.Table.from_batches([data]))
        elif _is_pandas(data, "DataFrame"):
            yield from self._frame(data)
        elif isinstance(data, Mapping):
            yield from self._cut(self._columns(data)) if top else self.rows([data])
        elif (reader := _reader(data)) is not None:
            yield from self._batches(reader)
        elif isinstance(data, Iterable) and not isinstance(data, str | bytes | bytearray | memoryview):
            yield from self._items(data)
        else:
            raise _not_accepted_error(data, None if top else self._before)

    def rows(self, rows: Sequence[Mapping[Any, Any]]) -> Generator[pa.Table, None, None]:
        """Yields the tables of some rows, whose columns are all names that any of them has."""
        if not rows:
            return
        columns: dict[str, pa.Array] = {}
        marked: dict[str, pa.Array] = {}
        # A dict instead of a set keeps columns in the order in which rows name them.
        for name in dict.fromkeys(itertools.chain.from_iterable(rows)):
            field = self._named(name)
            default = field.write_default if field is not None else None
            columns[name] = self._converted(name, [row.get(name, default) for row in rows])
            if self._marks and not all(name in row for row in rows):
                marked[name + _MARK] = pa.array([name in row for row in rows])
        for number, row in enumerate(rows) if self._check is not None else ():
            self._check_names(tuple(row), self._before + number)
        if not columns:
            raise InvalidInputError(
                f"row {self._before} is an empty dict; a row has its values by column name", row=self._before
            )
        table = pa.table({**columns, **marked})
        self._weighed(table)
        yield from self._cut(table)

    def _check_names(self, names: tuple[str, ...], row: int | None) -> None:
        """Checks the names of columns, unless the same names were checked before."""
        if self._check is None or names in self._checked:
            return
        self._check(names, row)
        if len(self._checked) >= _SETS_MAX:
            self._checked.clear()
        self._checked.add(names)

    def _items(self, items: Iterable[Any]) -> Generator[pa.Table, None, None]:
        """Yields the tables of an iterable of rows or tables."""
        source = iter(items)
        try:
            ended = False
            while not ended:
                rows, no_row = [], None
                for item in itertools.islice(source, self.step):
                    if not isinstance(item, Mapping):
                        no_row = item
                        break
                    rows.append(item)
                ended = no_row is None and len(rows) < self.step
                yield from self.rows(rows)
                if no_row is not None:
                    yield from self.tables(no_row)
        finally:
            if isinstance(items, Generator):
                items.close()

    def _batches(self, reader: pa.RecordBatchReader) -> Generator[pa.Table, None, None]:
        """Yields tables of batches: neighbouring small ones share a table, large ones are cut."""
        together: list[pa.RecordBatch] = []
        weight = rows = 0
        for batch in reader:
            if together and (
                weight + batch.nbytes > self._chunk_bytes or rows + batch.num_rows > self._chunk_rows
            ):
                yield from self._cut(pa.Table.from_batches(together))
                together, weight, rows = [], 0, 0
            together.append(batch)
            weight += batch.nbytes
            rows += batch.num_rows
        if together:
            yield from self._cut(pa.Table.from_batches(together))

    def _cut(self, table: pa.Table) -> Generator[pa.Table, None, None]:
        """Yields slices within the bounds; tables are halved, since rows may differ in size."""
        rows = table.num_rows
        if rows > 1 and (rows > self._chunk_rows or table.nbytes > self._chunk_bytes):
            first, second = table.slice(0, rows // 2), table.slice(rows // 2)
            # Halves that share most of their bytes get no smaller by cutting on.
            if rows > self._chunk_rows or first.nbytes + second.nbytes < _SHARED * table.nbytes:
                del table
                yield from self._cut(first)
                yield from self._cut(second)
                return
        if rows:
            self._check_names(tuple(table.column_names), None)
            self._before += rows
            yield table

    def _weighed(self, table: pa.Table) -> None:
        """Sets the number of rows to convert next by the bytes of those converted."""
        fitting = int(self._chunk_bytes * table.num_rows / max(table.nbytes, 1))
        self.step = max(1, min(fitting, _GROWTH * self.step, self._chunk_rows))

    # --- values -------------------------------------------------------------------

    def _named(self, name: object) -> Field | None:
        if not isinstance(name, str):
            raise InvalidInputError(
                f"column names are text, not {name!r} ({type(name).__name__})", column=repr(name)
            )
        return self._fields.get(name.casefold())

    def _columns(self, data: Mapping[Any, Any]) -> pa.Table:
        """Returns the table of a dict of columns."""
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        for name, values in data.items():
            self._named(name)
            columns[name] = self._column(name, values)
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInputError(
                f"the columns have different numbers of rows: {lengths}; all need the same", lengths=lengths
            )
        return pa.table(columns)

    def _column(self, name: str, values: Any) -> pa.Array | pa.ChunkedArray:
        """Converts one column of a dict of columns, or of a pandas DataFrame."""
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if isinstance(values, list | tuple | range):
            return self._converted(name, values)
        dtype = getattr(values, "dtype", None)
        if getattr(dtype, "kind", None) == "O" and hasattr(values, "tolist"):
            return self._converted(name, values.tolist(), nan_is_null=_is_pandas(values, "Series"))
        try:
            # A pandas Series is converted below, with NaN as null.
            if hasattr(values, "__arrow_c_stream__") and not _is_pandas(values, "Series"):
                return pa.chunked_array(values)
            if dtype is not None or hasattr(values, "__arrow_c_array__"):
                return pa.array(values, from_pandas=_is_pandas(values, "Series"))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInputError(f"column {name!r} cannot be converted: {error}", column=name) from error
        raise InvalidInputError(
            f"column {name!r} is {said(values)}, not a list or an array of values; "
            f"a dict is columns ({{{name!r}: [1, 2]}}), a row goes into a list ([{{{name!r}: 1}}])",
            column=name,
        )

    def _frame(self, frame: Any) -> Generator[pa.Table, None, None]:
        """Yields the tables of a pandas DataFrame; its index is left out."""
        names = list(frame.columns)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(
                f"the DataFrame has two columns called {twice!r}; rename one", column=repr(twice)
            )
        for name in names:
            self._named(name)
        objects = any(getattr(dtype, "kind", None) == "O" for dtype in frame.dtypes)
        begin = 0
        while begin < len(frame) and names:
            part = frame.iloc[begin : begin + (self.step if objects else self._chunk_rows)]
            begin += len(part)
            table = pa.table({name: self._column(name, part[name]) for name in names})
            self._weighed(table)
            yield from self._cut(table)

    def _converted(self, name: str, values: Sequence[Any], *, nan_is_null: bool = False) -> pa.Array:
        field = self._fields.get(name.casefold())
        return column_of(name, values, field, first_row=self._before, nan_is_null=nan_is_null)


def _reader(data: Any) -> pa.RecordBatchReader | None:
    """Returns a reader of an object that provides record batches; None for any other object."""
    try:
        if isinstance(data, pa.RecordBatchReader):
            return data
        if hasattr(data, "to_reader"):
            return data.to_reader()
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
        if hasattr(data, "scanner"):
            return data.scanner().to_reader()
    except (pa.ArrowInvalid, TypeError) as error:
        raise InvalidInputError(
            f"{type(data).__name__} does not hand out rows: {error}; accepted: {ACCEPTED}"
        ) from error
    return None


def _is_pandas(data: object, name: str) -> bool:
    """Returns whether an object is of that class of pandas, without importing pandas."""
    # Another thread may be in the middle of importing it; then no object of it exists yet.
    kind = getattr(sys.modules.get("pandas"), name, None)
    return kind is not None and isinstance(data, kind)


def _not_accepted_error(data: object, row: int | None) -> InvalidInputError:
    where = "" if row is None else f" (after row {row})"
    hint = "; call .collect() first" if type(data).__name__ == "LazyFrame" else ""
    return InvalidInputError(
        f"{said(data)}{where} holds no rows{hint}; accepted: {ACCEPTED}", given=type(data).__name__
    )
