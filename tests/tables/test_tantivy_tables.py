"""Tables whose texts are indexed by tantivy."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.storage.indexes import search as index_prune
from lakehouse.testing import memory_store
from tests.kit.indexed_tables import lake_on, rows, table_with, value

TANTIVY = {"message": {"fulltext": {"backend": "tantivy"}}}
CHINESE = {"message": {"fulltext": {"backend": "tantivy", "analyzer": "Chinese"}}}
FILES, COUNT = 3, 40


def where(number: int) -> str:
    """The condition that one row fulfils."""
    return f"matches(message, 'SERVED {value(number)}')"


async def ids_and_pruned(table: Any, condition: str) -> tuple[list[int], int]:
    """Which rows a scan finds, and how many files an index left out."""
    scan = table.scan(condition)
    found = [row["id"] for row in await scan.to_pylist()]
    assert scan.report.indexes_failed == 0
    return found, scan.report.files_pruned.get("index", 0)


@pytest.fixture(autouse=True)
def package() -> None:
    """The optional packages."""
    pytest.importorskip("tantivy")


@pytest.mark.parametrize("indexes", [TANTIVY, CHINESE], ids=["English", "Chinese"])
@pytest.mark.parametrize("compress", [True, False], ids=["compressed", "plain"])
async def test_words_are_found_where_they_are(indexes: Any, compress: bool) -> None:
    """A scan by words reads the one file that has them, and of it no row too few."""
    if indexes is CHINESE:
        pytest.importorskip("rjieba")
    options = {**indexes["message"]["fulltext"], "compress": compress}
    table = await table_with({"message": {"fulltext": options}}, files=FILES, count=COUNT)
    for number in (0, COUNT, FILES * COUNT - 1):
        assert await ids_and_pruned(table, where(number)) == ([number], FILES - 1)
    assert await ids_and_pruned(table, "matches(message, 'nowhere')") == ([], FILES)
    assert len((await ids_and_pruned(table, "matches(message, 'request served')"))[0]) == FILES * COUNT


async def test_a_tantivy_index_names_rows() -> None:
    """Of a file that is read, all rows but those with the words are excluded."""
    table = await table_with(TANTIVY, files=1, count=COUNT)
    scan = table.scan(where(7))
    assert await scan.count() == 1
    assert scan.report.rows_pruned_by_index == COUNT - 1


async def test_compaction_builds_it_anew() -> None:
    """The file that a compaction makes has a tantivy index of its own rows, newest versions alone."""
    table = await table_with(TANTIVY, files=FILES, count=COUNT)
    await table.upsert([{**rows(1)[0], "message": "something else"}])
    await table.delete(keys=[{"id": 1}])
    await table.compact(full=True)
    (file,) = (await table.files()).to_pylist()
    assert file["indexes"] == [1]
    assert (await ids_and_pruned(table, where(0))) == ([], 1)
    assert (await ids_and_pruned(table, where(1))) == ([], 1)
    assert (await ids_and_pruned(table, where(2)))[0] == [2]
    assert (await ids_and_pruned(table, "matches(message, 'else')"))[0] == [0]


async def test_a_rebuild_gives_it_to_files_that_are_there() -> None:
    """Files of a time before the index have it after a rebuild."""
    table = await table_with({}, files=FILES, count=COUNT)
    await table.add_index("message", "fulltext", backend="tantivy")
    assert await ids_and_pruned(table, where(3)) == ([3], 0)
    done = await table.rebuild_indexes()
    assert (done.files, done.rows) == (FILES, FILES * COUNT)
    assert await ids_and_pruned(table, where(3)) == ([3], FILES - 1)


async def test_another_backend_is_another_index() -> None:
    """After a change of the backend what files have of the former is not asked; a rebuild has the new one."""
    table = await table_with(TANTIVY, files=2, count=COUNT)
    await table.alter_index("message", backend="bloom")
    assert await ids_and_pruned(table, where(5)) == ([5], 0)
    await table.rebuild_indexes()
    assert await ids_and_pruned(table, where(5)) == ([5], 1)


async def test_names_with_underscores_are_found() -> None:
    """Words that tantivy spells in other ways than matches() lose no row."""
    table = await table_with(TANTIVY, files=0)
    texts = ["disk_full", "disk full", "Disk-Full", "full", "été_disk", "ΣΑΣ disk"]
    await table.append([{**row, "message": text} for row, text in zip(rows(len(texts)), texts, strict=True)])
    plain = await table_with({}, files=0)
    await plain.append([{**row, "message": text} for row, text in zip(rows(len(texts)), texts, strict=True)])
    for words in ("disk_full", "disk", "full disk", "été_disk", "σας", "Disk_full full"):
        condition = f"matches(message, '{words}')"
        assert (await ids_and_pruned(table, condition))[0] == (await ids_and_pruned(plain, condition))[0], (
            words
        )


async def test_writing_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is missing a write is refused, and the message names the extra."""
    table = await table_with(TANTIVY, files=1, count=COUNT)
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'aiolakehouse\[fulltext\]'") as caught:
        await table.append(rows(COUNT, first=COUNT))
    assert caught.value.kind == "missing-extra"
    assert await table.scan().count() == COUNT


async def test_chinese_words_need_their_package_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that cuts Chinese words is not left out silently where the package for it is missing."""
    pytest.importorskip("rjieba")
    table = await table_with({"message": {"fulltext": {"analyzer": "Chinese"}}}, files=0)
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(InvalidInputError, match=r"lakehouse\[fulltext\]"):
        await table.append([{**rows(1)[0], "message": "磁盘满了"}])


async def test_reading_without_the_package_reads_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is missing scans do without the index, and find the same rows."""
    store = memory_store()
    await table_with(TANTIVY, store=store, files=2, count=COUNT)
    monkeypatch.setattr(index_prune, "is_installed", lambda: False)
    table = await lake_on(store).table("db.t")
    assert await ids_and_pruned(table, where(3)) == ([3], 0)
