"""Results of commits, and which of the files that were uploaded for one stay in the store."""

from __future__ import annotations

import asyncio

import pytest

from lakehouse.errors import CommitUnknownError, ConflictError, UnavailableError
from lakehouse.format.metadata.snapshot import Ref
from lakehouse.storage.commit.changes import ChangeRefs
from lakehouse.storage.commit.committer import Committed
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.tables.commit_result import CommitResult, commit_change, keep_committed, result_of
from lakehouse.storage.tables.open_tables import OpenTable
from tests.kit.committers import entry
from tests.kit.streaming import made
from tests.kit.table_logs import HEAD
from tests.kit.worlds import table_of

PATHS = ["data/a", "data/b", "data/c"]
WRITTEN = UploadedFiles(entries=(entry("data/a"), entry("data/b")), rows=5)


async def uploaded() -> OpenTable:
    """A table for which three files were uploaded."""
    core = (await table_of(await made())).core
    for path in PATHS:
        await core.env.store.put(f"{core.root}/{path}", b"rows")
    return core


async def left(table: OpenTable) -> list[str]:
    """Paths of the files that are there."""
    found = [one.key async for one in table.env.store.list(f"{table.root}/data/")]
    return sorted(key.removeprefix(f"{table.root}/") for key in found)


async def ends(outcome: Committed | BaseException) -> Committed:
    """A commit with this outcome."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


async def test_files_that_a_commit_added_stay_and_others_go() -> None:
    """Files of drafts that lost against other commits are deleted once another draft is committed."""
    table = await uploaded()
    done = Committed(snapshot=HEAD, changed=True, entries=(entry("data/b"),))
    assert await keep_committed(table, lambda: PATHS, ends(done)) is done
    assert await left(table) == ["data/b"]


async def test_files_of_a_commit_that_had_nothing_to_do_go() -> None:
    """When the sequence was committed before, nothing refers to what was uploaded again."""
    table = await uploaded()
    await keep_committed(table, lambda: PATHS, ends(Committed(snapshot=HEAD, changed=False)))
    assert await left(table) == []


async def test_files_uploaded_while_the_commit_was_made_are_known() -> None:
    """What was uploaded is asked when the commit has ended, not when it begins."""
    table, so_far = await uploaded(), list[str]()

    async def commit() -> Committed:
        so_far.extend(PATHS)
        raise ConflictError("somebody else was first")

    with pytest.raises(ConflictError):
        await keep_committed(table, lambda: so_far, commit())
    assert await left(table) == []


@pytest.mark.parametrize("error", [ConflictError("lost"), UnavailableError("away")], ids=repr)
async def test_files_of_a_commit_that_failed_go(error: Exception) -> None:
    """A commit that is known not to have been made leaves no file, and its error is raised."""
    table = await uploaded()
    with pytest.raises(type(error)):
        await keep_committed(table, lambda: PATHS, ends(error))
    assert await left(table) == []


@pytest.mark.parametrize(
    "error", [CommitUnknownError("who knows"), asyncio.CancelledError(), ZeroDivisionError()], ids=repr
)
async def test_files_of_a_commit_whose_outcome_is_open_stay(error: BaseException) -> None:
    """A snapshot may refer to them: they are left to the sweep of orphans."""
    table = await uploaded()
    with pytest.raises(type(error)):
        await keep_committed(table, lambda: PATHS, ends(error))
    assert await left(table) == PATHS


def test_a_result_counts_what_the_commit_added() -> None:
    """Rows handed in, files and their bytes are told with the snapshot and the attempts."""
    result = result_of(Committed(snapshot=HEAD, changed=True, attempts=3), WRITTEN)
    assert result == CommitResult(snapshot=HEAD.id, rows=5, files=2, bytes=20, attempts=3)


def test_a_result_without_a_change_counts_nothing() -> None:
    """When nothing had to change, what was uploaded for it does not count."""
    result = result_of(Committed(snapshot=HEAD, changed=False), WRITTEN)
    assert result == CommitResult(snapshot=HEAD.id, changed=False)


def test_a_result_is_a_sentence() -> None:
    """Printed, a result says what was added, or that there was nothing to do."""
    result = CommitResult(snapshot=7, rows=12_345, files=2, bytes=20, attempts=3)
    assert str(result).startswith("snapshot 7: 12,345 rows, 2 files, 20 bytes, 3 attempts; ")
    assert str(CommitResult(snapshot=7, changed=False)).startswith("snapshot 7: nothing to do; ")


async def test_a_change_without_rows_is_one_commit() -> None:
    """A change of tags or schema makes the next snapshot, and adds no row and no file."""
    core = (await table_of(await made())).core
    change = ChangeRefs(make={"v1": Ref(snapshot=1)})
    assert await commit_change(core, change) == CommitResult(snapshot=2)
    assert (await core.newest()).snapshot.refs.keys() == {"v1"}
