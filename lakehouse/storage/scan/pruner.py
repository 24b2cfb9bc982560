"""Pruning: judges data files and their pieces by a condition before they are opened.

A condition is judged in two ways. By *keys*: the rows that match have keys in a certain range,
are in certain buckets, or are among a few known ones; a file outside holds no version of a key
that matters, not even one that deletes it, so it can always be left out. By *values*: whether rows
of a file match, from its partition and the bounds of its columns; a file without one may still hide
older rows (see :mod:`lakehouse.storage.scan.file_plan`).

Invariant: a file or piece left out holds no row that matches, and by keys no deletion of one either.
Bounds of columns do not cover deleted rows, so where there are any, keys are judged by the least and
greatest key alone. Anything unknown is kept, as for fields that a file does not have.

Everything is compared as order-preserving bytes; nothing is decoded.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.expr import Expr
from lakehouse.expr.bounds import ColumnBounds, Judge, Verdict, plain_value
from lakehouse.expr.columnar import UNKNOWN, VERDICTS, ColumnarBounds, ColumnarJudge, FileBounds
from lakehouse.expr.required import Required, prefix_successor, required
from lakehouse.format.keys import NAN_BYTES, RowKeyCodec, bucket_of_key, encode_value
from lakehouse.format.metadata import ColumnarEntries, ColumnStats, FileEntry, LiveFiles, StatsColumn
from lakehouse.format.schema import BinaryType, Field, Primitive, TableSchema
from lakehouse.kernels.arrays import U8, Mask
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.indexes.search import IndexAnswers
from lakehouse.storage.scan.file_plan import REASONS, Judged, Prunes

__all__ = ["IndexedPruner", "KeyBounds", "Pruner"]

_COLUMNAR_MIN = 64
"""Number of files from which on judging them at once is quicker."""
_NONE, _SOME = VERDICTS.index(Verdict.NONE), VERDICTS.index(Verdict.SOME)
_KEYS_MAX = 1_000
"""Maximum keys that are listed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBounds:
    """Range of the row keys that can match."""

    low: bytes = b""
    """Least key, included."""
    end: bytes | None = None
    """End of the range, excluded; None = it goes to the last key."""

    def overlaps(self, first: bytes, last: bytes) -> bool:
        """Returns whether a key from ``first`` to ``last``, both included, is in the range."""
        return last >= self.low and (self.end is None or (first < self.end and self.low < self.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A column that the condition mentions."""

    name: str
    at: int
    """Field id, or place among the partition columns."""
    is_float: bool

    def bounds(self, low: bytes | None, high: bytes | None, nulls: int, rows: int) -> ColumnBounds:
        if self.is_float:  # NaN must not be a bound
            low, high = (None if bound == NAN_BYTES else bound for bound in (low, high))
        return ColumnBounds(low=low, high=high, nulls=nulls, rows=rows)

    def column(self, stats: StatsColumn) -> ColumnarBounds:
        """Returns the bounds of the column in many files."""
        low, high = stats.low, stats.high
        if self.is_float:
            # Made here: the first scalar or array of a process loads pandas.
            unknown = pa.scalar(None, pa.binary())
            low, high = (pc.if_else(pc.equal(ends, NAN_BYTES), unknown, ends) for ends in (low, high))
        return ColumnarBounds(low, high, stats.nulls)


class Pruner:
    """A condition prepared for judging a table's files; see :class:`lakehouse.storage.scan.file_plan.Prunes`.

    Args:
        where: a condition, bound to ``schema.arrow()``.
        schema: the schema it is bound to; files may have been written with older ones.
    """

    def __init__(self, where: Expr, schema: TableSchema) -> None:
        named = where.columns()
        self._fields = {field.name: field for field in schema.fields if field.name in named}
        self._judge = Judge(where, self._encoded)
        self._columnar = ColumnarJudge(where, self._encoded)
        self._partition = [
            _known(field, place) for place, field in enumerate(schema.partition_fields) if field.name in named
        ]
        self._partition_is_key = schema.key_holds_partition
        self._by_partition: dict[tuple[bytes, ...], Verdict] = {}
        self._columns = [
            _known(field, field.id)
            for field in self._fields.values()
            if field.name not in schema.partition_by
        ]
        self._key_columns = [known for known in self._columns if known.name in schema.primary_key]
        self._codec = RowKeyCodec(schema.key_fields) if schema.primary_key else None
        self._key_fields = schema.key_fields
        self._first_key = next(
            (known for known in self._key_columns if known.name == schema.primary_key[0]), None
        )
        self._buckets: dict[int, frozenset[int]] = {}
        self.keys: tuple[bytes, ...] | None = None
        """All row keys that can match, ascending; None = they are too many or not known."""
        self.key_range: KeyBounds | None = None
        """Range of the row keys that can match; None = any may."""
        if self._codec is not None:
            self.keys, self.key_range = _keys_of(where, self._codec, self._key_fields, self._encoded)

    def _encoded(self, name: str, constant: object) -> Any:
        field = self._fields.get(name)
        if field is None:  # inside a struct, whose members have no bounds
            return plain_value(constant)
        if isinstance(field.type, BinaryType) and isinstance(constant, str):
            return constant.encode()
        if isinstance(constant, pa.Scalar) and _is_plain(constant.type):
            return encode_value(constant.as_py(), field.type)
        return encode_value(constant, field.type)

    def bucket_set(self, total_buckets: int) -> frozenset[int] | None:
        """Returns the buckets of the keys that can match; None = any."""
        if self.keys is None:
            return None
        buckets = self._buckets.get(total_buckets)
        if buckets is None:
            buckets = frozenset(bucket_of_key(key, self._key_fields, total_buckets) for key in self.keys)
            self._buckets[total_buckets] = buckets
        return buckets

    def excludes_keys(self, entry: FileEntry) -> str | None:
        """Returns why no key matches (``partition``, ``bucket``, ``key range``); None = one may.

        An excluded file holds no deletion of a key that can match either.
        """
        if self._partition_is_key and self._of_partition(entry.partition) is Verdict.NONE:
            return "partition"
        buckets = self.bucket_set(entry.total_buckets)
        if buckets is not None and entry.bucket not in buckets:
            return "bucket"
        return "key range" if self._excludes(entry, entry, entry.stats) else None

    def excludes_piece(self, entry: FileEntry, piece: Piece) -> bool:
        """Returns whether no key of a piece of the file can match."""
        return self._excludes(entry, piece, piece.stats)

    def _excludes(self, entry: FileEntry, part: FileEntry | Piece, stats: Mapping[int, ColumnStats]) -> bool:
        first, last = part.min_key, part.max_key
        if self._codec is None or first is None or last is None:
            return False
        if self.key_range is not None and not self.key_range.overlaps(first, last):
            return True
        if self.keys is not None:
            at = bisect.bisect_left(self.keys, first)
            if at == len(self.keys) or self.keys[at] > last:
                return True
        if not self._key_columns:
            return False
        # Bounds leave deleted rows out; the first and the last key of a file do not.
        bounds = self._bounds(self._key_columns, {} if entry.deletes else stats, part.rows)
        if self._first_key is not None:
            low, high = (self._codec.split(key)[0] for key in (first, last))
            bounds[self._first_key.name] = self._first_key.bounds(low, high, 0, part.rows)
        if self._partition_is_key:
            bounds |= self._partition_bounds(entry.partition, part.rows)
        return self._judge(bounds) is Verdict.NONE

    def judge(self, entry: FileEntry) -> tuple[Verdict, str]:
        """Returns whether rows of the file match, deleted ones aside, and why (``partition``, ``stats``)."""
        live = entry.rows - entry.deletes
        if live:
            verdict = self._of_partition(entry.partition)
            if verdict is not Verdict.SOME:
                return verdict, "partition"
        return self._of_stats(entry, entry.stats, live), "stats"

    def judge_all(self, entries: Sequence[FileEntry]) -> Judged:
        """Returns the verdict of :meth:`judge` for each file; many are judged at once.

        Where the condition has a long list of values, SOME may be said where :meth:`judge` says more.
        """
        if len(entries) < _COLUMNAR_MIN:
            return Judged.of([self.judge(entry) for entry in entries])
        files = entries if isinstance(entries, LiveFiles) else LiveFiles([(entries, None)])
        found = [self._judge_part(part, kept) for part, kept in files.parts()]
        return Judged(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _judge_part(self, files: ColumnarEntries, kept: Mask | None) -> tuple[U8, U8]:
        """Returns the verdicts about files of a manifest, and their reasons."""
        live = files.live_rows > 0
        verdicts = self._columnar(self._file_bounds(files)) * live
        reasons = np.full(len(files), REASONS.index("stats"), np.uint8)
        if self._partition:
            numbers, partitions = files.partitions
            of_partitions = [VERDICTS.index(self._of_partition(values)) for values in partitions]
            by_partition = np.array(of_partitions, np.uint8)[numbers]
            decided = live & (by_partition != _SOME)
            verdicts[decided] = by_partition[decided]
            reasons[decided] = REASONS.index("partition")
        return (verdicts, reasons) if kept is None else (verdicts[kept], reasons[kept])

    def _file_bounds(self, files: ColumnarEntries) -> FileBounds:
        """Collects the bounds that :meth:`_of_stats` looks at one file after another."""
        columns = {known.name: known.column(files.stats(known.at)) for known in self._columns}
        if self._partition:
            numbers, partitions = files.partitions
            # A file without partition values deletes keys in all partitions.
            nulls = np.array([0 if values else UNKNOWN for values in partitions], np.int64)[numbers]
            index = pa.array(numbers)
            for known in self._partition:
                values = [values[known.at] if values else None for values in partitions]
                array = pa.array(values, pa.binary()).take(index)
                columns[known.name] = known.column(StatsColumn(array, array, nulls))
        return FileBounds(rows=files.live_rows, columns=columns)

    def judge_piece(self, entry: FileEntry, piece: Piece) -> Verdict:
        """Returns whether rows of a piece of the file match, deleted ones aside."""
        return self._of_stats(entry, piece.stats, piece.rows)

    def _of_stats(self, entry: FileEntry, stats: Mapping[int, ColumnStats], rows: int) -> Verdict:
        if not rows:
            return Verdict.NONE
        bounds = self._bounds(self._columns, stats, rows)
        if self._partition:
            bounds |= self._partition_bounds(entry.partition, rows)
        return self._judge(bounds)

    def _of_partition(self, values: tuple[bytes, ...]) -> Verdict:
        """Judges a partition by its values alone, once for all its files."""
        if not self._partition:
            return Verdict.SOME
        verdict = self._by_partition.get(values)
        if verdict is None:
            verdict = self._by_partition[values] = self._judge(self._partition_bounds(values, 1))
        return verdict

    def _partition_bounds(self, values: tuple[bytes, ...], rows: int) -> dict[str, ColumnBounds]:
        """Returns bounds of a file's partition; none for a file that deletes keys in all partitions."""
        if not values:
            return {}
        return {
            known.name: known.bounds(values[known.at], values[known.at], 0, rows) for known in self._partition
        }

    @staticmethod
    def _bounds(
        columns: Sequence[_Known], stats: Mapping[int, ColumnStats], rows: int
    ) -> dict[str, ColumnBounds]:
        return {
            known.name: known.bounds(column_stats.low, column_stats.high, column_stats.nulls, rows)
            for known in columns
            if (column_stats := stats.get(known.at)) is not None
        }


def _is_plain(kind: pa.DataType) -> bool:
    """Returns whether a scalar is encoded faster as a Python value: Arrow is slow with single values."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _known(field: Field, at: int) -> _Known:
    return _Known(name=field.name, at=at, is_float=field.type in (Primitive("float"), Primitive("double")))


def _keys_of(
    where: Expr, codec: RowKeyCodec, fields: Sequence[Field], encoded: Callable[[str, object], bytes]
) -> tuple[tuple[bytes, ...] | None, KeyBounds | None]:
    """Returns the keys that can match, when they are few, and their range."""
    needs = [required(where, field.name, partial(encoded, field.name)) for field in fields]
    # A key column that no value satisfies leaves no key at all.
    if any(need is not None and need.values == () for need in needs):
        return (), KeyBounds(end=b"")
    choices = [need.values for need in needs if need is not None and need.values is not None]
    if len(choices) == len(fields) and math.prod(map(len, choices)) <= _KEYS_MAX:
        keys = sorted(codec.join(parts) for parts in itertools.product(*choices))
        return tuple(keys), KeyBounds(low=keys[0], end=_after(keys[-1]))
    leading: list[bytes] = []
    for need in needs:
        if need is None or need.values is None or len(need.values) > 1:
            break
        leading.append(need.values[0])
    key_range = _range(codec, leading, needs[len(leading)], is_last=len(leading) + 1 == len(fields))
    return None, None if key_range == KeyBounds() else key_range


def _range(codec: RowKeyCodec, leading: list[bytes], need: Required | None, *, is_last: bool) -> KeyBounds:
    """Returns the range of keys with these leading values and the next value as required."""
    base = codec.join(leading)
    low, end = base, prefix_successor(base)
    after = _after if is_last else prefix_successor
    if need is not None and need.low is not None:
        low = codec.join([*leading, need.low])
        if need.low_open:
            above = after(low)
            if above is None:
                return KeyBounds(end=b"")
            low = above
    if need is not None and need.high is not None:
        end = codec.join([*leading, need.high])
        if not need.high_open:
            end = after(end)
    return KeyBounds(low=low, end=end)


def _after(key: bytes) -> bytes:
    """Returns the least bytes above a whole key."""
    return key + b"\x00"


class IndexedPruner:
    """Pruner that adds the answers of indexes to those of statistics; see :class:`Prunes`."""

    def __init__(self, inner: Prunes, answers: IndexAnswers) -> None:
        self._inner, self._answers = inner, answers

    def excludes_keys(self, entry: FileEntry) -> str | None:
        """Judges keys without indexes: rows that an index excludes may hide older rows of their keys."""
        return self._inner.excludes_keys(entry)

    def judge(self, entry: FileEntry) -> tuple[Verdict, str]:
        """Returns whether rows of the file match, and the source of that verdict."""
        return self._with_indexes(entry, *self._inner.judge(entry))

    def judge_all(self, entries: Sequence[FileEntry]) -> Judged:
        """Returns the verdict of :meth:`judge` for each file."""
        judged = self._inner.judge_all(entries)
        for at in judged.kept():
            if judged.verdicts[at] == _SOME and self._answers.excludes(entries[at]):
                judged.verdicts[at], judged.reasons[at] = _NONE, REASONS.index("index")
        return judged

    def _with_indexes(self, entry: FileEntry, verdict: Verdict, reason: str) -> tuple[Verdict, str]:
        if verdict is Verdict.SOME and self._answers.excludes(entry):
            return Verdict.NONE, "index"
        return verdict, reason

    def excludes_piece(self, entry: FileEntry, piece: Piece) -> bool:
        """Returns whether no key of a piece of the file can match."""
        return self._inner.excludes_piece(entry, piece)

    def judge_piece(self, entry: FileEntry, piece: Piece) -> Verdict:
        """Returns whether rows of a piece of the file match."""
        verdict = self._inner.judge_piece(entry, piece)
        rows = self._answers.rows.get(entry.path)
        if verdict is not Verdict.SOME or rows is None:
            return verdict
        at = int(np.searchsorted(rows.ranges[:, 1], piece.first_row, side="right"))
        begins = at < len(rows.ranges) and rows.ranges[at, 0] < piece.first_row + piece.rows
        return Verdict.SOME if begins else Verdict.NONE
