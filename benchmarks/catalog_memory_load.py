"""A load on the layers of the catalog, in a process of its own.

``python -m benchmarks.catalog_memory_load BYTES`` runs it;
``--times`` says how many budgets go through, ``--kinds`` of what.

Content of the kinds that layers hold, made by the decoders that make it when it is read, is asked for at
random until ten times the budget has gone through. Prints by how much the resident set grew, as a share of
the budget, and what was held in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import google_crc32c
import pyarrow as pa

from benchmarks.iceberg_manifests import ManyFiles
from lakehouse.cache import CacheBudget, CacheRegion, identity_tags
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.sources import ListedName, Page, Pointer, SnapshotFacts, TableFacts
from lakehouse.clock import SystemClock
from lakehouse.config import Settings
from lakehouse.format.keys.column_stats import stats_of
from lakehouse.format.metadata import (
    ColumnarEntries,
    CommitKind,
    FileEntry,
    ManifestRef,
    SchemaRef,
    Snapshot,
    decode_manifest,
    decode_snapshot,
    encode_manifest,
    encode_snapshot,
)
from lakehouse.format.schema import (
    SchemaObject,
    decode_schema,
    encode_schema,
    schema_from_arrow,
)
from lakehouse.iceberg.manifests import decode_manifests
from lakehouse.iceberg.planning import PlanCaches
from lakehouse.storage.metadata import TableCaches
from lakehouse.storage.metadata.manifests import with_position

__all__ = ["main"]

TABLE = uuid.UUID(int=7)
_ARROW = pa.schema(
    {"id": pa.int64(), "ts": pa.timestamp("us"), "name": pa.string(), "v": pa.float64(), "n": pa.int32()}
)
_ROWS = pa.table(
    {
        "id": [1, 2, 1 << 40],
        "ts": pa.array([1, 2, 3], pa.timestamp("us")),
        "name": ["alpha", "beta of some length", "gamma"],
        "v": [0.5, 1.5, 2.5],
        "n": pa.array([1, 2, 3], pa.int32()),
    }
)


class Content:
    """Values as decoders make them, each different from all others."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.schema = schema_from_arrow(_ARROW, primary_key=["id"])
        self.stats = stats_of(_ROWS, self.schema.fields)
        many = ManyFiles(manifests=1, entries=400, location="file:///x")
        self.iceberg = next(many.objects())[1]

    def _entries(self, number: int, count: int) -> tuple[FileEntry, ...]:
        return tuple(
            FileEntry(
                path=f"data/{number:016x}-{place:06x}-{self.random.getrandbits(64):016x}.parquet",
                size=1_000_000 + place,
                rows=10_000 + place,
                min_key=place.to_bytes(8, "big"),
                max_key=(place + 1).to_bytes(8, "big"),
                stats=self.stats,
                at=number + 1,
                lo=(number + 1, 1, 0),
                hi=(number + 1, 1, 0),
            )
            for place in range(count)
        )

    def manifest(self, number: int) -> ColumnarEntries:
        """Entries of a manifest of ours, as a scan leaves them: with columns of statistics made."""
        data = encode_manifest(self._entries(number, self.random.randrange(20, 400)), table=TABLE)
        decoded = decode_manifest(data, key="m", table=TABLE, checksum=google_crc32c.value(data))
        entries = ColumnarEntries([with_position(entry, number + 1) for entry in decoded])
        _ = entries.live_rows, entries.partitions
        for field in self.schema.fields[: self.random.randrange(4)]:
            entries.stats(field.id)
        return entries

    def snapshot(self, number: int) -> Snapshot:
        """A snapshot with files of its own and manifests."""
        refs = tuple(
            ManifestRef(
                path=f"manifest/{number:016x}-{place}.avro",
                size=1,
                entries=1,
                rows=1,
                checksum=place,
                at=number + 1,
            )
            for place in range(self.random.randrange(30))
        )
        snapshot = Snapshot(
            id=number + 1,
            table=TABLE,
            parent=None,
            token=f"{self.random.getrandbits(128):032x}",
            time_ms=1_700_000_000_000 + number,
            kind=CommitKind.APPEND,
            schema=SchemaRef(id=0, path=f"schema/{number:032x}"),
            added=self._entries(number, self.random.randrange(100)),
            manifests=refs,
        )
        return decode_snapshot(encode_snapshot(snapshot), key="snapshot")

    def schema_object(self, number: int) -> SchemaObject:
        """A schema of some to many columns."""
        columns = {f"column_{number}_{place}": pa.int64() for place in range(self.random.randrange(5, 200))}
        schema = schema_from_arrow(pa.schema(columns), comment=f"table {number}")
        made = SchemaObject(schema=schema, table=TABLE, token=f"{number:032x}", time_ms=number)
        return decode_schema(encode_schema(made), key="schema")

    def iceberg_manifest(self, number: int) -> Any:
        """Columns of a manifest of Iceberg's."""
        return decode_manifests([(self.iceberg, f"m{number}")])[0]

    def facts(self, number: int) -> TableFacts:
        """What a version of a table says of it."""
        names = [f"column_{number}_{place}" for place in range(self.random.randrange(5, 200))]
        return TableFacts(
            format="iceberg",
            schema_id=number,
            schema_json=json.dumps(
                [{"id": at, "name": name, "type": "long"} for at, name in enumerate(names)]
            ),
            field_ids={name: at for at, name in enumerate(names)},
            primary_key=(names[0],),
            references={f"tag-{number}-{place}": place for place in range(5)},
            current_snapshot=number,
        )

    def snapshots(self, number: int) -> tuple[SnapshotFacts, ...]:
        """A list of snapshots."""
        return tuple(
            SnapshotFacts(
                id=(number << 20) + at,
                parent=(number << 20) + at - 1,
                time_ms=number + at,
                schema_id=at,
                operation="append",
            )
            for at in range(self.random.randrange(1, 500))
        )

    def pointer(self, number: int) -> Pointer:
        """A pointer of a name."""
        identity = uuid.UUID(int=self.random.getrandbits(128))
        return Pointer(
            path=("namespace", f"table_{number}"),
            kind=NodeKind.TABLE,
            identity=identity,
            version=f"s3://bucket/warehouse/namespace/table_{number}/metadata/{identity}.metadata.json",
            content_key=(identity.hex, str(number)),
            location=f"s3://bucket/warehouse/namespace/table_{number}",
        )

    def page(self, number: int) -> Page:
        """A page of a listing."""
        names = [f"table_{number}_{place:06}" for place in range(self.random.randrange(1, 1_000))]
        return Page(entries=tuple(ListedName(path=("ns", name), kind=NodeKind.TABLE) for name in names))


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4_096


def _regions(
    layers: Layers, content: Content
) -> dict[str, tuple[CacheRegion[Any, Any], Callable[[int], Any], int]]:
    """Cache, maker and share of each kind of content."""
    tables, plans, account = TableCaches(layers.budget), PlanCaches(layers.budget), layers.account()
    return {
        "manifest": (tables.manifests, content.manifest, 10),
        "snapshot": (tables.snapshots, content.snapshot, 20),
        "schema object": (tables.schemas, content.schema_object, 20),
        "iceberg manifest": (plans.manifests, content.iceberg_manifest, 30),
        "table": (layers.table, content.facts, 40),
        "snapshots": (layers.snapshots, content.snapshots, 10),
        "pointer": (account.pointers, content.pointer, 100),
        "names": (account.names, content.page, 5),
    }


async def main(
    budget_bytes: int, *, times: int = 10, kinds: Sequence[str] = (), warm_up: int = 300, seed: int = 7
) -> dict[str, Any]:
    """Runs the load; returns the growth as a share of the budget, and counts.

    Args:
        budget_bytes: bytes of the budget.
        times: content that goes through, in budgets.
        kinds: of content; none = all.
        warm_up: values of each kind that are made before the count begins.
        seed: of the order.
    """
    settings = Settings.resolve(
        {"cache.max_bytes": budget_bytes, "meta.cache.pointer.ttl": 3600.0, "meta.cache.names.ttl": 3600.0}
    )
    layers = Layers(CacheBudget.of(settings), settings, SystemClock())
    content, chance = Content(seed), random.Random(seed + 1)
    regions = _regions(layers, content)
    kinds = list(kinds or regions)
    shares = [regions[kind][2] for kind in kinds]
    for kind in kinds:
        for _ in range(warm_up):  # decoders load compiled kernels once they have much to do
            regions[kind][1](0)
    before, most, loaded, number = _resident(), 0, 0, 0
    while loaded < times * budget_bytes:
        kind = chance.choices(kinds, shares)[0]
        region, make, _ = regions[kind]
        at = number if chance.random() < 0.8 else chance.randrange(number + 1)

        async def load(key: Any, make: Callable[[int], Any] = make) -> Any:
            return make(key[1])

        stats = region.stats().counters
        value = await region.get((kind, at), load, tags=identity_tags(uuid.UUID(int=at)))
        if region.stats().counters.loads > stats.loads:
            loaded += max(region.spec.weigh(value), 1)
        number += 1
        if number % 16 == 0:
            most = max(most, _resident())
    return {
        "growth": round((max(most, _resident()) - before) / budget_bytes, 3),
        "filled": round(layers.budget.weight / budget_bytes, 3),
        "loads": number,
        "evictions": sum(stats.counters.evictions for stats in layers.budget.stats()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bytes", type=int)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=300)
    parser.add_argument("--kinds", nargs="*", default=())
    given = parser.parse_args()
    found = asyncio.run(main(given.bytes, times=given.times, kinds=given.kinds, warm_up=given.warm_up))
    print(json.dumps(found))
