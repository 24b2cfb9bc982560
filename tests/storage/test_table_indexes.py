"""Indexes of tables: how they are defined, changed, built with data files, and what they save."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import ConflictError, InvalidInputError
from lakehouse.format.schema.index_definition import by_id, target_text
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import Fault, FaultKind, FaultyStore, PowerCut, RecordingStore, memory_store
from tests.kit.indexed_tables import NAME, SCHEMA, SMALL, lake_on, rows, table_with, value

# --- definitions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indexes", "said"),
    [
        ({"hots": "bloom"}, "'hots', which is no column; did you mean 'host'"),
        ({"tags": "bloom"}, "array<string>"),
        ({"place": "inverted"}, "'column.field'"),
        ({"host": "blom"}, "did you mean 'bloom'"),
        ({"host": {"bloom": {"granularty": 3}}}, "did you mean 'granularity'"),
        ({"host": {"bloom": {"granularity": 0}}}, "a number of rows from 1, not 0"),
        ({"host": {"bloom": {"false_positive_rate": 1}}}, "above 0 and below 1"),
        ({"host": {"inverted": {"granularity": 3}}}, "no option 'granularity'"),
        ({"host": {"fulltext": {"analyzer": "French"}}}, "English or Chinese"),
        ({"host": {"fulltext": {"backend": "tantivy", "granularity": 5}}}, "fulltext index of tantivy"),
        ({"host": {"fulltext": {"case_sensitive": "no"}}}, "true or false"),
        ({"n": "fulltext"}, "no text"),
        ({"n, host": "fulltext"}, "no text"),
        ({"host": ["bloom", "bloom"]}, "two bloom indexes"),
        ({"host": "bloom", ("host",): "bloom"}, "two bloom indexes"),
        ({"host, n": "bloom", "n, host": "bloom"}, "two bloom indexes"),
        ({"n#/a": "bloom"}, "is int and no text"),
        ({"payload#a": "bloom"}, "no JSON pointer"),
        ({"host = 'a'": "bloom"}, "a condition"),
        ({"matches(host, 'a')": "bloom"}, "a condition"),
        ({"lower(hots)": "bloom"}, "did you mean 'host'"),
        ({"lower(n)": "bloom"}, "cannot be indexed"),
        ({"host +": "bloom"}, "no expression"),
        ({("n", "n"): "bloom"}, "twice"),
        ({"host": {"bloom": {}, "inverted": {}}}, "one kind"),
        ({"n": {"inverted": {"segment_row_count": 5}}, "host": "inverted"}, "share one segment_row_count"),
        (["host"], "{target: kind}"),
    ],
)
async def test_bad_definitions_are_refused(indexes: Any, said: str) -> None:
    """A definition that cannot be built is refused when the table is made, and the message says why."""
    lake = lake_on(memory_store())
    await lake.create_database("db")
    with pytest.raises(InvalidInputError) as caught:
        await lake.create_table(NAME, SCHEMA, primary_key="id", indexes=indexes)
    assert said in str(caught.value)
    assert not await lake.table_exists(NAME)


async def test_definitions_are_part_of_the_schema() -> None:
    """What is indexed, and how, is in the schema that any process reads."""
    store = memory_store()
    await table_with(
        {
            "host": ["inverted", {"bloom": {"granularity": 100}}],
            "message": {"fulltext": {"analyzer": "english", "backend": "bloom"}},
            "payload#/user/id": "bloom",
            "lower(host)": "inverted",
            "n,host": "bloom",
            "place.city": "inverted",
        },
        store=store,
        files=0,
    )
    schema = await (await lake_on(store).table(NAME)).schema()
    names = by_id(schema.fields)
    assert [(one.id, one.kind, target_text(one.target, names)) for one in schema.indexes] == [
        (1, "inverted", "host"),
        (2, "bloom", "host"),
        (3, "fulltext", "message"),
        (4, "bloom", "payload#/user/id"),
        (5, "inverted", "lower(host)"),
        (6, "bloom", "host, n"),
        (7, "inverted", "place.city"),
    ]
    assert schema.indexes[0].options == {"segment_row_count": 1024}
    assert schema.indexes[1].options == {"granularity": 100, "false_positive_rate": 0.01}
    assert schema.indexes[3].options == {"granularity": 10240, "false_positive_rate": 0.01}
    assert schema.indexes[2].options == {
        "analyzer": "English",
        "case_sensitive": False,
        "backend": "bloom",
        "granularity": 10240,
        "false_positive_rate": 0.01,
    }


# --- files ----------------------------------------------------------------------------


async def test_an_index_costs_its_own_put_and_no_read() -> None:
    """A write with indexes makes one request more for each file, and reads nothing."""
    store = RecordingStore(memory_store())
    table = await table_with({"host": "bloom", "message": "fulltext"}, store=store, files=1)
    store.clear()
    await table.append(rows(500, first=1000))
    keys = [call.key.split("/", 2)[2] for call in store.calls if call.verb == "put"]
    assert sorted(key.split("/")[0] for key in keys) == ["data", "index"]
    data, index = sorted(keys)
    assert data.split("/")[-1].removesuffix(".parquet") == index.split("/")[-1].removesuffix(".puffin")
    assert "get" not in store.kinds()


async def test_a_failed_write_leaves_no_index_file() -> None:
    """When a commit is refused, the index files it uploaded are deleted with the data files."""
    store = memory_store()
    table = await table_with({"host": "bloom"}, store=store, files=1)
    before = {one.key async for one in store.list("")}

    async def failing() -> Any:
        yield pa.Table.from_pylist(rows(500), SCHEMA)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        await table.append(failing())
    assert {one.key async for one in store.list("")} == before


async def test_deletes_by_condition_keep_their_index_files() -> None:
    """A delete that rewrites files of a table without a key leaves index files of what is live."""
    store = memory_store()
    table = await table_with({"host": "bloom"}, store=store, files=2, primary_key=())
    await table.delete("n < 1000")
    live = {one["index_path"] for one in (await table.files()).to_pylist()}
    there = {one.key.split("/", 2)[2] async for one in store.list("") if "/index/" in one.key}
    assert len(live) == 2
    assert live <= there
    assert await table.scan(f"host = 'Host-{value(300)}'").count() == 1


@pytest.mark.parametrize("refused", ["/index/", "/data/", "/snapshot/"])
async def test_a_crash_between_uploads_leaves_only_orphans(refused: str) -> None:
    """Whichever object of a write does not arrive, the table is as it was and every file of it is there."""
    inner = memory_store()
    faulty = FaultyStore(inner)
    table = await table_with({"host": "bloom"}, store=faulty, files=1)
    expected = await table.scan().to_pylist()
    faulty.planned.append(Fault(kind=FaultKind.POWER_CUT_BEFORE, key=refused))
    with pytest.raises(PowerCut):
        await table.append(rows(500, first=500))
    fresh = await lake_on(inner).table(NAME)
    assert await fresh.scan().to_pylist() == expected
    keys = {one.key.split("/", 2)[2] async for one in inner.list("db/t-")}
    assert {one["index_path"] for one in (await fresh.files()).to_pylist()} <= keys


# --- pruning --------------------------------------------------------------------------


async def test_rows_of_a_file_are_spared_too() -> None:
    """Pieces of a file that the index excludes are not read, and the plan says how many rows it excludes."""
    options = {**SMALL, "parquet.row_group_rows": 1000}
    table = await table_with(
        {"host": {"bloom": {"granularity": 500}}}, files=1, count=10_000, options=options
    )
    where = f"host = 'Host-{value(77)}'"
    planned = await table.scan(where).explain()
    assert planned.rows_pruned_by_index >= 9_000
    assert planned.as_dict()["rows_pruned_by_index"] == planned.rows_pruned_by_index
    scan = table.scan(where)
    assert await scan.count() == 1
    assert scan.report.pieces == 10
    assert scan.report.pieces_read <= 2


async def test_what_hides_older_rows_is_read() -> None:
    """A file that its index excludes is read for its keys where it may hide rows of older files."""
    table = await table_with({"host": "bloom"}, files=1, count=100)
    # Hosts between the others, so that statistics tell nothing.
    await table.upsert([{**one, "host": f"Host-{value(one['id'] + 500)}"} for one in rows(100)[:50]])
    scan = table.scan(f"host in ('Host-{value(1)}', 'Host-{value(70)}')")
    assert [one["id"] for one in await scan.to_pylist()] == [70]
    assert (scan.report.files_keys_only, scan.report.indexes_read) == (1, 2)


async def test_an_unordered_column_reads_few_files() -> None:
    """Equality on a column in no order reads no more than two files' worth of bytes, indexes included."""
    store = RecordingStore(memory_store())
    await table_with({"host": "bloom"}, store=store, files=20, count=2000)
    table = await lake_on(store).table(NAME)
    sizes = (await table.files()).column("bytes").to_pylist()
    indexes = (await table.files()).column("index_bytes").to_pylist()
    scan = table.scan(f"host = 'Host-{value(12345)}'")
    assert await scan.count() == 1
    read = scan.report.cost.bytes_read
    assert read - sum(indexes) <= 2 * max(sizes)
    assert scan.report.files_pruned["index"] >= 18


# --- evolution ------------------------------------------------------------------------


async def test_a_renamed_column_keeps_its_indexes() -> None:
    """Files written before and after a column is renamed are pruned by its new name, expressions too."""
    table = await table_with({"host": "bloom", "lower(host)": "inverted", "host, n": "bloom"}, files=2)
    await table.rename_column("host", "server")
    await table.append(
        [
            {"server" if name == "host" else name: of for name, of in one.items()}
            for one in rows(500, first=1000)
        ]
    )
    await table.add_column("host", "string")
    found = value(1234)
    for where in (
        f"server = 'Host-{found}'",
        f"lower(server) = 'host-{found}'",
        f"server = 'Host-{found}' and n = {found}",
    ):
        scan = table.scan(where)
        assert await scan.count() == 1
        assert sum(scan.report.files_pruned.values()) == 2
    assert await table.scan("host is null").count() == 1500
    assert await table.scan(f"host = 'Host-{found}'").count() == 0
    assert (await table.indexes()).column("target").to_pylist() == ["server", "lower(server)", "server, n"]


async def test_a_dropped_column_takes_its_indexes_along() -> None:
    """A column that comes back by name has another id, no index, and its values are found."""
    table = await table_with({"host": "bloom", "lower(host)": "bloom", "n": "inverted"}, files=2)
    await table.drop_column("host")
    assert (await table.indexes()).column("target").to_pylist() == ["n"]
    await table.add_column("host", "string", default="Host-5")
    assert await table.scan("host = 'Host-5'").count() == 1000
    assert await table.scan("lower(host) = 'host-5'").count() == 1000
    await table.add_index("host", "bloom")
    assert await table.scan("host = 'Host-5'").count() == 1000
    await table.rebuild_indexes()
    assert await table.scan("host = 'Host-5'").count() == 1000
    scan = table.scan("host = 'Host-6'")
    assert await scan.count() == 0


async def test_a_widened_column_is_found_by_its_indexes() -> None:
    """Values indexed with a narrower type are found when the column is wider."""
    indexes = {"n": ["inverted", "bloom"], "n, host": "bloom", "n + 1": "inverted"}
    table = await table_with(indexes, files=2)
    await table.widen_column("n", "bigint")
    await table.append([{**one, "place": None} for one in rows(500, first=2**40)])
    for number in (value(700), 2**40 + 7):
        scan = table.scan(f"n = {number} and host = 'Host-{number}'")
        assert await scan.count() == 1
        assert sum(scan.report.files_pruned.values()) == 2
        assert await table.scan(f"n + 1 = {number + 1}").count() == 1
    # What an expression makes of narrower numbers may be something else.
    assert [one["indexes"] for one in (await table.files()).to_pylist()] == [
        [1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5],
    ]  # fmt: skip


async def test_no_file_is_asked_for_an_index_that_was_dropped() -> None:
    """After an index is dropped no scan asks it, also when one of the same target comes again."""
    store = RecordingStore(memory_store())
    table = await table_with({"host": "bloom"}, store=store, files=2)
    await table.drop_index("host")
    await table.add_index("host", "bloom")
    store.clear()
    where = f"host = 'Host-{value(700)}'"
    assert await table.scan(where).count() == 1
    assert not any("/index/" in call.key for call in store.calls)
    done = await table.rebuild_indexes()
    assert (done.files, done.passed_over) == (2, 0)
    scan = table.scan(where)
    assert await scan.count() == 1
    assert scan.report.files_pruned["index"] == 1


async def test_other_options_are_another_index() -> None:
    """An altered index is asked of files that were written with its options only."""
    table = await table_with({"message": "fulltext"}, files=1)
    assert await table.scan("matches(message, 'REQUEST')").count() == 500
    done = await table.alter_index("message", case_sensitive=True)
    assert done.changed
    assert await table.scan("matches(message, 'REQUEST')").count() == 0
    assert await table.scan("matches(message, 'request 7919')").count() == 1
    assert not (await table.alter_index("message", case_sensitive=True)).changed
    await table.rebuild_indexes()
    scan = table.scan("matches(message, 'REQUEST 7919')")
    assert await scan.count() == 0
    assert scan.report.indexes_read == 1
    before = (await table.scan("matches(message, 'REQUEST')", snapshot=2).to_arrow()).num_rows
    assert before == 500


async def test_an_index_that_tells_case_is_not_asked_without() -> None:
    """When case comes not to matter, files whose index tells it are not asked."""
    table = await table_with({"message": {"fulltext": {"case_sensitive": True}}}, files=1)
    assert await table.scan("matches(message, 'REQUEST')").count() == 0
    await table.alter_index("message", case_sensitive=False)
    assert await table.scan("matches(message, 'REQUEST')").count() == 500


async def test_a_rollback_brings_no_index_back_that_means_something_else() -> None:
    """After a rollback, ids of indexes go on where they were, so that none is used for another."""
    table = await table_with({"host": "bloom"}, files=1)
    first = await table.current_snapshot()
    await table.add_index("n", "inverted")
    await table.append(rows(500, first=500))
    await table.rollback(snapshot=first)
    await table.add_index("message", "fulltext")
    await table.append(rows(500, first=500))
    schema = await table.schema()
    assert [(one.id, one.kind) for one in schema.indexes] == [(1, "bloom"), (3, "fulltext")]
    assert await table.scan(f"matches(message, '{value(700)}')").count() == 1
    assert await table.scan(f"n = {value(700)}").count() == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.add_index("host", "bloom"), "two bloom indexes"),
        (lambda table: table.add_index("nowhere", "bloom"), "no column"),
        (lambda table: table.drop_index("n"), "no index"),
        (lambda table: table.drop_index("host", "inverted"), "no inverted index"),
        (lambda table: table.drop_index("message"), "several indexes"),
        (lambda table: table.alter_index("host", granularity=0), "granularity"),
        (lambda table: table.alter_index("host", segment_row_count=4), "no option"),
    ],
)
async def test_bad_changes_are_refused(change: Callable[[Table], Awaitable[Any]], said: str) -> None:
    """A change of indexes that makes no sense is refused, and nothing is committed."""
    table = await table_with({"host": "bloom", "message": ["bloom", "fulltext"]}, files=0)
    before = await table.current_snapshot()
    with pytest.raises(InvalidInputError, match=said):
        await change(table)
    assert await table.current_snapshot() == before


async def test_indexes_can_be_turned_off() -> None:
    """With table.scan_indexes off, scans ask no index and return the same rows."""
    store = memory_store()
    await table_with({"host": "bloom"}, store=store)
    lake = Lake(stacked(store), settings=Lake(store).settings.replace(**{"table.scan_indexes": False}))
    scan = (await lake.table(NAME)).scan(f"host = 'Host-{value(1)}'")
    assert await scan.count() == 1
    assert scan.report.indexes_read == 0


async def test_a_conflict_of_changes_is_told() -> None:
    """Two processes that add the same index at once: the second is refused, not silently merged."""
    store = memory_store()
    table = await table_with({}, store=store, files=0)
    other = await lake_on(store).table(NAME)
    await other.schema()
    await table.add_index("host", "bloom")
    with pytest.raises((InvalidInputError, ConflictError), match="two bloom indexes"):
        await other.add_index("host", "bloom")


async def test_large_filters_are_looked_at_in_places() -> None:
    """Of a large filter the pages are read that a value's bits are in, and every value there is is found."""
    store = RecordingStore(memory_store())
    settings = {"index.search_whole_bytes": 4096}
    lake = Lake(stacked(store), settings=Lake(store).settings.replace(**settings))
    await lake.create_database("db")
    indexes = {"host": {"bloom": {"granularity": 10**6}}}
    table = await lake.create_table(NAME, SCHEMA, primary_key="id", indexes=indexes, options=SMALL)
    count = 30_000
    await table.append(rows(count))
    (size,) = (await table.files()).column("index_bytes").to_pylist()
    assert size > 4 * 8192
    for number in (0, 1234, count - 1):
        fresh = await Lake(stacked(store), settings=lake.settings).table(NAME)
        scan = fresh.scan(f"host = 'Host-{value(number)}'")
        assert await scan.count() == 1
        assert scan.report.indexes_read == 1
    excluded = read = 0
    for number in range(40):
        fresh = await Lake(stacked(store), settings=lake.settings).table(NAME)
        planned = await fresh.scan(f"host = 'Host-{value(number)}x'").explain()
        excluded += planned.files_pruned.get("index", 0)
        read += planned.cost.bytes_read
    assert excluded >= 35
    assert read < 40 * size * 0.8
