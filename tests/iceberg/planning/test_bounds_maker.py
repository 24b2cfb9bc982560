"""Bounds of columns: of partitions and metrics together, and nothing where nothing sound is known."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField as SourceField
from pyiceberg.partitioning import PartitionSpec as Spec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, TruncateTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from lakehouse.expr.columnar import UNKNOWN
from lakehouse.format.schema import Field, Primitive
from lakehouse.iceberg.manifests import ManifestFile, PartitionSummary
from lakehouse.iceberg.metadata import PartitionField, PartitionSpec
from lakehouse.iceberg.planning.bounds_maker import BoundsMaker
from lakehouse.iceberg.types import IcebergSchema
from tests.kit.iceberg_plans import opened
from tests.kit.iceberg_tables import Item, Manifest, Snapshot, Table

COLUMNS = IcebergSchema(id=0, fields=(Field(id=1, name="v", type=Primitive("int64")),), names=("v",))
SPECS = {
    number: PartitionSpec(
        id=number,
        fields=(PartitionField(source_ids=(1,), field_id=1000 + number, name="p", transform=transform),),
    )
    for number, transform in enumerate(("identity", "truncate[10]", "bucket[4]", "void", "newer[3]"))
}
KNOWN = PartitionSummary(
    contains_null=False, contains_nan=None, lower=struct.pack("<q", 20), upper=struct.pack("<q", 40)
)
LINE = ManifestFile(
    path="m",
    length=1,
    spec_id=0,
    snapshot_id=1,
    added_files=2,
    existing_files=0,
    added_rows=9,
    existing_rows=0,
)


def of_manifests(*lines: ManifestFile) -> list[tuple[object, object, int]]:
    """Returns the ends and the nulls of a column in manifests."""
    bounds = BoundsMaker(COLUMNS, SPECS).of_manifests(lines, {"v", "nobody"})
    assert set(bounds.columns) == {"v"}
    known = bounds.columns["v"]
    ends = (known.low.array.to_pylist(), known.high.array.to_pylist(), known.nulls.tolist())
    return list(zip(*ends, strict=True))


def test_summaries_bound_the_source_column() -> None:
    """Ends of partition values become ends of the column by the transform that made them."""
    assert of_manifests(
        replace(LINE, summaries=(KNOWN,)),
        replace(LINE, spec_id=1, summaries=(KNOWN,)),
        replace(LINE, spec_id=3, summaries=(KNOWN,)),
        replace(LINE, spec_id=4, summaries=(KNOWN,)),
    ) == [(20, 40, 0), (20, 49, 0), (None, None, UNKNOWN), (None, None, UNKNOWN)]


@pytest.mark.parametrize("summaries", [None, ()], ids=["none", "too few"])
def test_what_is_not_said_is_not_known(summaries: tuple[PartitionSummary, ...] | None) -> None:
    """A manifest without a summary of the field has no bounds, and may have nulls or none."""
    assert of_manifests(replace(LINE, summaries=summaries)) == [(None, None, UNKNOWN)]


def test_a_spec_that_nobody_knows_bounds_nothing() -> None:
    """A manifest of a spec that the metadata lack has no bounds."""
    assert of_manifests(replace(LINE, spec_id=9, summaries=(KNOWN,))) == [(None, None, UNKNOWN)]


def test_nulls_alone_have_no_ends() -> None:
    """A summary with nulls and without a least value says that all rows are null."""
    nulls = replace(KNOWN, contains_null=True, lower=None, upper=None)
    assert of_manifests(replace(LINE, summaries=(nulls,))) == [(None, None, 9)]
    some = replace(KNOWN, contains_null=True)
    assert of_manifests(replace(LINE, summaries=(some,))) == [(20, 40, UNKNOWN)]


def test_a_damaged_end_is_not_known() -> None:
    """Bytes that are no value of the column bound nothing, and do not say that all rows are null."""
    damaged = replace(KNOWN, contains_null=True, lower=b"abc")
    assert of_manifests(replace(LINE, summaries=(damaged,))) == [(None, 40, UNKNOWN)]


def test_buckets_of_specs_are_kept_apart() -> None:
    """Buckets are known of the manifests whose spec has them, whatever stands beside."""
    bucket = replace(KNOWN, lower=struct.pack("<i", 1), upper=struct.pack("<i", 2))
    lines = [replace(LINE, summaries=(KNOWN,)), replace(LINE, spec_id=2, summaries=(bucket,))]
    (residues,) = BoundsMaker(COLUMNS, SPECS).of_manifests(lines, {"v"}).columns["v"].residues
    assert residues.least.tolist() == [UNKNOWN, 1]
    assert residues.greatest.tolist() == [UNKNOWN, 2]


def test_bucketed_columns_are_known() -> None:
    """Columns of any spec with a bucket are those of which values are asked one by one."""
    assert BoundsMaker(COLUMNS, SPECS).bucketed == {"v"}
    assert BoundsMaker(COLUMNS, {0: SPECS[0]}).bucketed == frozenset()


async def test_partitions_and_metrics_bound_together(tmp_path: Path) -> None:
    """A file's bounds are the narrower of what its partition and its metrics say."""
    schema = Schema(NestedField(1, "v", LongType(), required=False))
    truncated = Spec(SourceField(1, 1000, TruncateTransform(10), "t"), spec_id=0)
    bucketed = Spec(SourceField(1, 1001, BucketTransform(4), "b"), spec_id=1)
    metrics = {
        "lower_bounds": {1: to_bytes(LongType(), 25)},
        "upper_bounds": {1: to_bytes(LongType(), 90)},
        "null_value_counts": {1: 3},
    }
    manifests = [
        Manifest(name="b", schema=schema, spec=bucketed, items=[Item(path="b", partition=(1,), rows=5)]),
        Manifest(
            name="t",
            schema=schema,
            spec=truncated,
            items=[
                Item(path="1", partition=(20,), rows=5, metrics=metrics),
                Item(path="2", partition=(20,), rows=5),
                Item(path="3", partition=(None,), rows=5, metrics=metrics),
            ],
        ),
    ]
    made = Table(
        schemas=[schema],
        specs=[truncated, bucketed],
        snapshots=[Snapshot(id=1, sequence=1, manifests=manifests)],
    )
    async with await opened(made, tmp_path) as table:
        known = (await table.plan("v > 27 and v < 95")).explain()
        assert len(await table.plan("v between 26 and 29")) == 3
        assert len(await table.plan("v > 29")) == 1
        assert len(await table.plan("v < 25")) == 2
        assert len(await table.plan("v is null")) == 1
    assert known.files == 3


@pytest.mark.parametrize(("nans", "kept"), [({1: 0}, 0), ({1: 2}, 1), (None, 1)])
async def test_high_ends_of_numbers_hold_beside_nan(
    tmp_path: Path, nans: dict[int, int] | None, kept: int
) -> None:
    """NaN is above every number, so that a file that may have one is kept for what is above its bound."""
    schema = Schema(NestedField(1, "v", DoubleType(), required=False))
    metrics = {
        "lower_bounds": {1: to_bytes(DoubleType(), 1.0)},
        "upper_bounds": {1: to_bytes(DoubleType(), 2.0)},
        "null_value_counts": {1: 0},
        **({} if nans is None else {"nan_value_counts": nans}),
    }
    items = [Item(path="1", rows=5, metrics=metrics)]
    manifest = Manifest(name="m", schema=schema, spec=Spec(spec_id=0), items=items)
    made = Table(
        schemas=[schema],
        specs=[Spec(spec_id=0)],
        snapshots=[Snapshot(id=1, sequence=1, manifests=[manifest])],
    )
    async with await opened(made, tmp_path) as table:
        assert len(await table.plan("v > 5")) == kept
        assert len(await table.plan("v < 0.5")) == 0
        assert len(await table.plan("v = 5")) == 0
        assert len(await table.plan("v in (5, 6)")) == 0


async def test_a_partition_field_that_a_manifest_lacks_is_not_known(tmp_path: Path) -> None:
    """Files of a manifest without a field of their spec are not taken for files of the partition null."""
    schema = Schema(NestedField(1, "v", LongType(), required=False))
    none, both = Spec(spec_id=0), Spec(SourceField(1, 1000, TruncateTransform(10), "t"), spec_id=1)
    lacking = Manifest(
        name="m",
        schema=schema,
        spec=none,
        items=[Item(path="1", rows=5)],
        summaries=False,
        line={"partition_spec_id": 1},
    )
    made = Table(
        schemas=[schema], specs=[none, both], snapshots=[Snapshot(id=1, sequence=1, manifests=[lacking])]
    )
    async with await opened(made, tmp_path) as table:
        assert len(await table.plan("v = 5")) == 1
