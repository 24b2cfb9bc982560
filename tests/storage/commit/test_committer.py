"""Commits: one winner, nothing lost, nothing twice, whatever the store answers."""

from __future__ import annotations

import asyncio
import contextlib

import anyio
import pytest

from lakehouse.errors import (
    CommitUnknownError,
    ConflictError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.format.metadata.snapshot import CommitKind, decode_snapshot
from lakehouse.io import ObjectStore
from lakehouse.storage.commit.changes import DropTable
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.testing import (
    Fault,
    FaultKind,
    FaultyStore,
    ManualClock,
    PowerCut,
    RecordingStore,
    memory_store,
)
from tests.kit.committers import ROOT, TestTable, create_table, entry

STORE_FAULTS = [
    FaultKind.FAIL_BEFORE,
    FaultKind.FAIL_AFTER,
    FaultKind.DUPLICATE,
    FaultKind.CONFLICT,
    FaultKind.THROTTLE,
    FaultKind.LANDS_LATER,
    FaultKind.POWER_CUT_BEFORE,
    FaultKind.POWER_CUT_AFTER,
]


async def opened() -> tuple[ObjectStore, TestTable]:
    """An empty table and a process that has it open."""
    store = memory_store()
    await create_table(store)
    return store, TestTable(store)


async def test_an_uncontended_commit_is_one_request() -> None:
    """With the head known, a small commit creates its snapshot and asks nothing else."""
    store = RecordingStore(memory_store())
    await create_table(store)
    table = TestTable(store)
    await table.add("a")
    store.calls.clear()
    await table.add("b")
    assert [call.verb for call in store.calls] == ["put_if_absent"]


async def test_commits_of_many_processes_all_count() -> None:
    """Eight processes that commit at once leave every commit in the chain, each once."""
    store, _ = await opened()
    processes = [TestTable(store) for _ in range(8)]

    async def run(number: int, table: TestTable) -> None:
        for turn in range(10):
            await table.add(f"{number}-{turn}")

    await asyncio.gather(*(run(number, table) for number, table in enumerate(processes)))
    fresh = TestTable(store)
    assert sorted(await fresh.paths()) == sorted(f"{n}-{t}" for n in range(8) for t in range(10))
    head = (await fresh.snapshots.head()).snapshot
    assert head.id == 81
    tokens = {(await fresh.snapshots.snapshot(number, head)).token for number in range(1, 82)}
    assert len(tokens) == 81


async def test_tasks_of_one_process_do_not_race_each_other() -> None:
    """Sixteen tasks of one process that commit cost one create each."""
    store = RecordingStore(memory_store())
    await create_table(store)
    table = TestTable(store)
    await table.add("first")
    store.calls.clear()
    await asyncio.gather(*(table.add(f"{number}") for number in range(16)))
    assert [call.verb for call in store.calls] == ["put_if_absent"] * 16


async def test_a_lost_race_costs_few_requests() -> None:
    """Whoever comes second reads the winner and creates the next snapshot."""
    inner, other = await opened()
    store = RecordingStore(inner)
    table = TestTable(store)
    await table.snapshots.head()
    await other.add("theirs")
    store.calls.clear()
    await table.add("mine")
    assert [call.verb for call in store.calls] == ["put_if_absent", "get", "put_if_absent"]


async def test_losing_twice_looks_for_the_head() -> None:
    """Whoever comes second again lists what it has missed, however much that is, and catches up at once."""
    inner, other = await opened()
    store = RecordingStore(inner)
    table = TestTable(store)
    await table.snapshots.head()
    for number in range(9):
        await other.add(f"theirs-{number}")
    store.calls.clear()
    await table.add("mine")
    verbs = ["put_if_absent", "get", "put_if_absent", "get", "list_page", "get", "put_if_absent"]
    assert [call.verb for call in store.calls] == verbs


async def outcome(table: TestTable, path: str) -> str:
    """What a process is told about its commit."""
    try:
        await table.add(path)
    except CommitUnknownError:
        return "unknown"
    except LakehouseError:
        return "failed"
    except PowerCut:
        return "dead"
    return "done"


@pytest.mark.parametrize("contended", [False, True], ids=["alone", "contended"])
@pytest.mark.parametrize("kind", STORE_FAULTS, ids=lambda kind: kind.name)
async def test_every_cut_point_of_a_commit(kind: FaultKind, contended: bool) -> None:
    """Whatever fails at whatever request: done is there once, failed never, unknown at most once."""
    for at in range(8):
        inner, other = await opened()
        faulty = FaultyStore(inner)
        table = TestTable(faulty)
        await table.add("before")
        if contended:
            await other.add("theirs")
        faulty.planned = [Fault(kind=kind, at=faulty.operations + at)]
        told = await outcome(table, "mine")
        faulty.power = True
        await faulty.land()
        await other.add("after")
        paths = await TestTable(inner).paths()
        assert paths.count("before") == paths.count("after") == 1
        assert paths.count("theirs") == int(contended)
        allowed = {"done": {1}, "failed": {0}, "unknown": {0, 1}, "dead": {0, 1}}[told]
        assert paths.count("mine") in allowed, (at, told)
        if not faulty.injected:
            break


async def test_storms_lose_nothing() -> None:
    """Commits through a store that fails a third of all requests: what is acknowledged is there once."""
    for seed in range(15):
        inner, _ = await opened()
        tables = [TestTable(FaultyStore(inner, seed=seed * 10 + n, rate=0.3)) for n in range(3)]
        told: dict[str, str] = {}

        async def run(n: int, table: TestTable, told: dict[str, str]) -> None:
            for turn in range(6):
                told[f"{n}-{turn}"] = await outcome(table, f"{n}-{turn}")

        await asyncio.gather(*(run(n, table, told) for n, table in enumerate(tables)))
        paths = await TestTable(inner).paths()
        for path, said in told.items():
            assert paths.count(path) in {"done": {1}, "failed": {0}, "unknown": {0, 1}}[said], (
                seed,
                path,
                said,
            )


async def test_a_sequence_is_committed_once() -> None:
    """A (writer, sequence) that was committed is not committed again, by whatever process."""
    store, table = await opened()
    first = await table.add("a", writer=("w", 1))
    again = await TestTable(store).add("a-again", writer=("w", 1))
    assert again.id == first.id
    await table.add("b", writer=("w", 5))
    assert (await table.add("c", writer=("w", 4))).id == 3
    assert await table.paths() == ["a", "b"]


async def test_an_unknown_commit_is_settled_by_its_sequence() -> None:
    """After CommitUnknownError the same (writer, sequence) from another process gives exactly one commit."""
    for applied in (FaultKind.FAIL_AFTER, FaultKind.FAIL_BEFORE):
        inner, _ = await opened()
        faults = [Fault(kind=applied, verb="put_if_absent")] + [
            Fault(kind=FaultKind.FAIL_BEFORE, verb="get", key="snapshot-") for _ in range(8)
        ]
        faulty = FaultyStore(inner)
        table = TestTable(faulty)
        await table.snapshots.head()
        faulty.planned = faults
        with pytest.raises(CommitUnknownError):
            await table.add("a", writer=("w", 1))
        await TestTable(inner).add("a", writer=("w", 1))
        assert await TestTable(inner).paths() == ["a"]


async def test_an_empty_commit_with_a_sequence_is_recorded() -> None:
    """Nothing to add commits nothing, unless it carries a sequence that must be remembered."""
    _, table = await opened()
    assert (await table.add()).id == 1
    assert (await table.add(writer=("w", 1))).id == 2
    assert (await table.add(writer=("w", 1))).id == 2


class Stalling:
    """A change during whose making time passes."""

    blind = True

    def __init__(self, clock: ManualClock, seconds: float, entries: list[str]) -> None:
        self.clock, self.seconds, self.entries = clock, seconds, entries
        self.asked = 0

    async def draft(self, base: Base) -> Draft:
        """Files, after a while; the second time at once."""
        self.asked += 1
        if self.asked == 1:
            await self.clock.advance(self.seconds)
        return Draft(kind=CommitKind.APPEND, added=tuple(map(entry, self.entries)))


async def test_no_commit_is_sent_on_old_knowledge() -> None:
    """When making the change took longer than the deadline, the head is found anew by a listing first."""
    inner = memory_store()
    await create_table(inner)
    clock = ManualClock(skip=True)
    store = RecordingStore(inner)
    table = TestTable(store, clock=clock, deadline_s=300)
    await table.snapshots.head()
    store.calls.clear()
    change = Stalling(clock, 301, ["a"])
    await table.committer.commit(change)
    assert change.asked == 2
    verbs = [call.verb for call in store.calls]
    assert verbs[-1] == "put_if_absent"
    assert "list_page" in verbs
    assert await table.paths() == ["a"]


class SlowAnswer(FaultyStore):
    """The create is applied at once, and its answer takes as long as the test says."""

    clock: ManualClock
    seconds = 0.0

    async def put_if_absent(self, key, data, *, token=None, timed=True):  # type: ignore[no-untyped-def]
        """Time passes before the answer."""
        stored = await super().put_if_absent(key, data, token=token)
        await self.clock.advance(self.seconds)
        return stored


async def test_a_late_answer_is_not_believed() -> None:
    """A success that arrives after the deadline is CommitUnknownError; a sequence settles it."""
    inner = memory_store()
    await create_table(inner)
    clock = ManualClock(skip=True)
    slow = SlowAnswer(inner)
    slow.clock, slow.seconds = clock, 301
    table = TestTable(slow, clock=clock, deadline_s=300)
    with pytest.raises(CommitUnknownError, match="later than"):
        await table.add("a")
    done = await TestTable(slow, clock=clock, deadline_s=300).add("b", writer=("w", 1))
    assert done.writers["w"].sequence == 1
    assert await TestTable(inner).paths() == ["a", "b"]


async def test_a_late_answer_is_not_believed_when_nothing_can_be_read() -> None:
    """A success after the deadline from a store that then goes away is CommitUnknownError, not a failure."""

    class GoneAfterwards(SlowAnswer):
        async def put_if_absent(self, key, data, *, token=None, timed=True):  # type: ignore[no-untyped-def]
            stored = await super().put_if_absent(key, data, token=token)
            self.planned = [Fault(kind=FaultKind.FAIL_BEFORE) for _ in range(99)]
            return stored

    inner = memory_store()
    await create_table(inner)
    clock = ManualClock(skip=True)
    slow = GoneAfterwards(inner)
    slow.clock, slow.seconds = clock, 301
    with pytest.raises(CommitUnknownError, match="later than"):
        await TestTable(slow, clock=clock, deadline_s=300).add("a", writer=("w", 1))
    assert await TestTable(inner).paths() == ["a"]


async def test_the_deadline_counts_from_the_head_and_not_from_a_lost_race() -> None:
    """Reading the winner of a race does not say that it is the newest, so it makes no knowledge younger."""
    inner = memory_store()
    await create_table(inner)
    clock = ManualClock(skip=True)
    store = RecordingStore(inner)
    table = TestTable(store, clock=clock, deadline_s=300)
    await table.snapshots.head()
    await clock.advance(200)
    await TestTable(inner, clock=clock).add("theirs")

    class StallsTheSecondTime(Stalling):
        async def draft(self, base: Base) -> Draft:
            self.asked += 1
            if self.asked == 2:
                await self.clock.advance(self.seconds)
                store.calls.clear()
            return Draft(kind=CommitKind.APPEND, added=tuple(map(entry, self.entries)))

    await table.committer.commit(StallsTheSecondTime(clock, 150, ["mine"]))
    verbs = [call.verb for call in store.calls]
    assert verbs.index("list_page") < verbs.index("put_if_absent")
    assert await table.paths() == ["theirs", "mine"]


class Remove:
    """Takes files of certain names away."""

    blind = False

    def __init__(self, names: set[str]) -> None:
        self.names = names

    async def draft(self, base: Base) -> Draft | None:
        """Those of the names that are live."""
        found = tuple(one for one in await base.entries() if one.path in self.names)
        return Draft(kind=CommitKind.DELETE, removed=found) if found else None


async def test_removed_files_stay_removed_through_folds() -> None:
    """Files taken away while others fold are not there again, and the counts agree."""
    store, table = await opened()
    other = TestTable(store)
    for number in range(900):
        await table.add(f"f{number}")
        if number % 3 == 0:
            await other.committer.commit(Remove({f"f{number // 2}", f"f{number}"}))
    expected = (
        {f"f{n}" for n in range(900)}
        - {f"f{n}" for n in range(0, 900, 3)}
        - {f"f{n // 2}" for n in range(0, 900, 3)}
    )
    fresh = TestTable(store)
    assert set(await fresh.paths()) == expected
    head = (await fresh.snapshots.head()).snapshot
    assert head.total.files == len(expected)
    assert len(head.removed) <= 513


async def test_old_uploads_are_refused() -> None:
    """Files whose upload began before the orphan horizon are not committed, on no attempt."""
    _, table = await opened()

    class Horizon:
        blind = True

        async def draft(self, base: Base) -> Draft:
            """Says up to when uploads are orphans."""
            return Draft(kind=CommitKind.ORPHANS, orphan_horizon_ms=10_000_000)

    await table.committer.commit(Horizon())
    with pytest.raises(ConflictError, match="too long ago"):
        await table.add("a", uploaded_ms=10_000_000)
    await table.add("b", uploaded_ms=10_000_000 + 16 * 60_000)
    assert await table.paths() == ["b"]


async def test_a_dropped_table_takes_no_commits() -> None:
    """A process that still has the table open is told that it was dropped."""
    store, table = await opened()
    await table.snapshots.head()
    await TestTable(store).committer.commit(DropTable())
    with pytest.raises(NotFoundError, match="dropped by snapshot 2"):
        await table.add("a")


async def test_a_cancelled_commit_waits_for_its_answer() -> None:
    """A caller cancelled while its snapshot is created leaves the process knowing what became of it."""
    inner, _ = await opened()
    slow = FaultyStore(inner)
    table = TestTable(slow)
    await table.snapshots.head()
    slow.planned = [Fault(kind=FaultKind.DELAY, verb="put_if_absent", seconds=0.2)]
    with anyio.move_on_after(0.05):
        await table.add("a")
    known = (await table.snapshots.known_head()).snapshot
    assert known.id == 2
    assert await table.paths() == ["a"]


async def test_time_goes_forward_whatever_clocks_say() -> None:
    """A snapshot is later than its parent also when the machine's clock is a day behind or ahead of it."""
    inner = memory_store()
    await create_table(inner)
    for now in (2_000_000_000_000, 1_000_000_000_000, 3_000_000_000_000):
        await TestTable(inner, clock=ManualClock(now, skip=True)).add(f"{now}")
    fresh = TestTable(inner)
    head = (await fresh.snapshots.head()).snapshot
    times = [(await fresh.snapshots.snapshot(number, head)).time_ms for number in range(1, head.id + 1)]
    assert times == sorted(set(times))


async def test_snapshots_are_found_by_time() -> None:
    """The snapshot of a moment is the last one not after it; before the first there is none."""
    inner = memory_store()
    await create_table(inner)
    for second in range(1, 30):
        await TestTable(inner, clock=ManualClock(second * 1_000_000, skip=True)).add(f"{second}")
    snapshots = TestTable(inner).snapshots
    head = (await snapshots.head()).snapshot
    times = {n: (await snapshots.snapshot(n, head)).time_ms for n in range(1, 31)}
    for number, time_ms in times.items():
        assert (await snapshots.at_time(time_ms, head)).id == number
        if number > 1:
            assert (await snapshots.at_time(time_ms - 1, head)).id == number - 1
    with pytest.raises(NotFoundError, match="as old as"):
        await snapshots.at_time(999, head)


@pytest.mark.parametrize("hint", [b"", b"rubbish", b"7", b"99999999", b"3" * 30])
async def test_a_wrong_hint_does_no_harm(hint: bytes) -> None:
    """Whatever LATEST says, the head is found."""
    store, table = await opened()
    for number in range(9):
        await table.add(f"{number}")
    await store.put(f"{ROOT}/snapshot/LATEST", hint)
    assert (await TestTable(store).snapshots.head()).snapshot.id == 10


async def test_a_snapshot_in_anothers_place_is_noticed() -> None:
    """A snapshot object that was copied over another one is an error that names the object."""
    store, table = await opened()
    await table.add("a")
    await table.add("b")
    log = table.snapshots.log
    await store.put(log.key(3), (await store.get(log.key(2))).data)
    with pytest.raises(LakehouseError, match="snapshot-00000000000000000003"):
        await TestTable(store).snapshots.head()


async def test_foreign_objects_beside_snapshots_are_ignored() -> None:
    """Objects with other names in the directory change nothing."""
    store, table = await opened()
    await table.add("a")
    for name in (
        "snapshot-9",
        "snapshot-00000000000000000007.tmp",
        "snapshot-zzz",
        "snapshot-0000000000000000000٣",
    ):
        await store.put(f"{ROOT}/snapshot/{name}", b"x")
    assert (await TestTable(store).snapshots.head()).snapshot.id == 2


async def test_too_many_lost_races_are_a_conflict() -> None:
    """After max_retries attempts that came second the commit gives up, and says what to do."""
    store, other = await opened()

    class Beaten:
        blind = False

        async def draft(self, base: Base) -> Draft:
            """Lets somebody else be first each time."""
            await other.add("theirs")
            return Draft(kind=CommitKind.APPEND, added=(entry("mine"),))

    table = TestTable(store)
    with pytest.raises(ConflictError, match=r"commit\.max_retries"):
        await table.committer.commit(Beaten(), max_retries=3)
    assert set(await table.paths()) == {"theirs"}


async def test_an_unavailable_store_is_said_to_be() -> None:
    """When nothing was sent, the commit failed, and nothing of it appears later."""
    inner, _ = await opened()
    faulty = FaultyStore(inner)
    table = TestTable(faulty)
    await table.snapshots.head()
    faulty.planned = [Fault(kind=FaultKind.THROTTLE, verb="put_if_absent") for _ in range(9)]
    with contextlib.suppress(UnavailableError, CommitUnknownError):
        await table.add("a")
    await faulty.land()
    key = table.snapshots.log.key(2)
    with pytest.raises(NotFoundError):
        decode_snapshot((await inner.get(key)).data, key=key)
