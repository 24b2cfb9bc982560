"""What a write-ahead log holds: its tail, its gaps, and segments that are not what they should be."""

from __future__ import annotations

import pytest

from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.table_logs import HEAD, covering, log_of, put, taken_over, values_in


async def test_the_tail_is_what_the_head_does_not_cover() -> None:
    """A tail has the segments above the head's, with their sizes, and costs one listing."""
    store = RecordingStore(memory_store())
    appender = await taken_over(store)
    for value in range(3):
        await put(appender, value)
    wal = log_of(store)
    whole = await wal.tail(HEAD)
    assert (whole.after, whole.upto) == (0, 4)
    sizes = [(await store.get(wal.log.key(number))).size for number in range(1, 5)]
    assert list(whole.sizes) == sizes
    store.clear()
    tail = await wal.tail(covering(3))
    assert store.kinds() == {"list": 1}
    assert (tail.after, tail.upto, list(tail.sizes)) == (3, 4, sizes[3:])
    assert (await wal.tail(covering(4))).upto == 4
    assert await values_in(store) == [0, 1, 2]


async def test_foreign_objects_are_passed_over() -> None:
    """Objects with other names in the log's directory are no segments."""
    store = memory_store()
    await put(await taken_over(store), 7)
    key = log_of(store).log.key(3)
    for foreign in (key.replace(".log", ".tmp"), key.replace("wal-0", "wal-x"), key + ".bak"):
        await store.put(foreign, b"")
    assert await values_in(store) == [7]


async def test_a_gap_is_damage() -> None:
    """A number that is missing below one that is there is an error that names it."""
    store = memory_store()
    appender = await taken_over(store)
    for value in range(3):
        await put(appender, value)
    wal = log_of(store)
    await store.delete(wal.log.key(3))
    with pytest.raises(CorruptionError, match=r"0000003\.log is missing, and .*0000004\.log is there"):
        await wal.tail(HEAD)
    assert (await wal.tail(covering(3))).upto == 4
    await store.delete(wal.log.key(4))
    assert (await wal.tail(HEAD)).upto == 2


async def test_a_missing_segment_names_its_snapshot() -> None:
    """A segment that is gone is an error that names it and the snapshot that refers to it."""
    wal = log_of(memory_store())
    with pytest.raises(CorruptionError, match=r"0000009\.log is missing; snapshot 4 refers to it"):
        await wal.read(9, snapshot=4)
    with pytest.raises(CorruptionError) as caught:
        await wal.read(9)
    assert isinstance(caught.value.__cause__, NotFoundError)


async def test_a_swapped_segment_is_noticed() -> None:
    """A segment that stands in another's place is an error that names the object."""
    store = memory_store()
    appender = await taken_over(store)
    await put(appender, 1)
    await put(appender, 2)
    wal = log_of(store)
    await store.put(wal.log.key(2), (await store.get(wal.log.key(3))).data)
    with pytest.raises(CorruptionError, match=r"0000002\.log holds segment 3"):
        await wal.read(2)
