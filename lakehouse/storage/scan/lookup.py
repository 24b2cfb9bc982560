"""Lookups: the newest rows of given keys, found file by file from the newest run down.

Invariant: the first row of a key that is met, from the newest run on, decides: it is the row, or it deletes
the key. Operands of a merge engine do not decide: they are collected, down to the first row that does, and
folded. A file is read only for keys that its bucket, its partition and its range of keys admit and that no
newer run has decided.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import anyio
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys import encode_value
from lakehouse.format.metadata import KIND_COLUMN, FileEntry, FileFormat, RowKind
from lakehouse.format.schema import Field, TableSchema, arrow_field
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files.reader import RunReader, RunSource
from lakehouse.storage.files.sstable import SstableRun
from lakehouse.storage.merge.engines import MergeEngine, fold, merge_engine
from lakehouse.storage.merge.ordering import MergeOrder, kinds_of
from lakehouse.storage.metadata.key_runs import KeyRuns
from lakehouse.storage.metadata.run_order import Unit, interval, units_of
from lakehouse.storage.rows.input_tables import fitted_chunks
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.key_sort import last_of_each
from lakehouse.storage.rows.partitioner import partition_rows
from lakehouse.storage.rows.take import take_from_tables
from lakehouse.storage.schema.columns import fields_named
from lakehouse.storage.schema.row_ttl import Lifetime
from lakehouse.storage.wal.log_memory import HeldRows

__all__ = ["FoundRows", "Lookup", "LookupPlan"]

_CHUNK_BYTES = 64 * 1024 * 1024
"""Size of the tables that given keys are converted in."""
_GET_BYTES = 64 * 1024
"""Bytes at which reading a piece whole costs about as much as a get of one key, its request included."""
_READ_ROWS = 1 << 17
"""Neighbouring pieces are read in one step up to this many rows."""
_MANY_FILES = 4_096
"""Files from which arranging them holds up the event loop."""
_BIG_READS = 8
"""Steps that read whole pieces, under way at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Rows and their keys, by key."""

    keys: pa.Table
    rows: pa.Table

    @classmethod
    def nothing(cls, key_fields: Sequence[Field], fields: Sequence[Field]) -> Self:
        """Returns a result without any row."""
        keys, rows = (
            pa.schema([arrow_field(field) for field in group]).empty_table() for group in (key_fields, fields)
        )
        return cls(keys=keys, rows=rows)

    def places(self, keys: KeyColumns, wanted: pa.Table) -> pa.Array:
        """Returns for each wanted key the number of its row; null where there is none."""
        if not self.keys.num_rows:
            return pa.nulls(wanted.num_rows, pa.int64())
        asked, there = keys.arrays([wanted, self.keys])
        if isinstance(asked, np.ndarray):
            at = np.minimum(np.searchsorted(there, asked), len(there) - 1)
            return pa.array(at, mask=np.asarray(there)[at] != asked)
        return pc.index_in(asked, value_set=there).cast(pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sought:
    """Keys of one merge unit, sorted without repetition, and the unit's runs, oldest first."""

    keys: pa.Table
    runs: list[list[FileEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One read of a file, for some of the wanted keys."""

    asked: I64
    """Places of the keys in the sorted keys of the merge unit."""
    pieces: list[int] | None = None
    """Numbers of the pieces to read whole; None = a get of the only key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hits:
    """Rows found in one file, with their kinds where not all are inserts."""

    at: I64
    """For each row, the place of its key in the sorted keys of the merge unit."""
    rows: pa.Table


class LookupPlan:
    """Preparation that all lookups in a snapshot share, whatever their keys: made once, when it is needed.

    Args:
        entries: live files, with their positions filled in.
        schema: the snapshot's schema, with a primary key.
        shows: which rows the snapshot shows; None = all.
    """

    def __init__(
        self, entries: Sequence[FileEntry], schema: TableSchema, *, shows: Lifetime | None = None
    ) -> None:
        self.entries = entries
        self.schema = schema
        self.keys = KeyColumns(schema.key_fields)
        self.engine = merge_engine(schema) if schema.merging.is_mergeable else None
        self.shows = shows

    @cached_property
    def runs(self) -> KeyRuns:
        """The files as lookups of single keys search them."""
        return KeyRuns(self.entries, self.schema)

    @cached_property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns where the key says them; else none."""
        return self.schema.partition_fields if self.schema.key_holds_partition else ()

    @cached_property
    def totals(self) -> frozenset[int]:
        """The numbers of buckets that the files have."""
        return frozenset(entry.total_buckets for entry in self.entries)

    @cached_property
    def units(self) -> dict[Unit, list[list[FileEntry]]]:
        """The files as lookups of many keys go through them."""
        return units_of(self.entries, self.schema)

    async def prepare(self) -> None:
        """Arranges the files for lookups of single keys, in a thread if that would hold up the event loop."""
        if "runs" not in self.__dict__ and len(self.entries) > _MANY_FILES:
            await in_thread(lambda: self.runs)


class Lookup:
    """Finds rows by key in the live files of a snapshot.

    Args:
        entries: live files, with their positions filled in.
        schema: the snapshot's schema, with a primary key.
        source: opens the files.
        shows: which rows the snapshot shows; None = all.
        plan: what is known of the same files, schema and lifetime already; None = nothing.
        held: rows in memory above all of these, which :meth:`get` looks at first; None = there are none.
            The other methods look at the files alone.
    """

    __slots__ = ("_at_once", "_engine", "_held", "_keys", "_plan", "_schema", "_shows", "_source")

    def __init__(
        self,
        entries: Sequence[FileEntry],
        schema: TableSchema,
        source: RunSource,
        *,
        shows: Lifetime | None = None,
        plan: LookupPlan | None = None,
        held: HeldRows | None = None,
    ) -> None:
        self._held = held
        self._plan = plan = plan or LookupPlan(entries, schema, shows=shows)
        self._schema = plan.schema
        self._keys = plan.keys
        self._engine = plan.engine
        self._shows = plan.shows
        self._source = source
        self._at_once = source.settings.lookup_concurrency

    # --- one key -----------------------------------------------------------------

    async def get(
        self, key: Mapping[str, object], *, columns: Sequence[str] | None = None
    ) -> dict[str, Any] | None:
        """Returns the row of a key, with these columns (None = all), or None."""
        fields = fields_named(self._schema, columns)
        encoded = self._encoded(key)
        await self._plan.prepare()
        candidates = self._plan.runs.newest_first(encoded, self._partition(key))
        if self._engine is None and self._shows is None:
            return await self._newest(encoded, candidates, fields)
        looked_at = self._looked_at(fields)
        if self._engine is not None:
            row = await self._folded(self._engine, encoded, candidates, looked_at)
        else:
            row = await self._newest_row(encoded, candidates, looked_at)
        if row is None or (self._shows is not None and not self._shows.shown(row)[0].as_py()):
            return None
        return _as_dict(row, fields)

    def _looked_at(self, fields: Sequence[Field]) -> tuple[Field, ...]:
        """Returns the columns, and the one that decides whether a row is shown."""
        if self._shows is None or self._shows.field in fields:
            return tuple(fields)
        return *fields, self._shows.field

    async def _newest(
        self, key: bytes, newest_first: Sequence[FileEntry], fields: Sequence[Field]
    ) -> dict[str, Any] | None:
        """Returns the newest row of the key as a dict, unless it deletes the key."""
        held = [] if self._held is None else await self._held.newest_rows(key, fields)
        if held:
            return None if _is_deleted(held[0]) else _as_dict(held[0], fields)
        for entry in newest_first:
            reader = await self._source.open(entry, self._schema)
            if isinstance(reader, SstableRun) and (shown := reader.values_of(fields)) is not None:
                found = await reader.get_values(key, shown, is_likely=entry is newest_first[-1])
                if found is not None:
                    kind, values = found
                    return None if kind == RowKind.DELETE else values
                continue
            row = await reader.get(key, fields)
            if row.num_rows:
                return None if _is_deleted(row) else _as_dict(row, fields)
        return None

    async def _newest_row(
        self, key: bytes, newest_first: Sequence[FileEntry], columns: Sequence[Field]
    ) -> pa.Table | None:
        """Returns the newest row of the key, unless it deletes the key."""
        held = [] if self._held is None else await self._held.newest_rows(key, columns)
        if held:
            return None if _is_deleted(held[0]) else held[0]
        for entry in newest_first:
            reader = await self._source.open(entry, self._schema)
            row = await reader.get(key, columns)
            if row.num_rows:
                return None if _is_deleted(row) else row
        return None

    async def _folded(
        self, engine: MergeEngine, key: bytes, newest_first: Sequence[FileEntry], fields: Sequence[Field]
    ) -> pa.Table | None:
        """Returns the fold of the key's rows, down to and including the newest that is no operand."""
        columns = engine.needed(fields)

        async def read(entry: FileEntry) -> pa.Table:
            return await (await self._source.open(entry, self._schema)).get(key, columns)

        met = [] if self._held is None else await self._held.newest_rows(key, columns)
        left = list(newest_first)
        while left and not _is_decided(met):
            # Files of nothing but operands decide nothing, so the next one is read concurrently.
            count = 1 + sum(1 for _ in itertools.takewhile(_has_only_operands, left))
            batch, left = left[:count], left[count:]
            tables = map_bounded(read, batch, self._at_once)
            async with aclosing(tables):
                met += [table async for table in tables if table.num_rows]
        if not met:
            return None
        met.reverse()
        order = MergeOrder(rows=np.arange(len(met)), ends=np.arange(len(met)) == len(met) - 1)
        row = fold(order, met, engine, finish=True)
        return row if row.num_rows else None

    def _encoded(self, key: Mapping[str, object]) -> bytes:
        if key.keys() != self._keys.name_set:
            raise InvalidInputError(
                f"a key has the columns {', '.join(self._schema.primary_key)}, "
                f"not {', '.join(map(str, key)) or 'none'}",
                expected=self._schema.primary_key,
                got=tuple(key),
            )
        return self._keys.codec.encode_one([key[name] for name in self._keys.names])

    def _partition(self, key: Mapping[str, object]) -> tuple[bytes, ...]:
        """Returns the encoded partition of a key that says it; else nothing."""
        fields = self._plan.partition_fields
        return tuple([encode_value(key[field.name], field.type) for field in fields]) if fields else ()

    # --- many --------------------------------------------------------------------

    async def get_many(self, keys: object, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the rows of keys, by key; keys without a row are left out.

        Args:
            keys: anything that holds rows, of the key's columns and no others; order and repetition
                do not matter.
            columns: names, in order; None = all.
        """
        schema = self._schema.key_schema()
        tables = [table async for table in fitted_chunks(keys, schema, chunk_bytes=_CHUNK_BYTES)]
        rows = pa.concat_tables(tables) if tables else schema.arrow().empty_table()
        return (await self.find(rows, fields_named(self._schema, columns))).rows

    async def find(self, keys: pa.Table, fields: Sequence[Field]) -> FoundRows:
        """Returns the rows of keys, given as a table of the key's columns in any order, repetitions too."""
        result = await self._find(keys, self._looked_at(fields))
        if self._shows is None:
            return result
        shown = self._shows.shown(result.rows)
        names = [field.name for field in fields]
        return FoundRows(keys=result.keys.filter(shown), rows=result.rows.filter(shown).select(names))

    async def without(self, keys: pa.Table) -> pa.Table:
        """Returns those of the keys, each given once, without any row in these files, deletes included."""
        met = await self._find(keys, self._schema.key_fields, deletions=True)
        if not met.keys.num_rows:
            return keys
        have, given = (
            pa.array(array) if isinstance(array, np.ndarray) else array
            for array in self._keys.arrays([met.keys, keys])
        )
        return keys.filter(pc.invert(pc.is_in(given, value_set=have)))

    async def _find(self, keys: pa.Table, fields: Sequence[Field], *, deletions: bool = False) -> FoundRows:
        unit_lookup = _UnitLookup(
            self._source,
            self._schema,
            self._keys,
            fields,
            None if deletions else self._engine,  # to know which keys have rows, nothing is folded
            deletions=deletions,
        )
        sought = await in_thread(self._sought, keys)
        results = [unit async for unit in map_bounded(unit_lookup.find, sought, self._at_once)]
        if len(results) == 1:
            return results[0]
        if not results:
            return FoundRows.nothing(self._schema.key_fields, fields)
        return await in_thread(self._by_key, results)

    def _sought(self, keys: pa.Table) -> list[_Sought]:
        """Groups the keys by merge unit, each with the unit's runs."""
        if not keys.num_rows or not self._plan.entries:
            return []
        if len(self._plan.totals) > 1:
            # No bucket number narrows the search then; positions hold across all files.
            runs: dict[Any, list[FileEntry]] = {}
            for entry in self._plan.entries:
                runs.setdefault(interval(entry), []).append(entry)
            (part,) = partition_rows(keys, replace(self._schema, buckets=1), partition_fields=())
            return [_Sought(keys=part.rows(), runs=[runs[at] for at in sorted(runs)])]
        units, (total,) = self._plan.units, self._plan.totals
        parts = partition_rows(
            keys,
            replace(self._schema, buckets=total),
            partition_fields=self._plan.partition_fields,
        )
        return [
            _Sought(keys=part.rows(), runs=units[part.partition, part.bucket])
            for part in parts
            if (part.partition, part.bucket) in units
        ]

    def _by_key(self, found: list[FoundRows]) -> FoundRows:
        """Joins the results of several merge units, sorted by key."""
        keys = pa.concat_tables([unit.keys for unit in found]).combine_chunks()
        (arrays,) = self._keys.arrays([keys])
        order = last_of_each(arrays)
        return FoundRows(
            keys=take_from_tables([keys], order), rows=take_from_tables([unit.rows for unit in found], order)
        )


def _is_decided(rows: Sequence[pa.Table]) -> bool:
    """Returns whether one of a key's rows hides everything older."""
    return any(row.column(KIND_COLUMN)[0].as_py() != RowKind.UPDATE for row in rows)


class _UnitLookup:
    """Finds the rows of keys in merge units, one by one."""

    def __init__(
        self,
        source: RunSource,
        schema: TableSchema,
        keys: KeyColumns,
        fields: Sequence[Field],
        engine: MergeEngine | None,
        *,
        deletions: bool,
    ) -> None:
        self._source, self._schema = source, schema
        self._keys = keys
        self._deletions = deletions
        self._engine = engine
        self._wanted = tuple(fields)
        self._fields = self._wanted if engine is None else engine.needed(fields)
        self._all_fields = tuple({field.id: field for field in (*keys.fields, *self._fields)}.values())
        self._at_once = source.settings.lookup_concurrency
        self._reads = anyio.CapacityLimiter(self._at_once)
        self._big_reads = anyio.CapacityLimiter(_BIG_READS)

    async def find(self, sought: _Sought) -> FoundRows:
        """Returns the keys' newest rows in this merge unit, reading runs from the newest down."""
        names = self._keys.encoded(sought.keys).to_pylist()
        left = np.arange(len(names))
        hits: list[_Hits] = []
        for run in reversed(sought.runs):
            if not len(left):
                break
            asked = [(entry, _between(left, names, entry.min_key, entry.max_key)) for entry in run]

            async def look(item: tuple[FileEntry, I64]) -> list[_Hits]:
                return await self._look(item[0], item[1], names, sought.keys)

            work = [item for item in asked if len(item[1])]
            async for met in map_bounded(look, work, self._at_once):
                hits += met
                left = np.setdiff1d(left, np.concatenate([_NONE, *map(self._decided, met)]), True)
        return await in_thread(self._gathered, sought.keys, hits)

    def _decided(self, hits: _Hits) -> I64:
        """Returns the places of the keys that need no older row."""
        if self._engine is None:
            return hits.at
        kinds = kinds_of([hits.rows])
        return hits.at if kinds is None else hits.at[kinds != RowKind.UPDATE]

    async def _look(self, entry: FileEntry, asked: I64, names: list[bytes], keys: pa.Table) -> list[_Hits]:
        """Reads the rows of these keys in one file."""
        async with self._reads:
            reader = await self._source.open(entry, self._schema)

        async def read(step: _Step) -> _Hits:
            if step.pieces is None:
                async with self._reads:
                    table = await reader.get(names[step.asked[0]], self._fields)
                return _Hits(at=step.asked[: table.num_rows], rows=table)
            async with self._big_reads:
                kinds = entry.deletes > 0 or (self._engine is not None and entry.updates > 0)
                table = await reader.read(self._all_fields, step.pieces, kinds=kinds)
                return await in_thread(self._matched, step.asked, keys, table)

        steps = _steps(reader, asked, names)
        return [hits async for hits in map_bounded(read, steps, self._at_once)]

    def _matched(self, asked: I64, keys: pa.Table, table: pa.Table) -> _Hits:
        """Picks the rows of the table that have one of the keys."""
        wanted, there = self._keys.arrays([keys.take(pa.array(asked)), table])
        if isinstance(wanted, np.ndarray):
            rows = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
            matched = np.flatnonzero(np.asarray(there)[rows] == wanted)
            rows = rows[matched]
        else:
            of_rows = pc.index_in(there, value_set=wanted).fill_null(-1).to_numpy()
            rows = np.flatnonzero(of_rows >= 0)
            matched = of_rows[rows]
        names = [field.name for field in self._fields]
        kept = table.select([*names, *({KIND_COLUMN} & set(table.column_names))])
        return _Hits(at=asked[matched], rows=take_from_tables([kept], rows))

    def _gathered(self, keys: pa.Table, hits: list[_Hits]) -> FoundRows:
        """Returns the rows that do not delete their key, by key."""
        names = [field.name for field in self._wanted]
        hits = [hit for hit in hits if len(hit.at)]
        if not hits:
            return FoundRows.nothing(self._keys.fields, self._wanted)
        if self._engine is not None:
            return self._folded(self._engine, keys, hits[::-1])
        at = np.concatenate([hit.at for hit in hits])
        # Runs were read newest first and a decided key is asked for no more: at most one row of each is here.
        kinds = kinds_of([hit.rows for hit in hits])
        order = np.argsort(at)
        if kinds is not None and not self._deletions:
            order = order[kinds[order] != RowKind.DELETE]
        return FoundRows(
            keys=take_from_tables([keys], at[order]),
            rows=take_from_tables([hit.rows.select(names) for hit in hits], order),
        )

    def _folded(self, engine: MergeEngine, keys: pa.Table, oldest_first: list[_Hits]) -> FoundRows:
        """Folds the rows of each key."""
        at = np.concatenate([hit.at for hit in oldest_first])
        rows = np.argsort(at, kind="stable")
        ordered = at[rows]
        order = MergeOrder(rows=rows, ends=np.append(ordered[1:] != ordered[:-1], True))
        tables = [hit.rows for hit in oldest_first]
        folded = fold(order, tables, engine, finish=True)
        kept = ordered[order.ends][engine.live_keys(order, tables)]
        return FoundRows(
            keys=take_from_tables([keys], kept), rows=folded.select([field.name for field in self._wanted])
        )


_NONE = np.empty(0, np.int64)


def _is_deleted(row: pa.Table) -> bool:
    return bool(row.column(KIND_COLUMN)[0].as_py() == RowKind.DELETE)


def _as_dict(row: pa.Table, fields: Sequence[Field]) -> dict[str, Any]:
    # Column by column: rows take to_pylist twice as long.
    values = row.to_pydict()
    return {field.name: values[field.name][0] for field in fields}


def _has_only_operands(entry: FileEntry) -> bool:
    return entry.updates == entry.rows


def _between(asked: I64, names: list[bytes], low: bytes | None, high: bytes | None) -> I64:
    """Returns the places of the keys that are in a range, both ends included."""
    begin, end = bisect_left(names, low or b""), bisect_right(names, high or b"")
    found: I64 = asked[np.searchsorted(asked, begin) : np.searchsorted(asked, end)]
    return found


def _steps(reader: RunReader, asked: I64, names: list[bytes]) -> list[_Step]:
    """Decides how to read the rows of these keys: a few one by one, many by reading their pieces."""
    steps = []
    pieces: list[int] = []
    keys: list[I64] = []
    rows = 0
    by_blocks = reader.entry.format is FileFormat.SSTABLE
    for number, piece in enumerate(reader.pieces):
        here = _between(asked, names, piece.min_key, piece.max_key)
        # A get of a file by columns reads the piece anyway.
        few = piece.size // _GET_BYTES if by_blocks else 1
        if len(here) <= few:
            steps += [_Step(asked=here[at : at + 1]) for at in range(len(here))]
            continue
        if pieces and rows + piece.rows > _READ_ROWS:
            steps.append(_Step(asked=np.concatenate(keys), pieces=pieces))
            pieces, keys, rows = [], [], 0
        pieces.append(number)
        keys.append(here)
        rows += piece.rows
    if pieces:
        steps.append(_Step(asked=np.concatenate(keys), pieces=pieces))
    return steps
