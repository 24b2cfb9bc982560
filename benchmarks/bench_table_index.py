"""Indexes of tables: what a search reads with them, how much faster it is, and what building them costs.

A table of log rows that was compacted into files of equal size: keys in order, every other column in no
order. A search for one value of a column that holds a different one in every row, and for a rare word, is
made over a connection that has just been opened and has read nothing yet, with indexes and without.
Building is measured as the time that the same compaction takes with indexes beside the time without, and so
for writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, ratio_text, seconds_text
from lakehouse.config import Settings
from lakehouse.io.cost import Cost
from lakehouse.lake import Lake, connect
from lakehouse.storage.table import Table as LakeTable
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "logs", "run", "tables"]

TITLE = "Indexes of tables"

_WITH, _WITHOUT = "with indexes", "without"
_FILE_ROWS = 100_000
_HOSTS = 5_000
_RUNS = 4
_FILES_MOST, _FASTER_LEAST, _DEARER_MOST = 2, 20, 0.6
_WORDS = 20_000
_INDEXES: dict[str, dict[str, Any]] = {
    "bloom": {"trace_id": "bloom"},
    "inverted": {"host": "inverted"},
    "fulltext": {"message": "fulltext"},
    "all three": {"trace_id": "bloom", "host": "inverted", "message": "fulltext"},
    "inverted, all different": {"user": "inverted"},
}
_WHOLE = {"granularity": 2 * _FILE_ROWS}
"""A filter for a file: of ten for each, one in ten files would be read for a false positive."""
_SEARCHED: dict[str, Any] = {
    "trace_id": {"bloom": _WHOLE},
    "user": "inverted",
    "message": {"fulltext": _WHOLE},
}
_SEARCHES = {
    "bloom": "trace_id = '{trace_id}'",
    "inverted": "user = '{user}'",
    "fulltext": "matches(message, 'needleword')",
}


def logs(rows: int, first: int, *, total: int) -> pa.Table:
    """Log rows: a trace id of its own in each, hosts and words in no order, a rare word in one of 10,000."""
    random = np.random.default_rng(first + 1)
    numbers = np.arange(first, first + rows)
    mixed = numbers * 2_654_435_761 % (1 << 32)
    other = (numbers * 40_503 + 7) * 2_246_822_519 % (1 << 32)
    parts = [one.tolist() for one in (mixed, other, mixed ^ other, mixed * 31 % (1 << 32))]
    traces = [f"{a:08x}{b:08x}{c:08x}{d:08x}" for a, b, c, d in zip(*parts, strict=True)]
    words = random.integers(0, _WORDS, (rows, 12)).tolist()
    rare = {number for number in range(first, first + rows) if number == total // 2}
    messages = [
        f"request {one[0]} of user u{one[1]}: " + " ".join(f"w{word}" for word in one[2:])
        + (" needleword" if first + at in rare else "")
        for at, one in enumerate(words)
    ]  # fmt: skip
    hosts = [f"host-{one:04d}.example.org" for one in random.integers(0, _HOSTS, rows).tolist()]
    users = [f"user-{one:010d}" for one in mixed.tolist()]
    return pa.table(
        {
            "id": numbers,
            "trace_id": traces,
            "host": hosts,
            "user": users,
            "message": messages,
            "took_ms": random.integers(0, 10_000, rows),
        }
    )


async def run(plan: Plan) -> Report:
    """Building, then searches."""
    total = plan.pick(quick=4, default=20, full=100) * _FILE_ROWS
    results: list[Result] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        options = {**server.storage_options, "endpoint_url": server.endpoint_url}

        def lake(**settings: object) -> Lake:
            found = Settings().replace(**settings)
            return connect(f"s3://{bucket}/lake", storage_options=options, settings=found)

        results += await _building(plan, lake, min(total, 1_000_000))
        sizes = await _filled(lake, total)
        results += await _searches(plan, lake, total, sizes)
    return Report(
        name="table_index",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_WITHOUT,
        notes=(
            f"Files of {_FILE_ROWS:,} log rows: trace ids (bloom) and users (inverted) all different,",
            f"in no order; {_HOSTS:,} hosts (inverted); texts of about 16 words (fulltext on bloom).",
            "Files read: bytes read of data and index files, divided by the size of a data file.",
            "Terms that are all different are as large as their column: of such lists some pages are read.",
            "Every search has a connection of its own, which is open already and remembers nothing.",
            "Building: writes and full compactions of the same rows, with three indexes and without.",
        ),
        facts={"object_store": server.note},
    )


async def _building(plan: Plan, lake: Any, rows: int) -> list[Result]:
    """Writes and compactions with indexes, beside those without."""
    results: list[Result] = []
    parts = [logs(rows // _RUNS, number * (rows // _RUNS), total=rows) for number in range(_RUNS)]
    for number, (kind, indexes) in enumerate(_INDEXES.items()):
        say(f"table_index: building, {kind}")
        async with lake() as opened:
            await opened.create_database("bench", if_not_exists=True)
            built = [
                await _Built.made(opened, f"bench.build_{number}_{len(said)}", side, said, parts)
                for side, said in ((_WITH, indexes), (_WITHOUT, {}))
            ]
            for what, cases, count in (
                ("compact", [one.compacting() for one in built], rows),
                ("write", [one.writing(parts[0]) for one in built], rows // _RUNS),
            ):
                results += await compare(
                    cases,
                    work=count,
                    unit="rows",
                    params={"what": what, "indexes": kind},
                    warmup=plan.warmup,
                    repeats=plan.pick(quick=2, default=5, full=5),
                )
            for one in built:
                await opened.drop_table(one.table.name)
    return results


@dataclass(frozen=True, slots=True)
class _Built:
    """A table of some runs that overlap, to be compacted and written to again and again."""

    side: str
    table: LakeTable
    base: int
    """The snapshot with the runs."""

    @classmethod
    async def made(
        cls, lake: Lake, name: str, side: str, indexes: dict[str, Any], parts: list[pa.Table]
    ) -> Self:
        options = {"index.min_rows": 1000, "compaction.auto": "off"}
        table = await lake.create_table(
            name, parts[0].schema, primary_key="id", indexes=indexes, options=options
        )
        rows = sum(part.num_rows for part in parts)
        for number, part in enumerate(parts):
            ids = np.arange(number, rows, len(parts))[: part.num_rows]
            await table.upsert(part.set_column(0, "id", pa.array(ids)))
        return cls(side, table, await table.current_snapshot())

    def compacting(self) -> Case:
        """A full compaction of the runs."""

        async def work() -> None:
            await self.table.compact(full=True)

        async def before() -> None:
            await self.table.rollback(snapshot=self.base)

        return Case(side=self.side, run=work, before=before)

    def writing(self, rows: pa.Table) -> Case:
        """An upsert."""

        async def work() -> None:
            await self.table.upsert(rows)

        return Case(side=self.side, run=work)


async def _filled(lake: Any, total: int) -> tuple[int, int]:
    """A table of so many rows in files that do not overlap; mean sizes of its data and index files."""
    async with lake() as opened:
        table = await opened.create_table(
            "bench.logs",
            logs(1, 0, total=total).schema,
            primary_key="id",
            indexes=_SEARCHED,
            options={"compaction.auto": "off"},
        )
        for first in range(0, total, _FILE_ROWS):
            say(f"table_index: rows from {first:,}")
            await table.append(logs(_FILE_ROWS, first, total=total))
        files = await table.files()
    sizes = (files.column(name).to_pylist() for name in ("bytes", "index_bytes"))
    data, index = (sum(found) // files.num_rows for found in sizes)
    return data, index


async def _searches(plan: Plan, lake: Any, total: int, sizes: tuple[int, int]) -> list[Result]:
    """One row by each kind of index, beside the scan of all files."""
    wanted = logs(1, total // 2, total=total).to_pylist()[0]
    results: list[Result] = []
    for kind, template in _SEARCHES.items():
        say(f"table_index: search, {kind}")
        where = template.format(**wanted)
        sides = [
            _Search(side, partial(lake, **{"table.scan_indexes": side == _WITH}), where)
            for side in (_WITH, _WITHOUT)
        ]
        found = await compare(
            [Case(side=one.side, run=one.run, before=one.before) for one in sides],
            work=1,
            unit="searches",
            params={"what": "search", "indexes": kind},
            warmup=plan.pick(quick=0, default=1, full=1),
            repeats=plan.pick(quick=2, default=5, full=5),
        )
        read = {one.side: one.cost for one in sides}
        for one in sides:
            await one.close()
        for one in found:
            cost = read[one.side]
            params = {
                **one.params,
                "files": round(cost.bytes_read / sizes[0], 2),
                "requests": cost.requests,
                "index_bytes": sizes[1],
            }
            results.append(dataclasses.replace(one, params=params))
    return results


class _Search:
    """One search, again and again.

    Args:
        side: with indexes or without.
        lake: makes connections.
        where: what is searched.
    """

    def __init__(self, side: str, lake: Callable[[], Lake], where: str) -> None:
        self.side, self.cost = side, Cost()
        self._lake, self._where = lake, where
        self._stack = AsyncExitStack()

    async def before(self) -> None:
        """Opens a connection that has read nothing but names."""
        await self.close()
        self._opened = await self._stack.enter_async_context(self._lake())
        await self._opened.databases()

    async def run(self) -> None:
        """Searches."""
        scan = (await self._opened.table("bench.logs")).scan(self._where)
        assert (await scan.to_arrow()).num_rows >= 1
        self.cost = scan.report.cost

    async def close(self) -> None:
        """Ends the connection."""
        await self._stack.aclose()


def goals(report: Report) -> list[Goal]:
    """Files read, speed of words, cost of building."""
    found = [
        Goal(
            text=f"equality with {ours.params['indexes']}: bytes read ÷ bytes of a file",
            target=f"≤ {_FILES_MOST}",
            measured=str(ours.params["files"]),
            met=float(ours.params["files"]) <= _FILES_MOST,
        )
        for ours in report.where(what="search", side=_WITH)
        if ours.params["indexes"] in ("bloom", "inverted")
    ]
    for ours in report.where(what="search", indexes="fulltext", side=_WITH):
        faster = ratio(ours, report.one(what="search", indexes="fulltext", side=_WITHOUT))
        found.append(
            Goal(
                text="fulltext: time of the scan ÷ time with the index",
                target=f"≥ {_FASTER_LEAST}",
                measured=ratio_text(faster),
                met=faster.median >= _FASTER_LEAST,
            )
        )
    for ours in report.where(what="compact", side=_WITH, indexes="all three"):
        plain = report.one(what="compact", side=_WITHOUT, indexes="all three")
        dearer = ratio(plain, ours).median - 1
        found.append(
            Goal(
                text="full compaction: what three indexes cost on top",
                target=f"≤ {_DEARER_MOST:.0%}",
                measured=f"{dearer:.0%}",
                met=dearer <= _DEARER_MOST,
            )
        )
    return found


def tables(report: Report) -> list[Table]:
    """Searches, then building."""
    return [
        pivot(
            report.where(what="search"),
            title="One search: time, files read",
            rows="indexes",
            columns="side",
            cell=lambda r: (
                f"{seconds_text(r.wall.median)}, {r.params['files']} files, {r.params['requests']} requests"
            ),
        ),
        Table(
            title="What indexes gain, and what building them costs",
            header=("indexes", "time of a search without ÷ with", "writing", "full compaction"),
            rows=tuple(
                (kind, _gain(report, kind), *(_price(report, kind, what) for what in ("write", "compact")))
                for kind in dict.fromkeys([*_SEARCHES, *_INDEXES])
            ),
        ),
        *(
            pivot(
                report.where(what=what),
                title=title,
                rows="indexes",
                columns="side",
                cell=lambda r: seconds_text(r.wall.median),
            )
            for what, title in (("write", "Writing"), ("compact", "Full compaction"))
        ),
    ]


def _gain(report: Report, kind: str) -> str:
    """How many times faster a search is."""
    if kind not in _SEARCHES:
        return ""
    sides = (report.one(what="search", indexes=kind, side=side) for side in (_WITH, _WITHOUT))
    return ratio_text(ratio(*sides))


def _price(report: Report, kind: str, what: str) -> str:
    """What indexes add to the time of a write or a compaction."""
    if kind not in _INDEXES:
        return ""
    ours, plain = (report.one(what=what, indexes=kind, side=side) for side in (_WITH, _WITHOUT))
    return f"{ratio(plain, ours).median - 1:+.0%}"
