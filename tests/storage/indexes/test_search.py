"""Pruning by indexes: which files and rows a condition leaves, and what an index cannot tell."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.cache import CacheBudget
from lakehouse.config import IndexSettings
from lakehouse.expr import parse_where
from lakehouse.format.metadata import FileEntry, IndexRef
from lakehouse.format.schema import schema_from_arrow
from lakehouse.index.search import RowSelection
from lakehouse.storage.indexes.search import IndexAnswers, IndexQuestion, search_indexes
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.committers import entry
from tests.kit.indexed_tables import NAME, SCHEMA, lake_on, rows, table_with, value
from tests.kit.stored_runs import ROOT, StoredRuns

ASKED = {
    "host": ("bloom", "host = 'Host-{n}'"),
    "n": ("inverted", "n = {n}"),
    "lower(host)": ("inverted", "lower(host) = 'host-{n}'"),
    "upper(host)": ("bloom", "upper(host) in ('HOST-{n}', 'nowhere')"),
    "payload#/user/id": ("bloom", "payload ->> '/user/id' = '{n}'"),
    "host, n": ("bloom", "host = 'Host-{n}' and n = {n}"),
    "message": ("fulltext", "matches(message, 'REQUEST {n}')"),
    "place.city": ("bloom", "place.city = 'city-{n}'"),
    "place.zip": ("inverted", "place.zip between {n} and {n}"),
    "n + 1": ("inverted", "n + 1 = {next}"),
}


async def stored(indexes: Any, files: int = 2) -> StoredRuns:
    """Files of a hundred rows each, with indexes."""
    schema = schema_from_arrow(SCHEMA, primary_key="id", indexes=indexes)
    runs = StoredRuns(schema, index_min_rows=1)
    for number in range(files):
        await runs.add(pa.Table.from_pylist(rows(100, first=100 * number), SCHEMA))
    return runs


async def asked(runs: StoredRuns, where: str) -> IndexAnswers:
    """The answers of the indexes of all files."""
    question = IndexQuestion(parse_where(where), runs.schema)
    caches, settings = RunCaches(CacheBudget()), IndexSettings()
    return await search_indexes(runs.store, ROOT, question, runs.entries, caches=caches, settings=settings)


def indexed(*ids: int) -> FileEntry:
    """A file with the indexes of these definitions."""
    return dataclasses.replace(entry("f"), index=IndexRef(path="i", size=1, ids=ids))


def test_a_file_without_an_answer_is_not_excluded() -> None:
    """A file is excluded when its index was searched and left no row."""
    answers = IndexAnswers(rows={"none": RowSelection.none(5), "some": RowSelection.of_rows([3], 5)})
    assert [answers.excludes(entry(path)) for path in ("none", "some", "unknown")] == [True, False, False]


async def test_answers_are_rows_of_each_file() -> None:
    """The file that has the value may have it in some rows, the other one has it in none."""
    runs = await stored({"host": "bloom"})
    answers = await asked(runs, f"host = 'Host-{value(150)}'")
    first, second = runs.entries
    assert answers.excludes(first)
    assert answers.rows[second.path].row_count > 0
    assert answers.failed == ()


@pytest.mark.parametrize(
    "where", ["host > 'Host-5'", "n = 5", "id = 3 or n = 5", "not host = 'Host-5'", "host is null or n = 1"]
)
async def test_a_question_that_no_index_answers_costs_nothing(where: str) -> None:
    """Files are not searched for what their indexes cannot exclude."""
    runs = await stored({"host": "bloom"}, files=1)
    assert await asked(runs, where) == IndexAnswers()
    assert runs.store.calls == []


async def test_the_answerable_part_of_a_condition_is_asked() -> None:
    """Of a conjunction the part that an index knows excludes rows, whatever the other part says."""
    runs = await stored({"host": "bloom"})
    answers = await asked(runs, f"host = 'Host-{value(150)}' and n > 0")
    assert [answers.excludes(one) for one in runs.entries] == [True, False]


def test_only_live_definitions_are_usable() -> None:
    """A file may have indexes that were dropped since, and lack those that were added."""
    schema = schema_from_arrow(SCHEMA, primary_key="id", indexes={"host": "bloom", "n": "bloom"})
    live = dataclasses.replace(schema, indexes=schema.indexes[1:])
    question = IndexQuestion(parse_where("host = 'a' and n = 1"), live)
    assert [one.id for one in question.usable(indexed(1, 2))] == [2]
    assert question.usable(entry("f")) == []


def test_a_file_is_asked_by_the_indexes_it_has() -> None:
    """Without the index that a condition needs there is no question; with it there is."""
    schema = schema_from_arrow(SCHEMA, primary_key="id", indexes={"host": "bloom", "n": "bloom"})
    question = IndexQuestion(parse_where("host = 'a'"), schema)
    assert question.of(entry("f")) is None
    assert question.of(indexed(2)) is None
    assert question.of(indexed(1, 2)) is not None


async def test_a_missing_index_file_selects_every_row() -> None:
    """It is named among the failed ones, and its data file is read in full; the others are pruned."""
    runs = await stored({"host": "bloom"})
    first, second = runs.entries
    assert first.index is not None
    await runs.store.delete(f"{ROOT}/{first.index.path}")
    answers = await asked(runs, "host = 'nowhere'")
    assert answers.failed == (first.index.path,)
    assert answers.rows[first.path].row_count == first.rows
    assert answers.excludes(second)


@pytest.mark.parametrize("target", ASKED)
async def test_an_index_spares_files(target: str) -> None:
    """A condition on what is indexed, and in no order, reads the file that has the row."""
    kind, where = ASKED[target]
    table = await table_with({target: kind})
    scan = table.scan(where.format(n=value(1234), next=value(1234) + 1))
    assert [one["id"] for one in await scan.to_pylist()] == [1234]
    assert scan.report.files_pruned == {"index": 3}
    assert scan.report.indexes_failed == 0


async def test_ranges_and_prefixes_are_found_in_inverted_indexes() -> None:
    """An inverted index answers ranges and prefixes."""
    table = await table_with({"host": "inverted"})
    hosts = [one["host"] for one in rows(2000)]
    begin = f"Host-{value(1234)}"
    for where, count in (
        (f"host like '{begin}%'", sum(one.startswith(begin) for one in hosts)),
        (f"host between '{begin}' and '{begin}0'", sum(begin <= one <= begin + "0" for one in hosts)),
    ):
        scan = table.scan(where)
        assert await scan.count() == count
        assert scan.report.files_pruned["index"] >= 1


async def test_statistics_come_first() -> None:
    """Conditions that statistics settle, or of which no index can tell, cost no request for indexes."""
    store = RecordingStore(memory_store())
    await table_with({"host": "bloom", "id": "bloom"}, store=store)
    table = await lake_on(store).table(NAME)
    for where in (
        "id = 700",
        "n > 100000",
        "host > 'Host-5'",
        "host <> 'Host-5'",
        "not host = 'Host-5'",
        "id > 3",
    ):
        store.clear()
        scan = table.scan(where)
        await scan.count()
        asked = [call for call in store.calls if "/index/" in call.key]
        assert len(asked) <= (1 if where == "id = 700" else 0), where
