"""What a user hands in becomes Arrow tables of bounded size, in the order of the rows.

Invariant: no table is larger than asked for, except one row that is; big inputs that are Arrow already
are sliced, never copied. Whatever may block (readers, generators, conversion) runs in a thread, one
step at a time, so a source is asked for more only when there is room for it.
"""

from __future__ import annotations

import contextlib
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
from lakehouse.format.schema import Field
from lakehouse.io.work import in_own_thread
from lakehouse.storage.rows.python_values import column_of, said

__all__ = ["ACCEPTED", "CheckNames", "chunks_of", "marks_of"]

ACCEPTED = (
    "a pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner, a pandas or polars DataFrame, "
    "anything else with __arrow_c_stream__ or __arrow_c_array__, a list of dicts, a dict of lists, "
    "or an iterable or async iterable of such tables or of dicts"
)
"""What may be handed in, in words for messages."""

CheckNames = Callable[[Collection[str], int | None], None]
"""Looks at the names of the columns that rows come with: of a table of them, or of the dict that is the row
of that number. It is called once for each set of names, and raises what it does not accept."""
_SETS_MAX = 1_000
"""Sets of names that are remembered as looked at."""
_MARK = "\0given"
"""How the names of columns end that say which rows have a value of their own, even null."""

_ROWS_FIRST = 4_096
"""Rows of Python objects converted first; how much they weigh says how many come next."""
_GROWTH = 8
_SHARED = 1.6
"""The halves of a table weigh this much more than the table when they share bytes (a dictionary, views)."""


async def chunks_of(
    data: object,
    fields: Sequence[Field],
    *,
    chunk_bytes: int,
    chunk_rows: int = 1 << 23,
    check: CheckNames | None = None,
    marks: bool = False,
) -> AsyncGenerator[pa.Table, None]:
    """The rows of anything a user may hand in, as tables of at most so many bytes and rows.

    Columns keep the names and types they came with; :func:`lakehouse.storage.rows.fit_to_schema.conform`
    judges both. A dict at the top is columns, a dict inside an iterable is a row; a row without a field has
    its ``write_default``. Tables without rows are left out. Generators are closed when the iteration ends
    early.

    Args:
        data: see :data:`ACCEPTED`.
        fields: the table's columns, which tell what Python values mean.
        chunk_bytes: of Arrow data in one table.
        chunk_rows: rows in one table.
        check: looks at the columns of rows, before these are handed on.
        marks: a table of dicts tells which of them lack a column that others have (:func:`marks_of`).

    Raises:
        InvalidInputError: what was handed in is none of these, or a value does not fit its column;
            says which column, row and value.
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
    """A table that was made with ``marks``: its rows, and of columns that some rows lack, which have them."""
    marks = {
        name.removesuffix(_MARK): table.column(name) for name in table.column_names if name.endswith(_MARK)
    }
    return table.drop_columns([name + _MARK for name in marks]), marks


async def _converted_items(intake: _Intake, items: AsyncIterable[Any]) -> AsyncGenerator[pa.Table, None]:
    """The tables of an asynchronous iterable of rows or tables."""
    rows: list[Mapping[Any, Any]] = []
    try:
        async for item in items:
            is_row = isinstance(item, Mapping)
            if is_row:
                rows.append(item)
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
    """What a generator yields, each step in a thread: it may wait for whatever its user made it of."""
    try:
        while (table := await in_own_thread(next, tables, None)) is not None:
            yield table
    finally:
        with anyio.CancelScope(shield=True):
            await in_own_thread(tables.close)


class _Intake:
    """Converts, synchronously; counts rows, so that errors can name one."""

    def __init__(
        self,
        fields: Sequence[Field],
        chunk_bytes: int,
        chunk_rows: int,
        *,
        check: CheckNames | None,
        marks: bool,
    ) -> None:
        self._fields = {one.name.casefold(): one for one in fields}
        self._chunk_bytes = chunk_bytes
        self._chunk_rows = chunk_rows
        self._check, self._marks = check, marks
        self._checked: set[tuple[str, ...]] = set()
        self._before = 0
        """Rows that were handed on already."""
        self.step = min(_ROWS_FIRST, chunk_rows)
        """Rows of Python objects to convert at once."""

    def tables(self, data: Any, *, top: bool = False) -> Generator[pa.Table, None, None]:
        """The tables of anything that is not asynchronous; ``top`` = it is no item of an iterable."""
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
            raise _not_accepted(data, None if top else self._before)

    def rows(self, rows: Sequence[Mapping[Any, Any]]) -> Generator[pa.Table, None, None]:
        """The tables of some rows."""
        if not rows:
            return
        columns: dict[str, pa.Array] = {}
        marked: dict[str, pa.Array] = {}
        for name in dict.fromkeys(itertools.chain.from_iterable(rows)):
            field = self._named(name)
            default = field.write_default if field is not None else None
            columns[name] = self._converted(name, [row.get(name, default) for row in rows])
            if self._marks and not all(name in row for row in rows):
                marked[name + _MARK] = pa.array([name in row for row in rows])
        for number, row in enumerate(rows) if self._check is not None else ():
            self._look_at(tuple(row), self._before + number)
        if not columns:
            raise InvalidInputError(
                f"row {self._before} is an empty dict; a row has its values by column name", row=self._before
            )
        table = pa.table({**columns, **marked})
        self._weighed(table)
        yield from self._cut(table)

    def _look_at(self, names: tuple[str, ...], row: int | None) -> None:
        """Has the names of columns checked, if that was not done yet."""
        if self._check is None or names in self._checked:
            return
        self._check(names, row)
        if len(self._checked) >= _SETS_MAX:
            self._checked.clear()
        self._checked.add(names)

    def _items(self, items: Iterable[Any]) -> Generator[pa.Table, None, None]:
        """The tables of an iterable of rows or tables."""
        source = iter(items)
        try:
            ended = False
            while not ended:
                rows, other = [], None
                for item in itertools.islice(source, self.step):
                    if not isinstance(item, Mapping):
                        other = item
                        break
                    rows.append(item)
                ended = other is None and len(rows) < self.step
                yield from self.rows(rows)
                if other is not None:
                    yield from self.tables(other)
        finally:
            if isinstance(items, Generator):
                items.close()

    def _batches(self, reader: pa.RecordBatchReader) -> Generator[pa.Table, None, None]:
        """Neighbouring small batches share a table, large ones are cut."""
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
        """Slices within the bounds; halves, since rows may weigh differently."""
        rows = table.num_rows
        if rows > 1 and (rows > self._chunk_rows or table.nbytes > self._chunk_bytes):
            first, second = table.slice(0, rows // 2), table.slice(rows // 2)
            if rows > self._chunk_rows or first.nbytes + second.nbytes < _SHARED * table.nbytes:
                del table
                yield from self._cut(first)
                yield from self._cut(second)
                return
        if rows:
            self._look_at(tuple(table.column_names), None)
            self._before += rows
            yield table

    def _weighed(self, table: pa.Table) -> None:
        """Learns from converted rows how many to convert next."""
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
        """The table of a dict of columns."""
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
        """One column of a dict of columns, or of a pandas DataFrame."""
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if isinstance(values, list | tuple | range):
            return self._converted(name, values)
        dtype = getattr(values, "dtype", None)
        if getattr(dtype, "kind", None) == "O" and hasattr(values, "tolist"):
            return self._converted(name, values.tolist(), nan_is_null=_is_pandas(values, "Series"))
        try:
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
        """The tables of a pandas DataFrame; its index is left out."""
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
    """A reader of what hands out record batches; None for anything else."""
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
    """Whether it is of that class of pandas, which is not imported for it."""
    # Another thread may be in the middle of importing it; then nobody has anything of it yet.
    kind = getattr(sys.modules.get("pandas"), name, None)
    return kind is not None and isinstance(data, kind)


def _not_accepted(data: object, row: int | None) -> InvalidInputError:
    where = "" if row is None else f" (after row {row})"
    hint = "; call .collect() first" if type(data).__name__ == "LazyFrame" else ""
    return InvalidInputError(
        f"{said(data)}{where} holds no rows{hint}; accepted: {ACCEPTED}", given=type(data).__name__
    )
