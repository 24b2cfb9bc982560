"""Changes that read no rows: what each drafts for a head, and when it refuses."""

from __future__ import annotations

import dataclasses

import pytest

from lakehouse.errors import ConflictError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.format.metadata import CommitKind, FileFormat, Ref, SchemaRef
from lakehouse.storage.commit.changes import (
    UNFLUSHED,
    AddFiles,
    ChangeRefs,
    DropTable,
    ReplacePartitions,
    Rollback,
    Undrop,
    check_flushed,
)
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.testing import memory_store
from tests.kit.committers import TestTable, create_table, entry


async def opened() -> TestTable:
    """An empty table."""
    store = memory_store()
    await create_table(store)
    return TestTable(store)


def uploaded(*paths: str, partition: bytes = b"a") -> UploadedFiles:
    """Files of a partition."""
    return UploadedFiles(
        entries=tuple(dataclasses.replace(entry(path), partition=(partition,)) for path in paths)
    )


class Expire:
    """Expires the snapshots before one."""

    blind = True

    def __init__(self, earliest: int) -> None:
        self.earliest = earliest

    async def draft(self, base: Base) -> Draft:
        """Returns the new limit."""
        return Draft(kind=CommitKind.EXPIRE, earliest=self.earliest)


async def same_schema(base: Base) -> SchemaRef | None:
    """The schema of the head is the target's."""
    return None


async def test_a_clear_needs_something_to_clear() -> None:
    """An overwrite by nothing empties a table that has files, and commits nothing on an empty one."""
    table = await opened()
    clear = AddFiles(kind=CommitKind.OVERWRITE, written=UploadedFiles(), clears=True)
    assert not (await table.committer.commit(clear)).changed
    await table.add("a", "b")
    assert (await table.committer.commit(clear)).changed
    assert await table.paths() == []


async def test_partitions_are_replaced_as_the_head_has_them() -> None:
    """All files that a partition has are replaced, also those of a process that committed meanwhile."""
    table = await opened()
    for path, partition in (("a1", b"a"), ("b1", b"b"), ("a2", b"a")):
        other = TestTable(table.store)
        await other.committer.commit(
            AddFiles(kind=CommitKind.APPEND, written=uploaded(path, partition=partition))
        )
    change = ReplacePartitions(
        kind=CommitKind.OVERWRITE, holds=lambda partition: partition == (b"a",), written=uploaded("a3")
    )
    done = await table.committer.commit(change)
    assert done.snapshot.gone == ("a1", "a2")
    assert await table.paths() == ["b1", "a3"]


async def test_partitions_without_files_are_replaced_by_nothing() -> None:
    """Where nothing is to be removed or added, nothing is committed."""
    table = await opened()
    change = ReplacePartitions(
        kind=CommitKind.OVERWRITE, holds=lambda partition: True, written=UploadedFiles()
    )
    assert not (await table.committer.commit(change)).changed


async def test_new_files_lie_in_the_replaced_partitions() -> None:
    """A file outside of them is refused, since it would be there twice when the call is repeated."""
    table = await opened()
    change = ReplacePartitions(
        kind=CommitKind.OVERWRITE,
        holds=lambda partition: partition == (b"a",),
        written=uploaded("data/part=b/x", partition=b"b"),
    )
    with pytest.raises(InvalidInputError, match="'data/part=b' is outside"):
        await table.committer.commit(change)


def test_rows_of_segments_are_not_removed() -> None:
    """Rows that are in no file yet cannot be taken away: the error names their segment."""
    check_flushed([entry("a")])
    row = dataclasses.replace(entry("wal/wal-7.log#part"), format=FileFormat.WAL)
    with pytest.raises(ConflictError, match=r"segment wal/wal-7\.log and in no file yet") as caught:
        check_flushed([entry("a"), row])
    assert caught.value.kind == UNFLUSHED


async def test_tags_are_made_once_and_dropped() -> None:
    """A tag names one snapshot; making it for another is an error, and so is dropping what is not there."""
    table = await opened()
    await table.add("a")
    commit = table.committer.commit
    await commit(ChangeRefs(make={"v1": Ref(snapshot=1)}))
    assert not (await commit(ChangeRefs(make={"v1": Ref(snapshot=1)}))).changed
    with pytest.raises(LakehouseError, match="already"):
        await commit(ChangeRefs(make={"v1": Ref(snapshot=2)}))
    with pytest.raises(NotFoundError, match="there are 1 to 3"):
        await commit(ChangeRefs(make={"v2": Ref(snapshot=9)}))
    await commit(ChangeRefs(drop=["v1"]))
    with pytest.raises(NotFoundError, match="no tag 'v1'"):
        await commit(ChangeRefs(drop=["v1"]))


async def test_a_tag_may_be_moved_when_asked() -> None:
    """With ``replace`` a tag that exists names another snapshot."""
    table = await opened()
    await table.add("a")
    await table.committer.commit(ChangeRefs(make={"v1": Ref(snapshot=1)}))
    done = await table.committer.commit(ChangeRefs(make={"v1": Ref(snapshot=2)}, replace=True))
    assert done.snapshot.refs == {"v1": Ref(snapshot=2)}


async def test_a_rollback_keeps_tags_and_takes_files_back() -> None:
    """The files are the target's again, and the tags made since stay."""
    table = await opened()
    target = await table.add("a")
    await table.add("b")
    await table.committer.commit(ChangeRefs(make={"v1": Ref(snapshot=3)}))
    done = await table.committer.commit(Rollback(target=target, schema=same_schema))
    assert (done.snapshot.id, done.snapshot.refs) == (5, {"v1": Ref(snapshot=3)})
    assert await table.paths() == ["a"]


@pytest.mark.parametrize("is_tagged", [False, True])
async def test_an_expired_target_is_refused_unless_a_tag_keeps_it(is_tagged: bool) -> None:
    """Files of an expired snapshot may have been deleted since the call began."""
    table = await opened()
    target = await table.add("a")
    await table.add("b")
    if is_tagged:
        await table.committer.commit(ChangeRefs(make={"v1": Ref(snapshot=target.id)}))
    await table.committer.commit(Expire(3))
    rollback = Rollback(target=target, schema=same_schema)
    if is_tagged:
        await table.committer.commit(rollback)
        assert await table.paths() == ["a"]
    else:
        with pytest.raises(NotFoundError, match="expired meanwhile; the earliest is 3"):
            await table.committer.commit(rollback)


async def test_a_drop_is_undone_once() -> None:
    """Right after the drop the files are back; after any other head there is nothing to do."""
    table = await opened()
    await table.add("a")
    drop = (await table.committer.commit(DropTable())).snapshot
    first = await table.committer.commit(Undrop(drop=drop), undrops=True)
    assert (first.changed, first.snapshot.kind) == (True, CommitKind.UNDROP)
    assert await table.paths() == ["a"]
    again = await table.committer.commit(Undrop(drop=drop), undrops=True)
    assert (again.changed, again.snapshot.id) == (False, first.snapshot.id)
