"""Searching index files: what is left out, and what it costs to know."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pyarrow as pa
import pytest

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.expr import col, parse_where
from lakehouse.format.index.inverted import InvertedMetas
from lakehouse.format.index.inverted_search import OneOf
from lakehouse.format.schema.target_key import ColumnSetTarget, ExpressionTarget, JsonPathTarget
from lakehouse.index.building.builder import IndexSpec, PuffinIndexBuilder
from lakehouse.index.puffin.reader import PuffinReader
from lakehouse.index.search.searcher import IndexSearcher
from lakehouse.index.search.selection import RowSelection
from lakehouse.index.search.target_conditions import Holds
from lakehouse.testing import memory_store
from tests.kit.blob_samples import manifest, sample
from tests.kit.index_scans import blob_of
from tests.kit.searchers import BLOOM, FULLTEXT, INVERTED, columns_of, searcher_of, spec

EVENTS = pa.table(
    {
        "number": pa.array(np.arange(40_960), pa.int64()),
        "host": pa.array([f"host-{row // 4096}" for row in range(40_960)]),
        "status": pa.array(np.where(np.arange(40_960) // 1024 == 7, 500, 200), pa.int16()),
        "message": pa.array([f"Request {row // 2048} served_by node" for row in range(40_960)]),
        "note": pa.array([None if row < 20_480 else "x" for row in range(40_960)]),
    }
)
"""Rows in order, so that whoever looks for few of them needs few segments."""
NUMBER, HOST, STATUS, MESSAGE, NOTE = range(1, 6)


async def selected(
    where: str, *specs: IndexSpec, rows: pa.Table = EVENTS, **how: Any
) -> list[tuple[int, int]]:
    """The ranges of rows that may match."""
    searcher, _ = await searcher_of(rows, specs, **how)
    found = await searcher.may_match(parse_where(where))
    return [(start, end) for start, end in found.ranges.tolist()]


@pytest.mark.parametrize(
    ("where", "ranges"),
    [
        ("number = 5000", [(4096, 5120)]),
        ("number in (0, 1, 40959)", [(0, 1024), (39936, 40960)]),
        ("number >= 2000 and number < 3000", [(1024, 3072)]),
        ("number < 2000 and number > 3000", []),
        ("number between 1024 and 2047", [(1024, 2048)]),
        ("number not in (1, 2) and number < 1024", [(0, 1024)]),
        ("number = 1 or number = 2048", [(0, 1024), (2048, 3072)]),
        ("number = 1.5", []),
        ("number = 99999999", []),
        ("status <> 200", [(7168, 8192)]),
        ("not (status = 200)", [(7168, 8192)]),
        ("status not in (200, 404)", [(7168, 8192)]),
        ("host = 'host-3' and number < 13000", [(12288, 13312)]),
        ("starts_with(host, 'host-9')", [(36864, 40960)]),
        ("host like 'host-1%'", [(4096, 8192)]),
        ("host like '%-2'", [(8192, 12288)]),
        ("host like 'h_st-2'", [(8192, 12288)]),
        ("ends_with(host, '-2')", [(8192, 12288)]),
        ("contains(host, 't-2')", [(8192, 12288)]),
        ("regexp_matches(host, '^host-[23]$')", [(8192, 16384)]),
        ("note is null", [(0, 20480)]),
        ("note is not null", [(20480, 40960)]),
        ("note = 'x' and number < 1024", []),
        ("number < 1024 or length(host) = 3", [(0, 40960)]),
        ("number < 1024 and length(host) = 3", [(0, 1024)]),
        ("number = number", [(0, 40960)]),
        ("true", [(0, 40960)]),
        ("number = null", []),
        ("not (host like 'host-1%')", [(0, 40960)]),
    ],
)
async def test_what_an_inverted_index_says(where: str, ranges: list[tuple[int, int]]) -> None:
    """Segments without a row that matches are left out, those next to each other become one range."""
    specs = [spec(INVERTED, column) for column in (NUMBER, HOST, STATUS, NOTE)]
    assert await selected(where, *specs) == ranges
    assert await selected(where, *specs, settings=IndexSettings(search_whole_bytes=0)) == ranges


@pytest.mark.parametrize(
    ("where", "ranges"),
    [
        ("host = 'host-3'", [(12288, 16384)]),
        ("host in ('host-3', 'host-5', 'nowhere')", [(12288, 16384), (20480, 24576)]),
        ("host = 'host-3' and number = 12300", [(12288, 14336)]),
        ("host = 'host-3' or number = 1", [(0, 2048), (12288, 16384)]),
        ("host = 'host-3' or status = 500", [(0, 40960)]),
        ("host = 'nowhere'", []),
        ("not (host = 'host-3')", [(0, 40960)]),
        ("host > 'host-3'", [(0, 40960)]),
        ("host is null", [(0, 40960)]),
    ],
)
async def test_what_bloom_filters_say(where: str, ranges: list[tuple[int, int]]) -> None:
    """Filters answer equality and IN, combine over segments of different sizes, and never answer NOT."""
    filters = [spec(BLOOM, HOST, granularity=4096), spec(BLOOM, NUMBER, granularity=2048)]
    rare = [
        IndexSpec(kind=one.kind, target=one.target, granularity=one.granularity, false_positive_rate=1e-9)
        for one in filters
    ]
    assert await selected(where, *rare) == ranges


@pytest.mark.parametrize(
    ("where", "ranges"),
    [
        ("matches(message, 'request 3')", [(6144, 8192)]),
        ("matches(message, 'REQUEST 3 nowhere')", []),
        ("matches(message, 'served_by')", [(0, 40960)]),
        ("matches(message, '...')", [(0, 40960)]),
        ("not matches(message, '3')", [(0, 40960)]),
        ("matches(message, '3') and number < 7000", [(6144, 7168)]),
    ],
)
async def test_what_fulltext_filters_say(where: str, ranges: list[tuple[int, int]]) -> None:
    """A segment may match when it has all words of the query."""
    words = spec(FULLTEXT, MESSAGE, granularity=2048, false_positive_rate=1e-9)
    assert await selected(where, words, spec(INVERTED, NUMBER)) == ranges


async def test_words_of_older_files() -> None:
    """A file that does not say how new it is may have cut words at ``_``; ours did not."""
    builder = PuffinIndexBuilder([spec(FULLTEXT, 1, granularity=1)], {1: "m"}, table_style=True)
    builder.push(pa.record_batch({"m": ["served by", "served_by", "served", ""]}))
    ours = builder.finish_bytes()
    named = b',"granularity":1,"false_positive_rate":0.01'
    old = ours.replace(named.replace(b'"', b'\\"'), b" " * len(named.replace(b'"', b'\\"')))
    assert len(old) == len(ours)
    assert old != ours
    found = []
    for data in (ours, old):
        store = memory_store()
        await store.put("x.puffin", data)
        searcher = IndexSearcher(PuffinReader(store, "x.puffin"), {"m": (1, pa.string())})
        found.append((await searcher.may_match(col("m").matches("served_by"))).ranges.tolist())
    assert found == [[[1, 2]], [[0, 2]]]


async def test_floats_that_are_told_apart_or_not() -> None:
    """Of zeros and NaNs, which have one encoding and may compare in two ways, no row is left out."""
    rows = pa.table({"x": pa.array([0.0, -0.0, float("nan"), 1.0])})
    for where in ("x <> 0.0", "x not in (0.0)", "x <> double 'nan'", "x not in (double 'nan')"):
        assert await selected(where, spec(INVERTED, 1, segment_row_count=1), rows=rows) == [(0, 4)]
    assert await selected("x = 0.0", spec(INVERTED, 1, segment_row_count=1), rows=rows) == [(0, 2)]


async def test_a_set_of_columns_is_looked_up_together() -> None:
    """Equality on all columns of a set, also with null, finds the rows where they come together."""
    rows = pa.table({"a": [1, 1, 2, None], "b": ["x", "y", "x", "y"], "c": [0, 0, 0, 0]})
    target = ColumnSetTarget(column_ids=(1, 2))
    for one in (spec(INVERTED, target, segment_row_count=1), spec(BLOOM, target, granularity=1)):
        assert await selected("a = 1 and b = 'x'", one, rows=rows) == [(0, 1)]
        assert await selected("b = 'y' and a is null and c = 0", one, rows=rows) == [(3, 4)]
        assert await selected("a in (1, 2) and b in ('x', 'z')", one, rows=rows) == [(0, 1), (2, 3)]
        assert await selected("a = 2 and b = 'y'", one, rows=rows) == []
        assert await selected("a = 1", one, rows=rows) == [(0, 4)]
        assert await selected("a = 1 and b > 'x'", one, rows=rows) == [(0, 4)]


async def test_an_indexed_expression_is_found_by_its_text() -> None:
    """A condition on an indexed expression is looked up, whatever the columns are called otherwise."""
    rows = pa.table({"host": ["A", "b", None, "a"], "n": pa.array([1, 2, 3, 4], pa.int32())})
    specs = [
        spec(kind, ExpressionTarget.of(text), segment_row_count=1, granularity=1)
        for kind, text in ((INVERTED, "lower(host)"), (BLOOM, "n * 2"), (INVERTED, "starts_with(host, 'A')"))
    ]
    for where, ranges in (
        ("lower(host) = 'a'", [(0, 1), (3, 4)]),
        ("lower(host) > 'a'", [(1, 2)]),
        ("lower(host) like 'a%' and n * 2 = 8", [(3, 4)]),
        ("lower(host) is null", [(2, 3)]),
        ("n * 2 = 8.0", [(3, 4)]),
        ("n * 2 = 8.5", [(0, 4)]),
        ("starts_with(host, 'A')", [(0, 1)]),
        ("not starts_with(host, 'A')", [(1, 2), (3, 4)]),
        ("upper(host) = 'A'", [(0, 4)]),
    ):
        assert await selected(where, *specs, rows=rows) == ranges, where


async def test_an_expression_over_a_column_that_changed_its_name() -> None:
    """A text that names another column today than when it was indexed finds nothing to look up."""
    rows = pa.table({"host": ["a", "b"]})
    one = spec(BLOOM, ExpressionTarget.of("lower(host)"), granularity=1)
    builder = PuffinIndexBuilder([one], {1: "host"})
    builder.push(rows)
    store = memory_store()
    await store.put("x.puffin", builder.finish_bytes())
    reader = PuffinReader(store, "x.puffin")
    same = IndexSearcher(reader, {"host": (1, pa.string())})
    assert (await same.may_match(col("host").lower() == "a")).row_count == 1
    renamed = IndexSearcher(reader, {"node": (1, pa.string()), "host": (2, pa.string())})
    assert (await renamed.may_match(col("host").lower() == "a")).is_all


async def test_json_paths_are_searched_by_target() -> None:
    """What no expression can name is searched by its target key."""
    rows = pa.table({"doc": ['{"user": {"id": 7}}', '{"user": {"id": "8"}}', "{}", None]})
    target = JsonPathTarget(column_id=1, pointer="/user/id")
    searcher, _ = await searcher_of(rows, [spec(INVERTED, target, segment_row_count=1)])
    found = await searcher.search(Holds(target.key, OneOf(values=(b"7",))))
    assert found == RowSelection.of_rows([0], 4)
    assert (await searcher.may_match(col("doc") == "x")).is_all


async def test_metadata_and_small_indexes_cost_one_request() -> None:
    """A small file is searched with the one request that gives its footer."""
    searcher, store = await searcher_of(EVENTS[:2000], [spec(INVERTED, HOST), spec(BLOOM, STATUS)])
    for where in ("host = 'host-0'", "status = 300 and host > 'a'"):
        await searcher.may_match(parse_where(where))
    assert store.kinds() == {"get": 1}


async def test_a_warm_search_costs_one_request() -> None:
    """With metadata and term lists at hand, what is needed comes in one coalesced read."""
    limits = IndexSettings(search_whole_bytes=1024)
    specs = [spec(INVERTED, NUMBER), spec(INVERTED, HOST), spec(BLOOM, STATUS, granularity=1024)]
    searcher, store = await searcher_of(EVENTS, specs, prefetch_bytes=600, settings=limits)
    await searcher.may_match(parse_where("number = 5000 and host = 'host-1'"))
    assert store.kinds() == {"get": 4}  # footer, metadata, term lists, bitmaps
    store.clear()
    found = await searcher.may_match(parse_where("number in (9000, 9001) and status = 200"))
    assert found.ranges.tolist() == [[8192, 9216]]
    assert store.kinds() == {"get": 1}
    store.clear()
    # Far apart they are two requests, which run side by side.
    await searcher.may_match(parse_where("number = 9000 and host = 'host-2'"))
    assert store.kinds() == {"get": 2}


async def test_bloom_filters_of_segments_that_are_left() -> None:
    """Large filters are read last, and only those of segments that other answers left."""
    limits = IndexSettings(search_whole_bytes=1024, search_max_bytes=1 << 20)
    specs = [spec(INVERTED, HOST), spec(BLOOM, NUMBER, granularity=512)]
    searcher, store = await searcher_of(EVENTS, specs, prefetch_bytes=4096, settings=limits)
    await searcher.may_match(parse_where("host = 'host-2'"))
    store.clear()
    found = await searcher.may_match(parse_where("host = 'host-2' and number = 9000"))
    assert 512 <= found.row_count < 4096
    assert 1 <= len(store.calls) <= 3
    nothing = await searcher.may_match(parse_where("host = 'nowhere' and number = 9000"))
    assert nothing.is_empty


async def test_an_index_that_would_cost_too_much_is_left_out() -> None:
    """Beyond the limit an index is done without, and every row may match."""
    limits = IndexSettings(search_whole_bytes=0, search_max_bytes=100)
    specs = [spec(INVERTED, NUMBER), spec(BLOOM, HOST, granularity=64)]
    assert await selected("number = 5", *specs, settings=limits) == [(0, 40960)]
    assert await selected("host = 'nowhere'", *specs, settings=limits) == [(0, 40960)]


async def test_what_is_not_asked_is_not_read() -> None:
    """Only metadata of indexes that can say something is fetched, and of a constant nothing."""
    specs = [spec(BLOOM, column, granularity=16) for column in (NUMBER, HOST, STATUS)]
    searcher, store = await searcher_of(EVENTS, specs, prefetch_bytes=600, row_count=EVENTS.num_rows)
    await searcher.may_match(parse_where("true"))
    assert len(store.calls) == 1
    await searcher.may_match(parse_where("note = 'x' or length(host) = 2"))
    assert len(store.calls) == 1
    await searcher.may_match(parse_where("host = 'x'"))
    assert len(store.calls) == 3


async def test_the_number_of_rows_is_checked() -> None:
    """An index about another number of rows than the data file has is damage, not an answer."""
    searcher, _ = await searcher_of(EVENTS, [spec(BLOOM, HOST)], row_count=7)
    with pytest.raises(CorruptionError, match=r"x\.puffin.*is about 40960 rows, the data file has 7"):
        await searcher.may_match(col("host") == "a")


@pytest.mark.parametrize("whole", [True, False], ids=["read whole", "read in steps"])
async def test_damage_that_shows_names_file_blob_and_byte(whole: bool) -> None:
    """A damaged list of terms is an error that says of which file and blob, never a smaller selection."""
    searcher, store = await searcher_of(EVENTS, [spec(BLOOM, HOST), spec(INVERTED, NUMBER)])
    data = bytearray((await store.get("x.puffin")).data)
    blob = blob_of(bytes(data), "greptime-inverted-index-v1")
    metas = InvertedMetas.from_tail(bytes(data[blob.offset : blob.end]), blob.length)
    assert isinstance(metas, InvertedMetas)
    data[blob.offset + metas.columns["1"].fst_range[0]] ^= 0x40
    await store.put("x.puffin", bytes(data))
    settings = IndexSettings(search_whole_bytes=(1 << 26) if whole else 0)
    searcher = IndexSearcher(PuffinReader(store, "x.puffin"), columns_of(EVENTS), settings=settings)
    with pytest.raises(FormatError, match=f"x.puffin, blob '{blob.type}' at byte {blob.offset}: ") as damage:
        await searcher.may_match(col("number") == 7)
    assert (damage.value.context["blob"], damage.value.context["offset"]) == (blob.type, blob.offset)


async def test_a_file_without_indexes() -> None:
    """Without an index every row may match, when somebody says how many there are."""
    searcher, _ = await searcher_of(EVENTS, [], row_count=5)
    assert (await searcher.may_match(col("host") == "a")) == RowSelection.every(5)
    searcher, _ = await searcher_of(EVENTS, [])
    with pytest.raises(InvalidInputError, match="pass row_count"):
        await searcher.may_match(col("host") == "a")


async def test_searches_run_side_by_side() -> None:
    """One searcher answers many questions at the same time."""
    searcher, _ = await searcher_of(EVENTS, [spec(INVERTED, NUMBER)], prefetch_bytes=64)
    found: dict[int, RowSelection] = {}

    async def ask(number: int) -> None:
        found[number] = await searcher.may_match(col("number") == number)

    async with anyio.create_task_group() as tasks:
        for number in range(0, 40_960, 4096):
            tasks.start_soon(ask, number)
    assert {number: one.ranges.tolist() for number, one in found.items()} == {
        number: [[number, number + 1024]] for number in range(0, 40_960, 4096)
    }


async def test_many_values_and_many_segments() -> None:
    """A list of values so long that it would take seconds is not looked up in filters."""
    searcher, _ = await searcher_of(EVENTS, [spec(BLOOM, NUMBER, granularity=16)])
    long = col("number").is_in(range(50_000, 60_000))
    assert (await searcher.may_match(long)).is_all
    short = col("number").is_in(range(50_000, 50_100))
    assert (await searcher.may_match(short)).row_count < 40_960


async def test_term_lists_are_kept_within_the_limit() -> None:
    """A searcher keeps the term lists it met last, as many as one index may cost."""
    limits = IndexSettings(search_whole_bytes=0, search_max_bytes=2450)
    specs = [spec(INVERTED, column, segment_row_count=8192) for column in (NUMBER, HOST, STATUS, MESSAGE)]
    searcher, store = await searcher_of(EVENTS, specs, prefetch_bytes=64, settings=limits)
    await searcher.may_match(parse_where("host = 'host-1' and status = 200 and note is null"))
    store.clear()
    await searcher.may_match(parse_where("host = 'host-2'"))
    assert store.kinds() == {"get": 1}
    await searcher.may_match(parse_where("number = 7"))  # its terms take most of the room
    store.clear()
    await searcher.may_match(parse_where("host = 'host-3' and status = 500"))
    assert store.kinds() == {"get": 2}


@pytest.mark.parametrize("name", ["bloom-one", "inverted-two"])
async def test_files_of_greptimedb_are_searched(name: str) -> None:
    """In files that GreptimeDB's own code wrote every value is found, and the rows without it are few."""
    store = memory_store()
    await store.put("x.puffin", sample(name))
    columns = manifest()[f"{name}.puffin"]["columns"]
    types = {"string": pa.string(), "int64": pa.int64()}
    searcher = IndexSearcher(
        PuffinReader(store, "x.puffin"),
        {f"c{key}": (int(key), types[column["type"]]) for key, column in columns.items()},
    )
    for key, column in columns.items():
        rows = column["rows"]
        for value in set(rows) - {None}:
            found = (await searcher.may_match(col(f"c{key}") == value)).mask()
            assert all(found[place] for place, one in enumerate(rows) if one == value)
            assert not found.all()
