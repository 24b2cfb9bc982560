"""The live files of some manifests, in columns; nothing is made for a single file.

Columns that a plan looks at are put together once and kept, so that the next plan, whatever its condition,
only compares numbers. Paths, split offsets and the like stay in their manifests until a file is chosen.

Invariant: the place of a file is the same in every column.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.expr.columnar import ColumnarBounds
from lakehouse.iceberg.manifests import (
    ADDED,
    DELETED,
    UNKNOWN,
    Inherited,
    ManifestColumns,
    ManifestFile,
    Numbers,
    RawBounds,
    decoded_bounds,
)
from lakehouse.iceberg.metadata import PartitionSpec
from lakehouse.iceberg.planning.tasks import ScanTask, data_format
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["ROWS_MAX", "FileSet", "LiveEntries", "SpecRange", "spec_of"]

ROWS_MAX = 1 << 62
"""Rows of what does not say how many it has."""

_FILE_BYTES, _BOUNDS_BYTES = 40, 32
"""Bytes of a file in its columns, and in the bounds of a column beside their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEntries:
    """Entries of a manifest that are not deleted."""

    manifest: ManifestFile
    columns: ManifestColumns
    at: I64 | None
    """Numbers of the live entries; None = all are."""

    @classmethod
    def of(cls, manifest: ManifestFile, columns: ManifestColumns) -> LiveEntries:
        """Leaves deleted entries out."""
        at = columns.live() if columns.status.count_of(DELETED) else None
        return cls(manifest=manifest, columns=columns, at=at)

    @property
    def inherited(self) -> Inherited:
        """Facts that all entries take over from the manifest; made anew, as few plans look at it."""
        return self.columns.inherited(self.manifest)

    @property
    def count(self) -> int:
        """Number of live entries."""
        return self.columns.count if self.at is None else len(self.at)

    def numbers(self, numbers: Numbers) -> I64:
        """Returns a column of the manifest for the live entries."""
        return numbers.all() if self.at is None else numbers.at(self.at)

    def live(self, values: I64) -> I64:
        """Returns the values of the live entries."""
        return values if self.at is None else values[self.at]

    def entries(self, places: I64) -> I64:
        """Returns the numbers in the manifest of some of the live entries."""
        return places if self.at is None else self.at[places]

    def array(self, array: pa.Array) -> pa.Array:
        """Returns an Arrow column of the manifest for the live entries."""
        return array if self.at is None else array.take(pa.array(self.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRange:
    """Neighbouring manifests of one partition spec."""

    spec: PartitionSpec
    parts: Sequence[LiveEntries]
    begin: int
    """Place of their first file."""
    end: int

    def partition(self, field_id: int) -> tuple[pa.Array, Mask]:
        """Returns a partition field of every file, and for each whether its manifest has the field."""
        columns = [part.columns.partition.get(field_id) for part in self.parts]
        values = [
            pa.nulls(part.count) if column is None else part.array(column)
            for part, column in zip(self.parts, columns, strict=True)
        ]
        has_field = np.repeat([column is not None for column in columns], [part.count for part in self.parts])
        return _of_one_type(values), has_field


class FileSet:
    """Files of some manifests.

    Args:
        parts: live entries of the manifests, those of one partition spec beside each other.
        specs: every partition spec of the table, by id.
    """

    def __init__(self, parts: Sequence[LiveEntries], specs: Mapping[int, PartitionSpec]) -> None:
        self.parts, self._specs = tuple(parts), specs
        self._counts: I64 = np.array([part.count for part in parts], np.int64)
        self.begins: I64 = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts)])
        """Place of the first file of each manifest, and at the end the number of all files."""
        self._bounds: dict[tuple[int, pa.DataType], ColumnarBounds] = {}
        self.has_grown = True
        """Whether it has taken more memory since somebody last looked."""

    def __len__(self) -> int:
        return int(self.begins[-1])

    # --- columns ------------------------------------------------------------------

    @functools.cached_property
    def rows(self) -> I64:
        """Rows of each file."""
        return self._joined(lambda part: part.numbers(part.columns.records))

    @functools.cached_property
    def most_rows(self) -> I64:
        """Rows of each file, or more than it can have where that is not known."""
        return np.where(self.rows < 0, ROWS_MAX, self.rows)

    @functools.cached_property
    def sizes(self) -> I64:
        """Bytes of each file."""
        return self._joined(lambda part: part.numbers(part.columns.size))

    @property
    def snapshots(self) -> I64:
        """Snapshot that added each file."""
        return self._joined(lambda part: part.live(part.inherited.snapshot_id))

    @functools.cached_property
    def is_added(self) -> Mask:
        """For each file, True if the commit that wrote its manifest added it."""
        added: Mask = self._joined(lambda part: part.numbers(part.columns.status)) == ADDED
        return added

    @functools.cached_property
    def specs(self) -> I64:
        """Id of each file's partition spec."""
        return np.repeat(np.array([part.manifest.spec_id for part in self.parts], np.int64), self._counts)

    def _joined(self, column: Callable[[LiveEntries], I64]) -> I64:
        return np.concatenate([column(part) for part in self.parts]) if self.parts else np.empty(0, np.int64)

    # --- columns of a source field or of a spec -----------------------------------

    @functools.cached_property
    def spec_ranges(self) -> Sequence[SpecRange]:
        """Neighbouring manifests of the same spec, in order."""
        return tuple(self._spec_ranges())

    def _spec_ranges(self) -> Iterator[SpecRange]:
        number = 0
        for spec, group in itertools.groupby(self.parts, lambda part: part.manifest.spec_id):
            parts = tuple(group)
            begin, number = number, number + len(parts)
            yield SpecRange(
                spec=spec_of(self._specs, spec),
                parts=parts,
                begin=int(self.begins[begin]),
                end=int(self.begins[number]),
            )

    def bounds(self, field_id: int, kind: pa.DataType, make: Callable[[], ColumnarBounds]) -> ColumnarBounds:
        """Returns the bounds of a column in every file, made once."""
        found = self._bounds.get((field_id, kind))
        if found is None:
            found = self._bounds[field_id, kind] = make()
            self.has_grown = True
        return found

    @functools.cached_property
    def key(self) -> tuple[str, ...]:
        """Paths of the manifests, by which the files are known."""
        return tuple(part.manifest.path for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of what was put together, without the manifests."""
        made = sum(_weight(bounds) for bounds in self._bounds.values())
        return _FILE_BYTES * len(self) + made

    # --- chosen files -------------------------------------------------------------

    def chosen(self, at: I64) -> Iterator[tuple[LiveEntries, I64]]:
        """Yields for each manifest that has some of the files the numbers of their entries in it.

        Args:
            at: places of files, ascending.
        """
        cuts = np.searchsorted(at, self.begins)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            part = self.parts[number]
            yield part, part.entries(at[cuts[number] : cuts[number + 1]] - self.begins[number])

    def sequences(self, at: I64) -> I64:
        """Returns the data sequence numbers of some files, given by ascending places."""
        found = [part.inherited.sequence[entries] for part, entries in self.chosen(at)]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def raw_bounds(
        self, column: Callable[[ManifestColumns], RawBounds | None], kind: pa.DataType
    ) -> pa.Array:
        """Returns bounds of all files as values, decoded together."""
        parts = [column(part.columns) for part in self.parts]
        counts = [part.columns.count for part in self.parts]
        bounds = decoded_bounds(RawBounds.joined(parts, counts), kind, count=sum(counts))
        if all(part.at is None for part in self.parts):
            return bounds
        begins = itertools.accumulate([0, *counts[:-1]])
        live = [
            begin + part.entries(np.arange(part.count))
            for part, begin in zip(self.parts, begins, strict=True)
        ]
        return bounds.take(pa.array(np.concatenate(live)))

    def counts(self, column: Callable[[ManifestColumns], I64]) -> I64:
        """Returns counts of all files."""
        return self._joined(lambda part: part.live(column(part.columns)))

    def paths(self, at: I64) -> pa.Array:
        """Returns the paths of some files, given by ascending places."""
        found = [part.columns.paths(entries).cast(pa.large_string()) for part, entries in self.chosen(at)]
        return pa.concat_arrays(found) if found else pa.array([], pa.large_string())

    def partition_columns(self, spec: int, at: I64) -> list[pa.Array]:
        """Returns the partition values of some files of one spec, a column for each field."""
        fields = spec_of(self._specs, spec).fields
        found: list[list[pa.Array]] = [[] for _ in fields]
        for part, entries in self.chosen(at):
            for values, field in zip(found, fields, strict=True):
                values.append(_partition_column(part, field.field_id, entries))
        return [_of_one_type(values) for values in found]

    def table(self, at: I64) -> pa.Table:
        """Returns some files as rows: path, format, spec, partition, rows, size, sequences, row ids."""
        formats: list[pa.Array] = []
        numbers: list[tuple[I64, ...]] = []
        splits: list[tuple[int, ...] | None] = []
        for part, entries in self.chosen(at):
            codes = part.columns.format.at(entries)
            formats.append(pa.array(part.columns.formats, pa.string()).take(pa.array(codes)))
            inherited = part.inherited
            columns = (inherited.sequence, inherited.snapshot_id, inherited.first_row_id)
            numbers.append(tuple(column[entries] for column in columns))
            offsets = part.columns.split_offsets
            splits += [None] * len(entries) if offsets is None else offsets.at(entries)
        sequence, snapshot, first_row = (
            (np.concatenate(column) for column in zip(*numbers, strict=True))
            if numbers
            else np.empty((3, 0), np.int64)
        )
        return pa.table(
            {
                "path": self.paths(at),
                "format": pa.concat_arrays(formats) if formats else pa.array([], pa.string()),
                "spec_id": pa.array(self.specs[at], pa.int32()),
                "partition": self._partitions(at),
                "rows": _known(self.rows[at]),
                "size": pa.array(self.sizes[at]),
                "sequence": pa.array(sequence),
                "snapshot": pa.array(snapshot),
                "first_row_id": _known(first_row),
                "split_offsets": pa.array(splits, pa.list_(pa.int64())),
            }
        )

    def _partitions(self, at: I64) -> pa.Array:
        """Returns the partitions as structs with the fields of all specs; null where a spec lacks one."""
        columns: dict[str, list[pa.Array]] = {}
        done = 0
        specs = self.specs[at]
        for one in self.spec_ranges:
            count = int((specs == one.spec.id).sum())
            within = at[done : done + count]
            made = self.partition_columns(one.spec.id, within)
            for field, values in zip(one.spec.fields, made, strict=True):
                column = columns.setdefault(field.name, [])
                column += [pa.nulls(done - sum(map(len, column))), values]
            done += count
        fields = {
            name: _of_one_type([*values, pa.nulls(len(at) - sum(map(len, values)))])
            for name, values in columns.items()
        }
        if not fields:
            return pa.array([{}] * len(at), pa.struct([]))
        return pa.StructArray.from_arrays(list(fields.values()), list(fields))

    def tasks(self, at: I64) -> Iterator[ScanTask]:
        """Yields some files as tasks, without deletes."""
        for part, entries in self.chosen(at):
            columns, inherited = part.columns, part.inherited
            offsets = columns.split_offsets
            for path, code, size, rows, values, sequence, first, split in zip(
                columns.paths(entries).to_pylist(),
                columns.format.at(entries).tolist(),
                columns.size.at(entries).tolist(),
                columns.records.at(entries).tolist(),
                self._partition_values(part, entries),
                inherited.sequence[entries].tolist(),
                inherited.first_row_id[entries].tolist(),
                [None] * len(entries) if offsets is None else offsets.at(entries),
                strict=True,
            ):
                yield ScanTask(
                    path=path,
                    format=data_format(columns.formats[code], path),
                    size=size,
                    rows=rows,
                    spec_id=part.manifest.spec_id,
                    partition=values,
                    sequence=sequence,
                    first_row_id=None if first == UNKNOWN else first,
                    split_offsets=split or (),
                    length=size,
                )

    def _partition_values(self, part: LiveEntries, entries: I64) -> list[tuple[Any, ...]]:
        """Returns the partition of each of some entries of a manifest, in the order of the spec's fields."""
        fields = spec_of(self._specs, part.manifest.spec_id).fields
        columns = [_partition_column(part, field.field_id, entries).to_pylist() for field in fields]
        return list(zip(*columns, strict=True)) if columns else [()] * len(entries)


def spec_of(specs: Mapping[int, PartitionSpec], number: int) -> PartitionSpec:
    """Returns a spec by its id; one without fields where the metadata have dropped it."""
    return specs.get(number, PartitionSpec(id=number))


def _weight(bounds: ColumnarBounds) -> int:
    # Nulls, ranks of both ends, and what is known of them.
    of_numbers = _BOUNDS_BYTES * len(bounds.nulls)
    return (
        of_numbers
        + int(bounds.low.array.nbytes)
        + (bounds.high is not bounds.low) * int(bounds.high.array.nbytes)
    )


def _partition_column(part: LiveEntries, field_id: int, entries: I64) -> pa.Array:
    column = part.columns.partition.get(field_id)
    return pa.nulls(len(entries)) if column is None else column.take(pa.array(entries))


def _of_one_type(arrays: Sequence[pa.Array]) -> pa.Array:
    """Puts arrays behind each other; types differ where a source column was promoted in between.

    Nulls alone have no say: a field that became void has the type of its source column, which its values of
    before may not fit.
    """
    valued = {array.type for array in arrays if array.null_count < len(array)}
    kinds = valued or {array.type for array in arrays if not pa.types.is_null(array.type)}
    if not kinds:
        return pa.nulls(sum(map(len, arrays)))
    widest = max(kinds, key=_width)
    return pa.concat_arrays(
        [array.cast(widest) if array.type in valued else pa.nulls(len(array), widest) for array in arrays]
    )


def _width(kind: pa.DataType) -> tuple[int, int]:
    try:
        return kind.bit_width, getattr(kind, "precision", 0)
    except ValueError:  # texts and bytes have no width
        return 0, 0


def _known(numbers: I64) -> pa.Array:
    return pa.array(numbers, mask=numbers == UNKNOWN)
