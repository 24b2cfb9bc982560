"""Who may see what in an enumeration: tables withheld unread, places replaced by pseudonyms."""

from __future__ import annotations

import logging
import traceback

import pytest

from lakehouse.errors import CorruptionError, LakehouseError
from lakehouse.index import (
    COMPACT,
    GREPTIME,
    FileListSource,
    GreptimeListing,
    GreptimeManifests,
    PrefixSource,
    iterate_index_metas,
)
from lakehouse.testing import RecordingStore, memory_store
from lakehouse.testing.index_files import all_kinds
from tests.kit.index_scans import KINDS, entries, filled, with_broken_blob
from tests.kit.region_manifests import REGION, change, delta, edit, file, file_id

SEEN, HIDDEN = "data/greptime/public/1024/", "data/greptime/secret/2048/"


async def test_tables_can_be_withheld() -> None:
    """The authoriser is asked once per table, before anything of it is read."""
    store = RecordingStore(memory_store())
    for table in ("a", "b"):
        for number in range(3):
            await store.put(f"{table}/{number}.puffin", all_kinds())
    store.clear()
    asked: list[str] = []

    async def authorise(table_dir: str) -> bool:
        asked.append(table_dir)
        return table_dir == "a/"

    scan = iterate_index_metas(PrefixSource(store), authorise=authorise)
    assert {entry.locator.table_dir for entry in await entries(scan)} == {"a/"}
    assert asked == ["a/", "b/"]
    assert scan.stats.hidden_files == 3
    assert store.kinds() == {"list": 1, "get": 3}


async def database() -> RecordingStore:
    """Two tables of one region each, with a manifest, an index file and one of a strange name."""
    store = RecordingStore(memory_store())
    data = all_kinds()
    for table, table_id in ((SEEN, 1024), (HIDDEN, 2048)):
        region = f"{table}{table_id}_0000000001/"
        files = edit(add=[file(1, size=len(data), region=table_id << 32 | 1)])
        for objects in (delta(0, change(REGION)), delta(1, files)):
            for name, content in objects.items():
                await store.put(region + name, content)
        await store.put(f"{region}index/{file_id(1)}.puffin", data)
        await store.put(f"{region}index/strange.puffin", data)
    store.clear()
    return store


@pytest.mark.parametrize("source", [GreptimeListing, GreptimeManifests])
async def test_nothing_of_a_withheld_table_is_read_or_told(
    source: type[GreptimeListing | GreptimeManifests],
) -> None:
    """Of a table that is refused no manifest and no file is read, and no problem names it."""
    store = await database()
    found = source(store)
    scan = iterate_index_metas(found, authorise=lambda table_dir: table_dir == SEEN)
    assert {entry.locator.table_dir for entry in await entries(scan)} == {SEEN}
    assert [call.key for call in store.calls if call.verb != "list_page" and HIDDEN in call.key] == []
    assert HIDDEN not in repr(scan.problems)
    assert scan.stats.hidden_files >= 1
    if isinstance(found, GreptimeManifests):
        assert [key for key in found.unreferenced if HIDDEN in key] == []


async def test_locations_can_be_masked(caplog: pytest.LogCaptureFixture) -> None:
    """Masked, no entry, problem or log line holds a path, and equal places stay equal."""
    store, files = await filled(3)
    await store.put("idx/001.puffin", b"garbage" * 100)
    await store.put("idx/002.puffin", with_broken_blob("greptime-bloom-filter-v1-1"))
    files.append(("idx/gone.puffin", 100))
    with caplog.at_level(logging.DEBUG, logger="lakehouse"):
        scan = iterate_index_metas(FileListSource(store, files), mask_locations=True)
        found = await entries(scan)
    shown = repr(found) + repr(scan.problems) + caplog.text
    assert "idx" not in shown
    assert len({entry.locator.table_dir for entry in found}) == 1
    assert len({entry.locator.index_file_path for entry in found}) == 2
    broken = next(problem for problem in scan.problems if problem.blob is not None)
    assert broken.path in {entry.locator.index_file_path for entry in found}
    assert "metadata" in broken.message
    assert next(entry.error for entry in found if entry.error is not None) == broken.message


@pytest.mark.parametrize("shape", [COMPACT, GREPTIME], ids=["compact", "greptime"])
async def test_masked_rows_hold_no_path(shape: object) -> None:
    """In rows the directory and the path are pseudonyms, and all else is as it is."""
    store, files = await filled(1)
    table = await iterate_index_metas(FileListSource(store, files), mask_locations=True).to_arrow(shape)  # type: ignore[arg-type]
    assert table.num_rows == len(KINDS)
    assert "idx" not in str(table.to_pylist())
    assert set(table["file_id"].to_pylist()) == {"000"}


@pytest.mark.parametrize(
    "content",
    [b"garbage" * 100, with_broken_blob("greptime-bloom-filter-v1-1"), None],
    ids=["file", "blob", "missing"],
)
async def test_a_masked_error_holds_no_path(content: bytes | None) -> None:
    """With ``errors="raise"`` neither the masked error nor what it comes from names a place."""
    store = memory_store()
    if content is not None:
        await store.put("secret/x.puffin", content)
    source = FileListSource(store, [("secret/x.puffin", 700)])
    with pytest.raises(LakehouseError) as raised:
        await entries(iterate_index_metas(source, errors="raise", mask_locations=True))
    assert isinstance(raised.value, CorruptionError) == (content is not None)
    assert raised.value.__context__ is None
    told = "".join(traceback.format_exception_only(raised.value)) + repr(raised.value)
    assert "secret" not in told
    assert "masked:" in told


async def test_a_masked_name_that_is_none_holds_no_path() -> None:
    """A message that repeats a path is replaced by what kind of problem it is."""
    store = memory_store()
    await store.put(f"{SEEN}1024_0000000001/index/strange.puffin", b"")
    scan = iterate_index_metas(GreptimeListing(store), mask_locations=True)
    assert await entries(scan) == []
    (problem,) = scan.problems
    assert "strange" not in repr(problem)
    assert "public" not in repr(problem)
    assert problem.message == f"{problem.path}: stored bytes are not in the expected format"
