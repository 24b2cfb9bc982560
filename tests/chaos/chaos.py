"""Kills, stalls and overtakes processes that work on the same tables, and judges the tables meanwhile.

Each table has a streaming writer and a batch writer; one process flushes, compacts, rescales and rebuilds
indexes, and one lets snapshots expire and sweeps orphans. Each lives for a random while. Then it is killed;
or its successor begins before it is killed; or it is stopped, wakes up when the deadline of commits and
perhaps the grace of deletions are over, and goes on for a moment as if nothing had been.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.errors import CommitUnknownError, LakehouseError, NotFoundError, UnavailableError
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from tests.chaos.histories import LAYOUTS, SCHEMA, History, Layout, by_writer
from tests.chaos.processes import GRACE_S, OPTIONS, Job, Place, Process, hasten, warm_up

__all__ = ["Report", "run"]

_LIVES_S = ((0.1, 2.0), (2.0, 12.0))
"""Some end soon after they began; others have time to do something."""
_EARLY = 0.2
"""Share of lives that are counted from the start of the process, and may end before it did anything."""
_KILLED, _OVERTAKEN = 0.7, 0.88
"""Below: killed, overtaken; above: stalled."""
_FADING = 3
"""Processes that are not killed yet and have a successor."""
_EVENTS = 300
"""The newest are shown when something is wrong."""
_TAGS = 3
"""Tags that are kept to be read again."""
_DIFFERENCES = 5
_LEAST, _LONGEST = 10, 3
"""Operations of every writer before it may end in time, and so many times the time if not."""
_PATIENCE = 5
_HARMLESS_AFTER_A_STALL = ("NotFoundError", "ConflictError")
"""What a process slept through may have deleted what it began with."""


@dataclass(slots=True)
class Report:
    """What happened, and what was wrong."""

    seed: int
    seconds: float = 0.0
    processes: int = 0
    kills: int = 0
    overtaken: int = 0
    stalls: int = 0
    checks: int = 0
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Operations, by table."""
    commits: dict[str, int] = field(default_factory=dict)
    takeovers: dict[str, int] = field(default_factory=dict)
    """Of the log, by table."""
    counts: Counter[str] = field(default_factory=Counter)
    """What processes said."""
    events: deque[str] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = ", ".join(f"{word} {count:,}" for word, count in sorted(self.counts.items()))
        ends = f"{self.kills} killed, {self.overtaken} overtaken, {self.stalls} stalled"
        lines = [
            f"seed {self.seed}: {self.seconds:.0f} s, {self.processes} processes, {ends}",
            f"operations acknowledged: {self.acknowledged}",
            f"commits: {self.commits}; takeovers of the log: {self.takeovers}; {self.checks} looks",
            said,
        ]
        if self.wrong:
            lines += [*self.events, *(f"WRONG: {one}" for one in self.wrong)]
        else:
            lines.append("nothing lost, nothing twice, nothing out of order, nothing damaged")
        return "\n".join(lines)


@dataclass(slots=True)
class _Role:
    """Something that is always being done by some process."""

    what: str
    table: str = ""
    who: int = 0
    sent: int = -1
    """The last operation that was sent, and the last that was acknowledged."""
    acked: int = -1
    process: Process | None = None
    ends_at: float | None = None
    """None = so long after it has done something; busy machines are slow to start many processes at once."""
    life_s: float = 0.0
    fresh: History | None = None
    """How far reads of the log have come, and reads of snapshots."""
    steady: History | None = None
    steady_at: int = -1

    def __str__(self) -> str:
        return f"{self.what} {self.who} of {self.table}" if self.table else self.what


@dataclass(slots=True)
class _Fading:
    """A process that has a successor."""

    role: _Role
    process: Process
    wakes_at: float | None
    ends_at: float


class Chaos:
    """Processes that come and go, and what their tables have to show.

    Args:
        place: a warehouse with the tables.
        ledgers: an empty directory.
        seed: which chances are taken.
    """

    def __init__(self, place: Place, ledgers: Path, seed: int) -> None:
        self._place, self._ledgers, self._chance = place, ledgers, random.Random(seed)
        self.report = Report(seed)
        self._began = time.monotonic()
        self._fading: list[_Fading] = []
        self._tags: dict[str, list[tuple[str, pa.Table]]] = {name: [] for name in LAYOUTS}
        self._made = 0
        self._roles = [_Role("compact"), _Role("expire")]
        for number, (name, layout) in enumerate(LAYOUTS.items()):
            for what, who in (("stream", 100 + number), ("batch", 200 + number)):
                streams = what == "stream"
                fresh, steady = (History(layout, who, streams=streams) for _ in range(2))
                self._roles.append(_Role(what, name, who, fresh=fresh, steady=steady))

    # --- processes ----------------------------------------------------------------

    async def go(self, seconds: float) -> None:
        """Lets them work and die for so long, and looks at the tables meanwhile.

        Where the machine is so busy that somebody has done next to nothing by then, it takes longer.
        """
        judging = asyncio.create_task(self._judge_meanwhile())
        try:
            while not self._is_over(time.monotonic() - self._began, seconds) and not judging.done():
                self._tick(time.monotonic())
                await asyncio.sleep(0.02)
        finally:
            judging.cancel()
            await asyncio.wait([judging])
            for one in self._fading:
                self._end(one.role, one.process)
            for role in self._roles:
                if role.process is not None:
                    self._end(role, role.process)
            self.report.seconds = time.monotonic() - self._began
        if not judging.cancelled():
            judging.result()

    def _is_over(self, passed: float, seconds: float) -> bool:
        is_enough = self.report.checks >= len(LAYOUTS) and all(
            role.acked >= _LEAST for role in self._roles if role.table
        )
        return bool(self.report.wrong) or passed > (seconds if is_enough else _LONGEST * seconds)

    def _tick(self, now: float) -> None:
        for one in list(self._fading):
            if one.wakes_at is not None and now > one.wakes_at:
                one.wakes_at = None
                self._note(f"{one.role} wakes up")
                one.process.wake()
            if now > one.ends_at:
                self._fading.remove(one)
                self._end(one.role, one.process)
        for role in self._roles:
            if role.process is not None and role.ends_at is None:
                self._listen(role, role.process)
                role.ends_at = now + role.life_s if role.process.has_done_something else None
            is_over = role.ends_at is not None and now > role.ends_at
            if role.process is None or is_over or not role.process.is_alive:
                self._replace(role, now)

    def _replace(self, role: _Role, now: float) -> None:
        old, draw = role.process, self._chance.random()
        if old is not None:
            self._listen(role, old)
            if draw < _KILLED or not old.is_alive or len(self._fading) >= _FADING:
                self._end(role, old)
            elif draw < _OVERTAKEN:
                self.report.overtaken += 1
                self._note(f"{role} is overtaken")
                ends_at = now + self._chance.uniform(0.5, 2)
                self._fading.append(_Fading(role, old, None, ends_at))
            else:
                self.report.stalls += 1
                self._note(f"{role} is stalled")
                old.stall()
                wakes_at = now + self._chance.choice([1, GRACE_S / 2, GRACE_S]) * self._chance.uniform(1, 2)
                self._fading.append(_Fading(role, old, wakes_at, wakes_at + self._chance.uniform(0.3, 3)))
            self._listen(role, old)
        self.report.processes += 1
        job = Job(
            place=self._place,
            ledger=self._ledgers / f"{role.what}-{role.who}-{self.report.processes}",
            what=role.what,
            table=role.table,
            who=role.who,
            first=role.acked + 1,
            seed=self._chance.randrange(1 << 30),
        )
        role.process = Process(job)
        role.life_s = self._chance.uniform(*self._chance.choice(_LIVES_S))
        role.ends_at = now + role.life_s if self._chance.random() < _EARLY else None

    def _end(self, role: _Role, process: Process) -> None:
        """Kills a process; by then some have ended by themselves."""
        if process.is_alive:
            self.report.kills += 1
            self._note(f"{role} is killed")
        process.end()
        self._listen(role, process)

    def _listen(self, role: _Role, process: Process) -> None:
        for word, what in process.heard():
            if word == "sent":
                role.sent = max(role.sent, int(what))
            elif word == "acked":
                role.acked = max(role.acked, int(what))
            elif word == "epoch":
                taken = self.report.takeovers
                taken[role.table] = max(taken.get(role.table, 0), int(what))
                self._note(f"{role} has the log, epoch {what}, from operation {process.job.first}")
            elif word in ("error", "bug"):
                self._note(f"{role} ended: {what}")
                harmless = process.was_stalled and what.startswith(_HARMLESS_AFTER_A_STALL)
                self.report.counts["ended after a stall"] += harmless
                if not harmless:
                    self.report.wrong.append(f"{role} ended: {what}")
            elif what.isdecimal():
                self.report.counts[word] += int(what)
            else:
                self._note(f"{role} {word}: {what}")
                self.report.counts[f"{word}, {what.split(':')[0]}"] += 1

    def _listen_to_all(self) -> None:
        for role in self._roles:
            if role.process is not None:
                self._listen(role, role.process)
        for one in self._fading:
            self._listen(one.role, one.process)

    def _note(self, what: str) -> None:
        self.report.events.append(f"{time.monotonic() - self._began:8.2f} {what}")

    # --- judging ------------------------------------------------------------------

    async def _judge_meanwhile(self) -> None:
        async with self._place.connect() as lake, asyncio.TaskGroup() as group:
            for name in LAYOUTS:
                group.create_task(self._judge_again_and_again(lake, name))

    async def _judge_again_and_again(self, lake: Lake, name: str) -> None:
        table = await lake.table(name)
        while True:
            began = time.monotonic()
            try:
                # Now a process that has known the table for long, now one that opens it.
                await self._judge(table if self._chance.random() < 0.5 else await lake.table(name))
            except LakehouseError as error:
                self._look_failed(name, error, time.monotonic() - began)
            await asyncio.sleep(self._chance.uniform(0, 3))

    def _look_failed(self, name: str, error: LakehouseError, seconds: float) -> None:
        """On a busy machine commits are too slow for the deadline, and reads for the grace."""
        self._note(f"a look at {name} came to nothing after {seconds:.1f} s: {error}")
        self.report.counts[f"no look, {type(error).__name__}"] += 1
        if seconds < GRACE_S and not isinstance(error, (CommitUnknownError, UnavailableError)):
            self.report.wrong.append(f"{name} cannot be read: {type(error).__name__}: {error}")

    def _writers(self, name: str) -> list[_Role]:
        return [role for role in self._roles if role.table == name]

    async def _judge(self, table: Table) -> None:
        """One look at a table that others write."""
        name = str(table.name)
        self._listen_to_all()
        acked = {role.who: role.acked for role in self._writers(name)}
        fresh = await table.scan(freshness="wal").to_arrow()
        self._listen_to_all()
        self._compare(name, "reads of the log", fresh, acked, fresh=True)
        await self._judge_snapshot(table, LAYOUTS[name])
        began = time.monotonic()
        report = await table.verify(deep=self._chance.random() < 0.2)
        if not report.ok and time.monotonic() - began < GRACE_S:
            self.report.wrong.append(f"{name}: {report}")
        self.report.checks += 1

    async def _judge_snapshot(self, table: Table, layout: Layout) -> None:
        """A snapshot is some beginning of every history, whichever way it is read, and stays so."""
        name, tags, tag = layout.name, self._tags[layout.name], f"t{self._made}"
        self._made += 1
        self._listen_to_all()
        # Every commit covers what was acknowledged before it, and so does that of a tag: the second one.
        acked = {role.who: role.acked for role in self._writers(name)}
        try:
            before = (await table.create_tag(f"{tag}-before")).snapshot
            await table.create_tag(tag, snapshot=before)
            await table.delete_tag(f"{tag}-before")
        except NotFoundError:
            return  # the snapshot expired before the tag was there
        found = await table.scan(tag=tag).to_arrow()
        self._listen_to_all()
        self._compare(name, f"snapshot {before}", found, acked, fresh=False)
        await self._read_otherwise(table, tag, found)
        tags.append((tag, _sorted(found)))
        for known, rows in tags:
            if not _sorted(await table.scan(tag=known).to_arrow()).equals(rows):
                self.report.wrong.append(f"{name}: tag {known} reads otherwise than before")
        if len(tags) > _TAGS:
            await table.delete_tag(tags.pop(0)[0])

    async def _read_otherwise(self, table: Table, tag: str, found: pa.Table) -> None:
        """Conditions and keys find what the whole scan found."""
        rows = found.to_pylist()
        some = self._chance.sample(rows, min(5, len(rows)))
        for row in some[:2]:
            for column, text in (
                ("note", f"note = '{row['note']}'"),
                ("number", f"number = {row['number']}"),
            ):
                wanted = found.filter(pa.compute.equal(found[column], row[column]))
                if not _sorted(await table.scan(text, tag=tag).to_arrow()).equals(_sorted(wanted)):
                    self.report.wrong.append(f"{table.name}, tag {tag}: {text} finds other rows")
        keys = [{column: row[column] for column in ("who", "part", "slot")} for row in some]
        key = LAYOUTS[str(table.name)].table["primary_key"]
        asked = [{column: one[column] for column in key} for one in keys]
        if some and _sorted(await table.get_many(asked, tag=tag)) != _sorted(
            pa.Table.from_pylist(some, found.schema)
        ):
            self.report.wrong.append(f"{table.name}, tag {tag}: keys {asked} find other rows")

    def _compare(
        self, name: str, what: str, found: pa.Table, acked: dict[int, int], *, fresh: bool
    ) -> dict[int, int]:
        """Finds how far each writer is in these rows; puts down what cannot be."""
        rows, wrong = by_writer(found)
        writers, at = self._writers(name), {}
        wrong += [f"rows of {who}, who never wrote" for who in rows.keys() - {one.who for one in writers}]
        for role in writers:
            history, seen = role.fresh if fresh else role.steady, rows.get(role.who, {})
            assert history is not None
            low = acked[role.who]
            number = history.find(seen, low, role.sent)
            if number is None:
                least = history.differences(seen, low)
                most = history.differences(seen, role.sent)
                wrong.append(
                    f"{role} shows no state from operation {low} (acknowledged) to {role.sent} (sent); "
                    f"{len(least)} and {len(most)} differ: "
                    + "; ".join([*least[:_DIFFERENCES], *most[:_DIFFERENCES]])
                )
            else:
                at[role.who] = number
        self.report.wrong += [f"{name}, {what}: {one}" for one in wrong]
        for one in wrong:
            self._note(f"{name}, {what}: {one}")
        return at

    async def judge_at_the_end(self, lake: Lake) -> None:
        """Flushes, compacts, deletes and sweeps what is left: rows stay as they are, and all is sound."""
        for name in LAYOUTS:
            table = await lake.table(name)
            writers = self._writers(name)
            self.report.acknowledged[name] = sum(role.acked + 1 for role in writers)
            fresh = await table.scan(freshness="wal").to_arrow()
            self._compare(name, "the end", fresh, {role.who: role.acked for role in writers}, fresh=True)
            for what, work in _tidying(table):
                try:
                    await _patiently(work)
                except Exception as error:  # one more thing that is wrong
                    self.report.wrong.append(f"{name}, {what}: {type(error).__name__}: {error}")
                    continue
                if not _sorted(await table.scan().to_arrow()).equals(_sorted(fresh)):
                    self.report.wrong.append(f"{name} has other rows after it was {what}")
                report = await table.verify(deep=True)
                if not report.ok:
                    self.report.wrong.append(f"{name}, {what}: {report}")
            left = await table.remove_orphans(older_than=int((time.time() + 60) * 1000), dry_run=True)
            young = left.by_kind.get("data", 0) + left.by_kind.get("index", 0)
            if young or left.foreign:
                self.report.wrong.append(f"{name}: orphans are left: {left} {left.paths}")
            self.report.commits[name] = await table.current_snapshot()


async def _patiently(work: Callable[[], Awaitable[Any]]) -> None:
    """Does it again when a busy machine was too slow for the deadline."""
    for _ in range(_PATIENCE):
        with contextlib.suppress(CommitUnknownError, UnavailableError):
            await work()
            return
    await work()


def _tidying(table: Table) -> list[tuple[str, Callable[[], Awaitable[Any]]]]:
    async def expire() -> None:
        known = (await table.tags()).column("name").to_pylist()
        for tag in known:
            await table.delete_tag(tag)
        await table.expire_snapshots(retain=1, grace_s=0)

    return [
        ("flushed", table.flush),
        ("compacted", lambda: table.compact(full=True)),
        ("rid of old snapshots", expire),
        ("swept", lambda: table.remove_orphans(older_than=int((time.time() + 60) * 1000))),
    ]


def _sorted(found: pa.Table) -> pa.Table:
    table = found.select(SCHEMA.names).combine_chunks()
    return table.sort_by([("who", "ascending"), ("slot", "ascending")]).combine_chunks()


async def run(place: Place, ledgers: Path, *, seconds: float, seed: int) -> Report:
    """Makes tables in an empty warehouse, lets processes work on them and die, and judges them."""
    hasten()
    async with place.connect() as lake:
        await lake.create_database("db")
        for name, layout in LAYOUTS.items():
            more = {**OPTIONS, **layout.table.get("options", {})}
            await lake.create_table(name, SCHEMA, **{**layout.table, "options": more})
    await asyncio.to_thread(warm_up, place, ledgers / "first")
    chaos = Chaos(place, ledgers, seed)
    await chaos.go(seconds)
    await asyncio.sleep(1)  # what the dead had sent arrives
    async with place.connect() as lake:
        try:
            await chaos.judge_at_the_end(lake)
        except LakehouseError as error:  # with what happened before it
            chaos.report.wrong.append(f"the end: {type(error).__name__}: {error}")
    return chaos.report
