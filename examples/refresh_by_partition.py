"""Keeps a table of sums up to date by reading only the partitions that changed.

Run it as often as you like, from one process at a time::

    python examples/refresh_by_partition.py s3://bucket/warehouse sales.orders sales.totals

The source is any table with partitions of values or times, also one of an attached catalog. The target has a
row for each partition of the source: how many rows it has. After a change of the partitioning, a wider
partition stands for the narrower ones that it covers. Which snapshot of the source the target shows is a row
of it too: a run that ended anywhere is repeated by the next, and one that finds nothing new writes nothing.
"""

from __future__ import annotations

import argparse
import asyncio

import pyarrow as pa

import lakehouse
from lakehouse import Lake
from lakehouse.catalog import ChangedPartitions, PartitionInfo, PartitionKey

TARGET = pa.schema({"partition": pa.string(), "rows": pa.int64(), "source_snapshot": pa.int64()})
STATE = "the whole source"
"""Name of the row that says which snapshot of the source the target shows."""


async def refresh(lake: Lake, source: str, target: str) -> list[str]:
    """Refreshes the target; returns the names of the partitions that were read."""
    totals = await lake.create_table(target, TARGET, primary_key="partition", if_not_exists=True)
    state = await totals.get({"partition": STATE})
    start = None if state is None else int(state["source_snapshot"])
    changed = await lake.graph.changed_partitions(source, start)
    if changed.end is None or changed.end == start:
        return []
    # Of the snapshot that the changes lead to, whatever is committed meanwhile.
    after = await lake.graph.partitions(source, changed.end)
    before = after if start is None else await lake.graph.partitions(source, start)
    units, stale = what_to_read(changed, before, after)
    table = await lake.table(source)
    rows = [{"partition": STATE, "rows": 0, "source_snapshot": changed.end}]
    for key in stale:
        count = await table.scan(key.where(), snapshot=changed.end).count()
        rows.append({"partition": key.name, "rows": count, "source_snapshot": changed.end})
    there = {STATE, *(key.name for key in units)}
    known = (await totals.scan(columns=["partition"]).to_arrow())["partition"].to_pylist()
    gone = [name for name in known if name not in there]
    if gone:
        await totals.delete(keys=[{"partition": name} for name in gone])
    # The state is in the same commit as the sums: both are there, or neither is.
    await totals.upsert(rows)
    return [key.name for key in stale]


def what_to_read(
    changed: ChangedPartitions, before: PartitionInfo, after: PartitionInfo
) -> tuple[list[PartitionKey], list[PartitionKey]]:
    """Returns the partitions that the target has rows of, and those of them that have to be read again."""
    inside = {key: one.key for info in (before, after) for one in info.partitions for key in one.covers}

    def unit(key: PartitionKey) -> PartitionKey:
        while key in inside:
            key = inside[key]
        return key

    units = list(dict.fromkeys(unit(one.key) for one in after.partitions))
    vague = [key.name for key in units if not key.is_exact]
    if vague or after.problem is not None:
        raise SystemExit(f"no condition selects the rows of a partition: {after.problem or vague[0]}")
    touched = {unit(key) for key in changed.partitions}
    return units, [key for key in units if changed.is_all or key in touched]


async def main(url: str, source: str, target: str) -> None:
    """Refreshes once and says what was read."""
    async with lakehouse.connect(url) as lake:
        names = await refresh(lake, source, target)
    print(f"{len(names)} partitions read: {', '.join(names[:10])}" if names else "nothing has changed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("source")
    parser.add_argument("target")
    given = parser.parse_args()
    asyncio.run(main(given.url, given.source, given.target))
