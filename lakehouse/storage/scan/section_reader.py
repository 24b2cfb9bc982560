"""Reader of sections: fetches, merges and filters their parts, and assembles the rows that remain.

With a condition, keys and the columns of the condition are decoded first, the other columns only of pieces
in which rows remain. These are fetched then, or, for conditions that most pieces have rows for, beforehand
in the same requests.

Where a merge engine computes rows out of several, all columns of a section that is merged are read at
once; where it picks one of them, the columns that decide which are read with the keys.

Invariant: the condition is applied to merged rows, never before the merge. The rows of a section
come in key order.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakKeyDictionary

import anyio
import numpy as np
import pyarrow as pa

from lakehouse.expr import Expr, matching
from lakehouse.format.metadata import KIND_COLUMN, FileEntry, FileFormat, RowKind
from lakehouse.format.schema import Field, arrow_field
from lakehouse.index.search import RowSelection
from lakehouse.io.cost import counting
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.kernels.arrays import I64, Mask
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.merge.engines import MergeEngine, fold
from lakehouse.storage.merge.ordering import kinds_of, merge_order, survivors, with_kinds
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.row_size import RowSize, value_width
from lakehouse.storage.rows.take import take_from_tables, without_columns
from lakehouse.storage.scan.report import ScanReport
from lakehouse.storage.scan.section_rows import PartHits, PartRows, among_wanted, candidates, hits
from lakehouse.storage.scan.sections import Section, SectionPart

__all__ = ["ScanOutput", "SectionReader"]

_WORTH_A_REQUEST = 1024 * 1024
"""A two-step read must save at least this many bytes to pay for its extra round trip."""
_ROWS_ASKED = 16_384
"""Minimum rows that are worth a thread of their own when the condition is evaluated."""
_MANY = 0.6
"""Share of pieces with matching rows from which all columns are fetched at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOutput:
    """Rows and columns that a scan is to return."""

    fields: tuple[Field, ...]
    """Columns to return, in order."""
    where: Expr | None = None
    """Condition, bound to the schema; None = every row."""
    where_fields: tuple[Field, ...] = ()
    """Columns that the condition reads."""
    key_fields: tuple[Field, ...] = ()
    """Columns of the primary key; none in append-only tables."""
    deletions: bool = False
    """Whether keys whose newest row deletes them are returned too, as any other row."""
    engine: MergeEngine | None = None
    """Engine that folds the rows of a key, with ``deletions`` into what they are for older ones; None = the
    newest row hides the others."""

    def with_needed(self, *fields: Sequence[Field]) -> tuple[Field, ...]:
        """Returns these columns, each once, and those that the engine needs to merge them."""
        every = _together(*fields)
        return every if self.engine is None else self.engine.needed(every)


_Cut = tuple[bytes | None, bytes | None]


class _Shared:
    """Rows of a part that several sections use: the first takes all of them, the others its last piece."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.whole: pa.Table | None = None
        """All rows, until the first section has taken them."""
        self.last: pa.Table | None = None
        """Rows of the last piece; None until the part is read."""


class SectionReader:
    """Reads the sections of one scan.

    Args:
        wanted: rows and columns to return.
        size: estimate that learns from the rows read.
        report: counts the sections and pieces read.
        selections: rows that may match according to indexes, by the file's path; other files have none.
        concurrency: parts of a section that are read at once.
    """

    def __init__(
        self,
        wanted: ScanOutput,
        size: RowSize,
        report: ScanReport,
        selections: Mapping[str, RowSelection] | None = None,
        *,
        concurrency: int,
    ) -> None:
        self._wanted = wanted
        self._concurrency = concurrency
        self._selections = selections or {}
        self.schema = pa.schema([arrow_field(field) for field in wanted.fields])
        """Arrow schema of the rows returned."""
        self._names = self.schema.names
        self._rest = [field for field in wanted.fields if field not in wanted.where_fields]
        self._where_names = [field.name for field in wanted.where_fields]
        self._keys = KeyColumns(wanted.key_fields) if wanted.key_fields else None
        self._size = size
        self._report = report
        self._shared: WeakKeyDictionary[SectionPart, _Shared] = WeakKeyDictionary()
        self._share = 0.0
        """Running mean of the share of pieces in which rows passed the condition."""

    async def read(self, section: Section) -> pa.Table:
        """Returns the wanted rows of the section, by key."""
        engine = self._wanted.engine
        filters = self._wanted.where is not None and (
            (engine is not None and section.merges)
            or not all(part.matches for part in section.parts if part.wanted)
        )
        first = self._wanted.where_fields if filters else ()
        every = _together(first, self._wanted.fields)
        waits = filters and self._is_worth_waiting(section)
        fields = first if waits else every
        later = every if waits and self._share > _MANY else ()
        if section.merges:
            fields, later = self._wanted.with_needed(fields), later and self._wanted.with_needed(later)
        rows = await self._load_all(section, fields, later)
        self._report.saw(section)
        if engine is not None and section.merges and (self._wanted.deletions or not engine.picks_one_row):
            return await in_thread(self._fold, engine, rows, filters)
        wanted = [part_rows for part_rows in rows if part_rows.part.wanted]
        has_all = all(name in part_rows.table.column_names for part_rows in wanted for name in self._names)
        if has_all and not filters:
            return await in_thread(self._merge, section, rows)
        kept = await in_thread(self._keep, section, rows)
        if filters:
            kept = await self._passing(wanted, kept)
        if not has_all:
            return await self._fetch_rest(wanted, kept)
        if kept is not None:
            self._note_share(wanted, hits(wanted, kept))
        return await in_thread(self._taken, wanted, kept)

    def _is_worth_waiting(self, section: Section) -> bool:
        """Returns whether to decode the condition's columns first, and others only for rows that pass."""
        if not self._rest or self._computes(section):
            return False
        wanted = [part for part in section.parts if part.wanted]
        if any(part.reader.entry.format is not FileFormat.PARQUET for part in wanted):
            return False  # blocks of an SSTable are fetched with all their columns
        size = sum(part.reader.pieces[number].size for part in wanted for number in part.pieces)
        every = sum(value_width(field) for field in _together(self._wanted.where_fields, self._wanted.fields))
        return size * sum(map(value_width, self._rest)) / every >= _WORTH_A_REQUEST

    def _computes(self, section: Section) -> bool:
        """Returns whether rows are folded in this section, or in another one that shares a part with it."""
        if self._wanted.engine is None or self._wanted.engine.picks_one_row:
            return False
        is_shared = any(part.spans or part not in section.fresh for part in section.parts)
        return section.merges or is_shared

    # --- reading -----------------------------------------------------------------

    async def _load_all(
        self, section: Section, fields: Sequence[Field], later: Sequence[Field]
    ) -> list[PartRows]:
        """Reads the rows of all parts within the section, in the order that their numbers are counted in.

        Columns for later are fetched too, and not decoded.
        """
        parts = section.parts if section.merges else sorted(section.parts, key=lambda part: part.low)

        async def load(part: SectionPart) -> PartRows:
            needs_keys = section.merges or part.spans or cuts[part] != (None, None)
            columns = _together(self._wanted.key_fields if needs_keys else (), fields if part.wanted else ())
            if not part.spans:
                reader = await self._loaded(part, columns, later)
                table = await self._fetch(part, columns, part.pieces, reader)
                return PartRows(part=part, table=table, rest=reader)
            if part.wanted:  # the next section may have to look at the condition, and to merge
                columns = self._wanted.with_needed(columns, self._wanted.where_fields, later)
            return await self._shared_rows(part, columns, is_first=part in section.fresh)

        cuts = {part: section.cuts(part) for part in parts}
        rows = [loaded async for loaded in map_bounded(load, parts, self._concurrency)]
        if all(cut == (None, None) for cut in cuts.values()):
            return rows
        return await in_thread(self._cut, rows, cuts)

    async def _shared_rows(self, part: SectionPart, fields: Sequence[Field], *, is_first: bool) -> PartRows:
        """Returns the rows of a part that reaches into the next section; the first to need it reads it."""
        shared = self._shared.setdefault(part, _Shared())
        skipped = part.rows_before_last
        async with shared.lock:
            if shared.last is None:
                shared.whole = shared.last = await self._fetch(part, fields, part.pieces, part.reader)
                if skipped:  # a copy, so that the rest can be forgotten
                    last = shared.whole.slice(skipped)
                    shared.last = await in_thread(take_from_tables, [last], np.arange(last.num_rows))
        if not is_first:
            return PartRows(part=part, table=shared.last, skipped=skipped, rest=part.reader)
        # Handed over and not kept, so that only the last piece stays in memory for the next section.
        whole, shared.whole = shared.whole, None
        assert whole is not None  # there is one first section
        return PartRows(part=part, table=whole, rest=part.reader)

    def _cut(self, rows: Sequence[PartRows], cuts: dict[SectionPart, _Cut]) -> list[PartRows]:
        """Returns the rows of the parts that lie in the section."""
        inside = []
        for part_rows in rows:
            low, high = cuts[part_rows.part]
            begin, end = 0, part_rows.table.num_rows
            if self._keys is not None:
                begin = self._keys.rows_below(part_rows.table, low) if low is not None else begin
                end = self._keys.rows_below(part_rows.table, high) if high is not None else end
            table = part_rows.table.slice(begin, end - begin)
            inside.append(replace(part_rows, table=table, skipped=part_rows.skipped + begin))
        return inside

    async def _loaded(self, part: SectionPart, columns: Sequence[Field], later: Sequence[Field]) -> RunReader:
        """Returns a reader of the part that has fetched the columns to be decoded now and later."""
        if not later or not part.wanted:
            return part.reader
        with counting(self._report.cost):
            return await part.reader.load(
                _together(columns, later), part.pieces, kinds=self._has_kinds(part.reader.entry)
            )

    async def _fetch(
        self,
        part: SectionPart,
        fields: Sequence[Field],
        pieces: Sequence[int],
        reader: RunReader,
        *,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Reads columns of pieces; with ``rows`` only those, which are known not to delete anything."""
        kinds = part.wanted and rows is None and self._has_kinds(part.reader.entry)
        if not fields and not kinds:
            return without_columns(sum(part.piece_rows))
        with counting(self._report.cost):
            table = await reader.read(fields, pieces, kinds=kinds, rows=rows)
        if rows is None:
            self._size.learn(table)
        return table

    def _has_kinds(self, entry: FileEntry) -> bool:
        """Returns whether the kinds of a file's rows matter and are not all the same."""
        is_mixed = self._wanted.engine is not None and 0 < entry.updates < entry.rows
        return entry.deletes > 0 or is_mixed

    # --- computing ---------------------------------------------------------------

    def _merge(self, section: Section, rows: list[PartRows]) -> pa.Table:
        """Merges rows without a condition, of parts that have all the columns."""
        wanted = [part_rows for part_rows in rows if part_rows.part.wanted]
        return self._taken(wanted, self._keep(section, rows))

    def _taken(self, rows: Sequence[PartRows], kept: I64 | None) -> pa.Table:
        return take_from_tables([part_rows.table.select(self._names) for part_rows in rows], kept)

    def _fold(self, engine: MergeEngine, rows: list[PartRows], filters: bool) -> pa.Table:
        """Folds the rows of all parts, then applies the condition."""
        assert self._keys is not None
        first = self._wanted.where_fields if filters else ()
        fields = self._wanted.with_needed(self._wanted.key_fields, first, self._wanted.fields)
        names = [field.name for field in fields if field.name != KIND_COLUMN]
        tables = [_with_kinds(part_rows, names) for part_rows in rows]
        order = merge_order(self._keys.arrays(tables))
        folded = fold(order, tables, engine, finish=not self._wanted.deletions)
        if self._wanted.deletions and KIND_COLUMN not in folded.column_names:
            folded = with_kinds(folded, None)
        if filters and self._wanted.where is not None:
            folded = folded.filter(matching(self._wanted.where, folded.select(self._where_names)))
        if not self._names:
            return without_columns(folded.num_rows)
        return pa.Table.from_arrays([folded.column(name) for name in self._names], schema=self.schema)

    def _keep(self, section: Section, rows: list[PartRows]) -> I64 | None:
        """Returns the surviving rows by key, counted through the wanted parts; None = all of them."""
        tables = [part_rows.table for part_rows in rows]
        kinds = None if self._wanted.deletions else kinds_of(tables)
        kept: I64 | None = None
        if section.merges and self._keys is not None and self._wanted.engine is not None:
            by = [field.name for field in self._wanted.engine.needed(())]
            order = merge_order(self._keys.arrays(tables))
            kept = self._wanted.engine.picked(order, [_with_kinds(part_rows, by) for part_rows in rows])
        elif section.merges and self._keys is not None:
            kept = survivors(merge_order(self._keys.arrays(tables)), kinds)
            if not all(part_rows.part.wanted for part_rows in rows):
                kept = among_wanted(rows, kept)
        elif kinds is not None and bool((kinds == RowKind.DELETE).any()):
            kept = np.flatnonzero(kinds != RowKind.DELETE)
        return kept

    async def _passing(self, rows: Sequence[PartRows], kept: I64 | None) -> I64:
        """Returns the surviving rows that pass the condition; many are tested in several threads."""
        kept, looked_at = await in_thread(self._looked_at, rows, kept)
        count = max(1, min(pa.cpu_count(), looked_at.num_rows // _ROWS_ASKED))
        bounds = [looked_at.num_rows * at // count for at in range(count + 1)]
        pieces = [looked_at.slice(begin, end - begin) for begin, end in itertools.pairwise(bounds)]
        masks = [mask async for mask in map_bounded(partial(in_thread, self._passes), pieces, count)]
        passed = np.flatnonzero(np.concatenate(masks))
        return passed if kept is None else kept[passed]

    def _looked_at(self, rows: Sequence[PartRows], kept: I64 | None) -> tuple[I64 | None, pa.Table]:
        """Returns the rows that indexes do not exclude, and the columns that the condition reads."""
        if self._selections and (may_match := candidates(rows, self._selections)) is not None:
            kept = np.flatnonzero(may_match) if kept is None else kept[may_match[kept]]
        return kept, take_from_tables([part_rows.table.select(self._where_names) for part_rows in rows], kept)

    def _passes(self, rows: pa.Table) -> Mask:
        assert self._wanted.where is not None
        passes: Mask = matching(self._wanted.where, rows).to_numpy(zero_copy_only=False)
        return passes

    async def _fetch_rest(self, rows: list[PartRows], kept: I64 | None) -> pa.Table:
        """Returns the surviving rows with all their columns, and fetches those that are missing."""
        if kept is None:
            kept = np.arange(sum(part_rows.table.num_rows for part_rows in rows))
        part_hits = hits(rows, kept)
        self._note_share(rows, part_hits)
        here = [
            name for name in self._names if all(name in part_rows.table.column_names for part_rows in rows)
        ]
        rest = [field for field in self._wanted.fields if field.name not in here]
        names = [field.name for field in rest]

        async def fetch(hit: PartHits) -> pa.Table:
            if set(names) <= set(hit.of.table.column_names):  # an earlier section read it whole
                return hit.of.table.take(pa.array(hit.rows - hit.of.skipped)).select(names)
            pieces = [hit.of.part.pieces[number] for number in hit.pieces]
            return await self._fetch(hit.of.part, rest, pieces, hit.of.rest, rows=hit.rows_in_pieces())

        if not part_hits:
            return self.schema.empty_table()
        fetched = [table async for table in map_bounded(fetch, part_hits, self._concurrency)]
        early = take_from_tables([part_rows.table.select(here) for part_rows in rows], kept)
        # They were fetched part by part: back to the order of the keys.
        back = np.argsort(np.concatenate([hit.places for hit in part_hits]))
        late = take_from_tables(fetched, back)
        columns = [(early if name in here else late).column(name) for name in self._names]
        return pa.table(columns, schema=self.schema)

    def _note_share(self, rows: Sequence[PartRows], part_hits: Sequence[PartHits]) -> None:
        pieces = sum(len(part_rows.part.pieces) for part_rows in rows)
        share = sum(len(hit.pieces) for hit in part_hits) / max(1, pieces)
        self._share = (self._share + share) / 2


def _with_kinds(rows: PartRows, names: Sequence[str]) -> pa.Table:
    """Returns these columns of rows, and their kinds unless all are inserts."""
    table, entry = rows.table, rows.part.reader.entry
    if KIND_COLUMN in table.column_names:
        return table.select([*names, KIND_COLUMN])
    table = table.select(names) if names else without_columns(table.num_rows)
    # In a file of operands alone, the kind is known without its column.
    return with_kinds(table, RowKind.UPDATE) if entry.updates else table


def _together(*fields: Sequence[Field]) -> tuple[Field, ...]:
    """Returns all these fields, each once."""
    return tuple({field.id: field for group in fields for field in group}.values())
