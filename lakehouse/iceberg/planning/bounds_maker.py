"""Bounds of source columns, in manifests and in files: those of partition values and of metrics, intersected.

Manifests and files come ordered by partition spec, so that the bounds of each spec are made together and then
put one behind the other.

Invariant: every value of a column in a file, and in the files of a manifest, is within its bounds.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.expr.columnar import UNKNOWN, ColumnarBounds, FileBounds, Residues
from lakehouse.expr.partition_bounds import bounds_between, bounds_of, only_nan
from lakehouse.expr.transforms import Transform
from lakehouse.iceberg.manifests import ManifestFile, PartitionSummary, RawBounds, decoded_bounds
from lakehouse.iceberg.metadata import PartitionSpec
from lakehouse.iceberg.planning.files import ROWS_MAX, FileSet, SpecRange, spec_of
from lakehouse.iceberg.types import IcebergSchema, field_types, never_null
from lakehouse.kernels.arrays import I32, Mask

__all__ = ["BoundsMaker"]

_UNSAID = PartitionSummary(contains_null=True, contains_nan=None, lower=None, upper=None)
"""Summary of a field that the manifest list says nothing of."""


class BoundsMaker:
    """Maker of bounds for one schema of a table.

    Args:
        schema: the schema that the names of columns are of.
        specs: every partition spec of the table, by id.
    """

    def __init__(self, schema: IcebergSchema, specs: Mapping[int, PartitionSpec]) -> None:
        self._specs = specs
        self._fields = {name: (number, kind) for number, (name, kind) in field_types(schema).items()}
        self._never_null = never_null(schema)

    @property
    def bucketed(self) -> frozenset[str]:
        """Names of the columns that some spec buckets."""
        sources = {
            number
            for spec in self._specs.values()
            for field in spec.fields
            if field.transform.startswith("bucket")
            for number in field.source_ids
        }
        return frozenset(name for name, (number, _) in self._fields.items() if number in sources)

    def of_manifests(self, manifests: Sequence[ManifestFile], names: Collection[str]) -> FileBounds:
        """Returns bounds of columns in manifests, of which those of one spec are neighbours."""
        rows = np.array([_rows(one.added_rows, one.existing_rows) for one in manifests], np.int64)
        groups = [list(group) for _, group in itertools.groupby(manifests, lambda one: one.spec_id)]
        columns = {}
        for name in self._known(names):
            parts = [self._of_summaries(group, name) for group in groups]
            columns[name] = _joined(parts, self._fields[name][1])
        return FileBounds(rows=rows, columns=columns)

    def of_files(self, files: FileSet, names: Collection[str]) -> FileBounds:
        """Returns bounds of columns in files, by their partitions and their metrics."""
        columns = {
            name: files.bounds(*self._fields[name], functools.partial(self._of_column, files, name))
            for name in self._known(names)
        }
        return FileBounds(rows=files.most_rows, columns=columns)

    def of_partitions(self, files: FileSet, names: Collection[str]) -> FileBounds:
        """Returns the same by the partitions alone."""
        columns = {name: self._by_partition(files, name) for name in self._known(names)}
        return FileBounds(rows=files.most_rows, columns=columns)

    def _known(self, names: Collection[str]) -> list[str]:
        return [name for name in names if name in self._fields]

    def _of_column(self, files: FileSet, name: str) -> ColumnarBounds:
        return self._by_partition(files, name).intersected(_of_metrics(files, *self._fields[name]))

    def _by_partition(self, files: FileSet, name: str) -> ColumnarBounds:
        kind = self._fields[name][1]
        parts = [self._of_range(files, one, name) for one in files.spec_ranges]
        return _joined(parts, kind)

    def _of_range(self, files: FileSet, one: SpecRange, name: str) -> ColumnarBounds:
        kind = self._fields[name][1]
        rows = files.most_rows[one.begin : one.end]
        made = []
        for at, transform in self._sources(one.spec, name):
            values, has_field = one.partition(one.spec.fields[at].field_id)
            bounds = bounds_of(transform, values, kind, rows)
            # Without the field nothing is known; a null there would say that all rows are null.
            bounds.nulls = np.where(has_field, bounds.nulls, UNKNOWN)
            made.append(bounds)
        return self._intersection(made, len(rows), name)

    def _of_summaries(self, manifests: Sequence[ManifestFile], name: str) -> ColumnarBounds:
        """Returns bounds in manifests of one spec, by the summaries that the manifest list has of them."""
        kind = self._fields[name][1]
        rows = np.array([_rows(one.added_rows, one.existing_rows) for one in manifests], np.int64)
        spec = spec_of(self._specs, manifests[0].spec_id)
        made = []
        for at, transform in self._sources(spec, name):
            value_kind = transform.result_type(kind)
            if value_kind is None:
                continue
            summaries = [_summary(one, at) for one in manifests]
            least, greatest = (
                decoded_bounds(_raw(ends), value_kind, count=len(manifests))
                for ends in ([one.lower for one in summaries], [one.upper for one in summaries])
            )
            bounds = bounds_between(
                transform,
                least,
                greatest,
                kind,
                rows,
                with_null=_flags(one.contains_null for one in summaries),
                with_nan=_flags(one.contains_nan is not False for one in summaries),
            )
            # Where there is no least value all are null or NaN, but not where it could not be read.
            said = _flags(one is _UNSAID or one.lower is not None for one in summaries)
            made.append(_without(bounds, said & _mask(least.is_null())))
        return self._intersection(made, len(manifests), name)

    def _intersection(self, made: Sequence[ColumnarBounds], count: int, name: str) -> ColumnarBounds:
        """Returns the bounds of a column that lie within all of some."""
        found = functools.reduce(ColumnarBounds.intersected, made or [_nothing(count, self._fields[name][1])])
        if name in self._never_null:
            found.nulls = np.where(found.nulls == UNKNOWN, 0, found.nulls)
        return found

    def _sources(self, spec: PartitionSpec, name: str) -> list[tuple[int, Transform]]:
        """Returns the places of the spec's fields that are made of a column, and how they are made."""
        number = self._fields[name][0]
        return [
            (at, Transform.parse(field.transform, sources=len(field.source_ids)))
            for at, field in enumerate(spec.fields)
            if number in field.source_ids
        ]


def _of_metrics(files: FileSet, field_id: int, kind: pa.DataType) -> ColumnarBounds:
    """Returns the bounds that files say themselves."""
    if not len(files):
        return _nothing(0, kind)
    low = files.raw_bounds(lambda columns: columns.low(field_id), kind)
    high = files.raw_bounds(lambda columns: columns.high(field_id), kind)
    nulls, nan = files.counts(lambda columns: columns.nulls(field_id)), None
    if pa.types.is_floating(kind):
        # Bounds leave NaN out, which is above every number.
        nans = files.counts(lambda columns: columns.nans(field_id))
        nan = nans != 0
        low, high = only_nan(low, high, (nans > 0) & (nulls >= 0) & (nans + nulls >= files.most_rows))
    return ColumnarBounds(low, high, nulls, nan=nan)


def _joined(parts: Sequence[ColumnarBounds], kind: pa.DataType) -> ColumnarBounds:
    """Puts bounds of neighbours behind each other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _nothing(0, kind)
    counts = [len(part.nulls) for part in parts]
    opens = [
        np.zeros(len(part.nulls), np.bool_) if part.high_open is None else part.high_open for part in parts
    ]
    residues = [
        Residues(
            of=one.of,
            least=_placed(one.least, number, counts),
            greatest=_placed(one.greatest, number, counts),
        )
        for number, part in enumerate(parts)
        for one in part.residues
    ]
    return ColumnarBounds(
        pa.concat_arrays([part.low.array for part in parts]),
        pa.concat_arrays([part.high.array for part in parts]),
        np.concatenate([part.nulls for part in parts]),
        high_open=np.concatenate(opens),
        residues=residues,
        nan=np.concatenate([part.nan for part in parts]),
    )


def _placed(values: I32, number: int, counts: Sequence[int]) -> I32:
    """Returns the values of one part among all files, the others unknown."""
    before, behind = sum(counts[:number]), sum(counts[number + 1 :])
    return np.pad(values, (before, behind), constant_values=UNKNOWN)


def _without(bounds: ColumnarBounds, unknown: Mask) -> ColumnarBounds:
    """Returns the bounds without low ends and nulls where these are not known."""
    if not unknown.any():
        return bounds
    nothing = pa.scalar(None, bounds.low.array.type)
    low = pc.if_else(pa.array(unknown), nothing, bounds.low.array)
    high = bounds.high.array
    if bounds.only_nan is not None:
        # That there is nothing but NaN was said by the want of a low end.
        high = pc.if_else(pa.array(unknown & bounds.only_nan), nothing, high)
    nulls = np.where(unknown, UNKNOWN, bounds.nulls)
    opens, residues = bounds.high_open, bounds.residues
    return ColumnarBounds(low, high, nulls, high_open=opens, residues=residues, nan=bounds.nan)


def _nothing(count: int, kind: pa.DataType) -> ColumnarBounds:
    ends = pa.nulls(count, kind)
    return ColumnarBounds(ends, ends, np.full(count, UNKNOWN, np.int64))


def _rows(*counts: int | None) -> int:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else ROWS_MAX


def _summary(manifest: ManifestFile, at: int) -> PartitionSummary:
    """Returns the summary of a field of the spec; one that says nothing where the list has none."""
    summaries = manifest.summaries or ()
    if at < len(summaries):
        return summaries[at]
    return _UNSAID


def _raw(values: Sequence[bytes | None]) -> RawBounds:
    known = [value for value in values if value is not None]
    offsets = np.zeros(len(known) + 1, np.int64)
    np.cumsum([len(value) for value in known], out=offsets[1:])
    rows = np.array([at for at, value in enumerate(values) if value is not None], np.int64)
    return RawBounds(
        count=len(values),
        width=-1,
        data=np.frombuffer(b"".join(known), np.uint8),
        offsets=offsets,
        rows=rows if len(rows) < len(values) else None,
    )


def _flags(values: Iterable[bool]) -> Mask:
    return np.fromiter(values, np.bool_)


def _mask(array: pa.Array) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask
