"""Published statistics: Iceberg's readers find the distinct values that an analysis has counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import datasketches
import pytest

from lakehouse.format.puffin import PuffinFooter
from lakehouse.iceberg import open as open_iceberg
from lakehouse.iceberg.distinct_values import distinct_values
from lakehouse.lake import Lake
from lakehouse.storage.metadata import join
from lakehouse.storage.table import Table
from tests.kit.publications import publications
from tests.kit.published import ROWS, iceberg_rows, iceberg_table, lake_at, numbered, our_rows

PATH = "statistics-path"


async def made(lake: Lake, **options: Any) -> Table:
    """A table of fifty rows, all of which can be published."""
    await lake.create_database("db")
    table = await lake.create_table("db.t", ROWS, primary_key="id", **options)
    await table.upsert(numbered(0, 50))
    return table


async def told(metadata: str) -> list[dict[str, Any]]:
    """What metadata tell of statistics files."""
    document = json.loads(await anyio.Path(metadata.removeprefix("file://")).read_bytes())
    return list(document["statistics"])


async def test_an_analysis_is_published_with_the_next_publication(tmp_path: Path) -> None:
    """Rows have not changed since, and yet readers are told, by one snapshot more with the same rows."""
    async with lake_at(tmp_path) as lake:
        table = await made(lake)
        first = await table.publish_iceberg()
        assert await told(first.metadata) == []
        await table.analyze()
        second = await table.publish_iceberg()
        assert (second.changed, second.added, second.removed) == (True, 0, 0)
        assert [one["snapshot-id"] for one in await told(second.metadata)] == [second.snapshot]
        assert iceberg_rows(second.metadata) == await our_rows(table, second.snapshot)
        assert not (await table.publish_iceberg()).changed


async def test_pyiceberg_reads_what_metadata_tell_of_a_file(tmp_path: Path) -> None:
    """Another program finds the file, its footer where metadata say, and the numbers by field ids."""
    async with lake_at(tmp_path) as lake:
        table = await made(lake)
        await table.analyze()
        peer = iceberg_table((await table.publish_iceberg()).metadata)
        (file,) = peer.metadata.statistics
        names = {field.field_id: field.name for field in peer.schema().fields}
        ndv = {names[blob.fields[0]]: blob.properties for blob in file.blob_metadata}
        assert ndv == {"id": {"ndv": "50"}, "v": {"ndv": "50"}}
        snapshot = peer.current_snapshot()
        assert snapshot is not None
        assert {blob.sequence_number for blob in file.blob_metadata} == {snapshot.sequence_number}
        assert file.snapshot_id == snapshot.snapshot_id
        data = peer.io.new_input(file.statistics_path).open().read()
        assert len(data) == file.file_size_in_bytes
        footer = data[-file.file_footer_size_in_bytes :]
        assert footer[:4] == b"PFA1"
        assert json.loads(footer[4:-12])["blobs"][0]["type"] == file.blob_metadata[0].type


async def test_sketches_are_those_of_other_engines(tmp_path: Path) -> None:
    """What the named file holds is read by DataSketches, with the number that metadata tell."""
    async with lake_at(tmp_path) as lake:
        table = await made(lake)
        await table.analyze(["v"])
        (file,) = await told((await table.publish_iceberg()).metadata)
        data = await anyio.Path(file[PATH].removeprefix("file://")).read_bytes()
        footer = PuffinFooter.parse(data, len(data))
        assert isinstance(footer, PuffinFooter)
        blob = data[footer.blobs[0].offset : footer.blobs[0].end]
        sketch = datasketches.compact_theta_sketch.deserialize(blob)
        assert str(round(sketch.get_estimate())) == file["blob-metadata"][0]["properties"]["ndv"]


async def test_our_own_reader_of_iceberg_finds_them(tmp_path: Path) -> None:
    """A published table that is read as any Iceberg table tells its distinct values."""
    async with lake_at(tmp_path) as lake:
        table = await made(lake)
        await table.analyze()
        report = await table.publish_iceberg()
        async with await open_iceberg(report.metadata) as peer:
            found = await distinct_values(peer.source, peer.metadata, [1, 2])
            assert {number: (one.ndv, one.snapshot_id) for number, one in found.items()} == {
                1: (50, report.snapshot),
                2: (50, report.snapshot),
            }


async def test_statistics_of_listed_snapshots_stay(tmp_path: Path) -> None:
    """New rows have no statistics yet: those of the snapshot before are named as long as it is listed."""
    async with lake_at(tmp_path) as lake:
        table = await made(lake, options={"iceberg.retain": 2})
        await table.analyze()
        one = await table.publish_iceberg()
        for begin in (100, 200):
            await table.upsert(numbered(begin, begin + 5))
            await table.compact(full=True)
            newest = await table.publish_iceberg()
            if begin == 100:
                assert [file["snapshot-id"] for file in await told(newest.metadata)] == [one.snapshot]
        assert await told(newest.metadata) == []


async def test_expiry_keeps_a_published_file(tmp_path: Path) -> None:
    """A newer analysis and an expiry leave the file that published metadata name."""
    async with lake_at(tmp_path) as lake:
        table = await made(lake)
        await table.analyze()
        (file,) = await told((await table.publish_iceberg()).metadata)
        unheld = (await table.analyze()).snapshot
        await table.analyze()
        await table.upsert(numbered(50, 60))
        await table.expire_snapshots(retain=1, grace_s=0)
        assert unheld < (await table.core.newest()).snapshot.earliest
        kept = [one.key async for one in table.core.env.store.list(join(table.core.root, "statistics/"))]
        assert len(kept) == 2
        assert any(file[PATH].endswith(key) for key in kept)
        await publications(table.core.env.store, table)


@pytest.mark.parametrize("why", ["lag", "sample", "lost", "older rows"])
async def test_what_is_not_true_of_the_rows_is_not_published(tmp_path: Path, why: str) -> None:
    """Statistics of other rows than readers see, of some of them, or of a lost file are not named."""
    async with lake_at(tmp_path) as lake:
        table = await made(lake, bucket=4)
        if why == "lag":
            await table.upsert(numbered(40, 60))
        report = await table.analyze(sample=0.1 if why == "sample" else None)
        assert (report.share < 1) is (why == "sample")
        if why == "older rows":
            await table.upsert(numbered(50, 60))
            await table.compact(full=True)
        if why == "lost":
            ref = (await table.core.newest()).snapshot.statistics
            assert ref is not None
            await table.core.env.store.delete(join(table.core.root, ref.path))
        published = await table.publish_iceberg()
        assert await told(published.metadata) == []
        assert not (await table.publish_iceberg()).changed
