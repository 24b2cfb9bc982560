"""Deletions of a table's objects are counted and told, and a dry run makes none."""

from __future__ import annotations

from lakehouse.io.work import Progress, ProgressReporter
from lakehouse.storage.maintenance.deletions import Deletions
from lakehouse.testing import RecordingStore, memory_store

ROOT = "db/t-01020304"


async def filled() -> RecordingStore:
    """A store with three objects of a table."""
    store = RecordingStore(memory_store())
    for name in ("a", "b", "c"):
        await store.put(f"{ROOT}/{name}", b"x")
    store.clear()
    return store


async def test_objects_are_deleted_and_counted() -> None:
    """Paths are those of the table; objects and bytes of all batches are summed."""
    store = await filled()
    deletions = Deletions(store, ROOT, ProgressReporter(None), dry_run=False)
    assert await deletions.delete([("a", 5), ("b", 7)]) == 2
    assert await deletions.delete(iter([("c", 1)])) == 1
    assert (deletions.objects, deletions.bytes) == (3, 13)
    assert [one.key async for one in store.list("")] == []


async def test_a_dry_run_counts_and_deletes_nothing() -> None:
    """The numbers are those of the same call without ``dry_run``; no request is made."""
    store = await filled()
    deletions = Deletions(store, ROOT, ProgressReporter(None), dry_run=True)
    assert await deletions.delete([("a", 5), ("b", 7)]) == 2
    assert (deletions.objects, deletions.bytes, store.calls) == (2, 12, [])


async def test_progress_is_the_number_of_objects() -> None:
    """Whoever asked is told after each batch, in a dry run too; an empty batch is not told."""
    for dry_run in (False, True):
        told: list[Progress] = []
        deletions = Deletions(await filled(), ROOT, ProgressReporter(told.append), dry_run=dry_run)
        for batch in ([("a", 1), ("b", 1)], [], [("c", 1)]):
            await deletions.delete(batch)
        assert told == [Progress(step="delete", done=2), Progress(step="delete", done=3)]


async def test_nothing_to_delete_costs_nothing() -> None:
    """An empty batch makes no request."""
    store = await filled()
    assert await Deletions(store, ROOT, ProgressReporter(None), dry_run=False).delete([]) == 0
    assert store.calls == []
