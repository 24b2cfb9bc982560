"""Merge engines: fold the rows of each key into one, for all keys at once.

A row is an insert (hides everything older), an operand (is merged onto what is older) or a deletion.
Older and newer are merged so: x∘I = I, x∘D = D, D∘U = I, I∘U = I, U∘U = U. Of the rows of a key
those count that start at its newest insert, or follow its newest deletion; a rule for each column
(:mod:`lakehouse.format.schema.merge_rules`) decides which of them has the value, or how it is computed.

Invariant: folding is associative. The fold of all rows of a key is that of some neighbours, folded
before with operands kept, and the others. A single row of a key is its own fold, because
:meth:`MergeEngine.operands` made it so when it was written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import KIND_COLUMN, RowKind
from lakehouse.format.schema import Aggregate, ColumnRule, Field, TableSchema, type_text
from lakehouse.kernels.arrays import I64, U8, Mask
from lakehouse.storage.merge.computed_values import OutOfRange, computed, own_value
from lakehouse.storage.merge.key_groups import (
    KeyGroups,
    first_where,
    greatest,
    last_where,
    least,
    newest,
    valid,
)
from lakehouse.storage.merge.ordering import MergeOrder, kinds_of, with_kinds
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.key_sort import by_key
from lakehouse.storage.rows.take import take_from_tables

__all__ = ["MergeEngine", "fold", "folded_input", "merge_engine"]


def fold(order: MergeOrder, tables: Sequence[pa.Table], engine: MergeEngine, *, finish: bool) -> pa.Table:
    """Returns one row for each key, by key: the fold of the key's rows, oldest first.

    Args:
        order: of the rows of all tables, counted through
        (:func:`lakehouse.storage.merge.ordering.merge_order`).
        tables: one at least; runs, oldest first, all with the same columns, of the schema that the engine
            was made for, and ``_VALUE_KIND`` where some row is no insert. Columns may be left out, but
            not those that decide a column that is there (:meth:`MergeEngine.needed`).
        engine: of the table (:func:`merge_engine`); plain deduplicate is one too.
        finish: True = the rows as readers see them, and as a bottom run has them: deleted keys are left
            out, operands with nothing older are rows, and there is no ``_VALUE_KIND``. False = a run
            that may lie above older ones: operands stay operands unless an insert or a deletion is
            among the rows below them, and a deleted key is a row of kind DELETE; ``_VALUE_KIND`` is
            last where some row is no insert.

    Raises:
        InvalidInputError: a sum or product has no room in its column; names column, key and value.
    """
    counted = _counted(order, kinds_of(tables))
    if finish:
        counted = counted.live()
    rows = engine.merged(counted.groups, tables)
    if finish or not counted.kinds.any():
        return rows
    return with_kinds(rows, counted.kinds)


def folded_input(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Returns incoming rows by key, those of one key folded in the order given and kept as operands.

    Nothing is copied where no key has several rows, nor where the newest row of a key hides the others.
    Computes, for a thread.
    """
    engine = merge_engine(schema)
    if not engine.is_mergeable:
        return rows
    (keys,) = KeyColumns(schema.key_fields).arrays([rows])
    ordered = by_key(keys)
    if ordered is None or ordered[1].all():
        return rows
    order, ends = ordered
    return fold(MergeOrder(rows=order, ends=ends), [rows], engine, finish=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """The rows of each key that count, and the kind of their fold."""

    groups: KeyGroups
    """Rows that are folded; for a deleted key, the row that deletes it."""
    kinds: U8
    """For each key, INSERT where there is a full row, or a deletion below operands; else UPDATE or DELETE."""

    def live(self) -> _Counted:
        """Returns the keys that are not deleted."""
        is_live = self.kinds != RowKind.DELETE
        if is_live.all():
            return self
        return _Counted(groups=self.groups.chosen(is_live), kinds=self.kinds[is_live])


def _counted(order: MergeOrder, kinds: U8 | None) -> _Counted:
    last = np.flatnonzero(order.ends)
    if kinds is None:  # the newest row of each key is a full one
        groups = KeyGroups(rows=order.rows[last], begins=np.arange(len(last)))
        return _Counted(groups=groups, kinds=np.zeros(len(last), np.uint8))
    first = np.concatenate([np.zeros(1, np.int64), last[:-1] + 1])[: len(last)]
    # The first row that counts: an insert itself, or the row behind a deletion; operands offer none.
    of_rows = kinds[order.rows]
    if bool((of_rows == RowKind.UPDATE).all()):
        groups = KeyGroups(rows=order.rows, begins=first)
        return _Counted(groups=groups, kinds=np.full(len(last), RowKind.UPDATE, np.uint8))
    bases = np.arange(len(of_rows))
    bases[of_rows == RowKind.DELETE] += 1
    bases[of_rows == RowKind.UPDATE] = -1
    bases = np.maximum.reduceat(bases, first)
    # A deletion as the last row leaves nothing behind it.
    is_deleted = bases > last
    begins = np.where(is_deleted, last, np.maximum(bases, first))
    key_kinds = np.where(bases >= 0, RowKind.INSERT, RowKind.UPDATE).astype(np.uint8)
    key_kinds[is_deleted] = RowKind.DELETE
    return _Counted(groups=KeyGroups.of(order.rows, begins, last - begins + 1), kinds=key_kinds)


@functools.lru_cache(maxsize=256)
def merge_engine(schema: TableSchema) -> MergeEngine:
    """Returns the engine of a table, for the columns of one of its schemas."""
    return MergeEngine(schema)


class MergeEngine:
    """Rules for merging the rows of a table's keys. Made by :func:`merge_engine`."""

    __slots__ = ("_fields", "_key", "_rules", "ignores_deletes", "is_mergeable", "picks_one_row")

    def __init__(self, schema: TableSchema) -> None:
        spec = schema.merging
        self._fields: Mapping[str, Field] = {field.name: field for field in schema.fields}
        self._rules = spec.rules
        self._key = schema.primary_key
        self.is_mergeable = spec.is_mergeable
        """Whether rows are operands; else each hides everything older, as in plain deduplicate."""
        self.picks_one_row = spec.picks_one_row
        """Whether the merged row is always one of those that were merged, whole."""
        self.ignores_deletes = spec.ignores_deletes
        """Whether deletes of keys are dropped when they are written."""

    def needed(self, fields: Iterable[Field]) -> tuple[Field, ...]:
        """Returns these columns and those that decide them; if rows are picked, those that decide the row."""
        needed = {field.name: field for field in fields}
        for name in self._rules if self.picks_one_row else tuple(needed):
            rule = self._rules.get(name)
            for member in rule.sequence if rule is not None else ():
                needed[member] = self._fields[member]
        return tuple(needed.values())

    def operands(self, rows: pa.Table) -> pa.Table:
        """Returns incoming rows, with all columns of the schema, as operands, the way they are written.

        A value that a rule changes even in a single row of a key is changed here. Plain deduplicate has
        no operands, and leaves rows as they are.
        """
        if not self.is_mergeable:
            return rows
        given: dict[tuple[str, ...], pa.ChunkedArray] = {}
        for place, name in enumerate(rows.column_names):
            rule = self._rules.get(name)
            if rule is None:
                continue
            column = rows.column(place)
            value = own_value(column, rule)
            if rule.only_given and name not in rule.sequence:
                if rule.sequence not in given:
                    given[rule.sequence] = _some_given([rows.column(member) for member in rule.sequence])
                value = _where(given[rule.sequence], value)
            if value is not column:
                rows = rows.set_column(place, rows.schema.field(place), value)
        return with_kinds(rows, RowKind.UPDATE)

    def picked(self, order: MergeOrder, tables: Sequence[pa.Table]) -> I64:
        """Returns the number of the row that readers see, for each key; only for engines that pick rows."""
        groups = _counted(order, kinds_of(tables)).live().groups
        rule = next(iter(self._rules.values()), None)
        if rule is None or not groups.is_merged:
            return groups.rows[groups.last]
        whole = pa.concat_tables([table.select(rule.sequence) for table in tables])
        return groups.rows[_Picks(groups, whole).of_rows(rule)]

    def live_keys(self, order: MergeOrder, tables: Sequence[pa.Table]) -> Mask:
        """Returns for each key, in the order of keys, whether readers see a row."""
        is_live: Mask = _counted(order, kinds_of(tables)).kinds != RowKind.DELETE
        return is_live

    def merged(self, groups: KeyGroups, tables: Sequence[pa.Table]) -> pa.Table:
        """Returns the merged row of each group."""
        names = [name for name in tables[0].column_names if name != KIND_COLUMN]
        if not names:
            # A table without columns keeps its number of rows this way only.
            return pa.table({"": pa.nulls(len(groups.begins))}).select([])
        whole = pa.concat_tables([table.select(names) for table in tables])
        newest = groups.rows[groups.last]
        if not groups.is_merged:
            return take_from_tables([whole], newest)
        # Mostly few keys have several rows, and only these are looked at.
        several = groups.lengths > 1
        picks = _Picks(groups.chosen(several), whole)
        columns = [self._merged_column(whole, name, picks, newest, several) for name in names]
        return pa.Table.from_arrays(columns, schema=whole.schema)

    def _merged_column(
        self, whole: pa.Table, name: str, picks: _Picks, newest: I64, several: Mask
    ) -> pa.Array:
        column, groups = _together(whole.column(name)), picks.groups
        rule = self._rules.get(name)
        places = picks.last if rule is None else picks.of_values(column, rule)
        rows = newest
        if places is None:
            assert rule is not None
            try:
                values = computed(column, groups, rule)
            except OutOfRange as error:
                row = int(groups.rows[groups.begins[error.place]])
                raise self._no_room_error(name, rule, whole, row, error.value) from None
            rows = newest.copy()
            rows[several] = np.arange(len(column), len(column) + len(values))
            column = pa.concat_arrays([column, values])
        elif places is not picks.last:
            rows = newest.copy()
            rows[several] = groups.rows[places]
        return column.take(pa.array(rows))

    def _no_room_error(
        self, name: str, rule: ColumnRule, whole: pa.Table, row: int, value: object
    ) -> InvalidInputError:
        kind = type_text(self._fields[name].type)
        key = {
            column: whole.column(column)[row].as_py() for column in self._key if column in whole.column_names
        }
        of_key = f", key {key}" if key else ""
        return InvalidInputError(
            f"column {name!r}{of_key}: the {rule.aggregate} of its values, {value}, has no room in {kind}; "
            "widen the column, or delete the key",
            column=name,
            value=value,
            key=key,
        )


class _Picks:
    """Places of the rows that have a column's value, found once for all columns decided alike."""

    def __init__(self, groups: KeyGroups, whole: pa.Table) -> None:
        self.groups = groups
        self.last = groups.last
        self._whole = whole
        self._newest: dict[tuple[str, ...], I64] = {}

    def of_rows(self, rule: ColumnRule) -> I64:
        """Returns the first row, the last one, or the one that is greatest by the rule's sequence columns."""
        if rule.aggregate is Aggregate.FIRST_VALUE:
            return self.groups.begins
        if not rule.sequence:
            return self.last
        if rule.sequence not in self._newest:
            by = [_together(self._whole.column(name)) for name in rule.sequence]
            self._newest[rule.sequence] = newest(by, self.groups)
        return self._newest[rule.sequence]

    def of_values(self, column: pa.Array, rule: ColumnRule) -> I64 | None:
        """Returns one row of each group; None = the value is computed from several."""
        groups = self.groups
        match rule.aggregate:
            case Aggregate.LAST_VALUE | Aggregate.FIRST_VALUE:
                return self.of_rows(rule)
            case Aggregate.LAST_NON_NULL_VALUE:
                mask = valid(column, groups.rows)
                return self.last if mask is None else last_where(mask, groups)
            case Aggregate.FIRST_NON_NULL_VALUE:
                mask = valid(column, groups.rows)
                return groups.begins if mask is None else first_where(mask, groups)
            case Aggregate.MIN | Aggregate.BOOL_AND:
                return least(column, groups)
            case Aggregate.MAX | Aggregate.BOOL_OR:
                return greatest(column, groups)
        return None


def _together(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _some_given(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Returns for each row whether one of the columns has a value."""
    return functools.reduce(pc.or_, (column.is_valid() for column in columns))


def _where(mask: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the values where the mask is true, else null."""
    hidden = ~mask.to_numpy()
    if not hidden.any():
        return values
    return values.take(pa.array(np.arange(len(values)), mask=hidden))
