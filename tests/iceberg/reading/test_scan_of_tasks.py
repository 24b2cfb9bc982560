"""Scans of tasks: of tables that Spark wrote, by its answers, and of tables made here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config import TableSettings
from lakehouse.errors import InvalidInputError
from lakehouse.expr import parse_where
from lakehouse.iceberg.reading import task_scan
from lakehouse.io import measure
from tests.kit.iceberg_files import MadeTable, field
from tests.kit.iceberg_spark_tables import SPARK_TABLES, same, spark_table

_FIELDS = [field(1, "id", "long"), field(2, "name", "string"), field(3, "odd", "variant")]
_ROWS = pa.table({"id": range(20), "name": [f"n{n:02}" for n in range(20)]})


@pytest.mark.parametrize("name", SPARK_TABLES)
async def test_rows_are_those_that_spark_has(name: str) -> None:
    """Every row, column and value of the current snapshot, in the current schema."""
    async with spark_table(name) as table:
        current = table.expected["current"]
        scan = await table.scan()
        assert scan.schema.names == current["columns"]
        assert same(await table.rows(), current["rows"], current["types"])


@pytest.mark.parametrize("name", SPARK_TABLES)
async def test_conditions_choose_the_rows_that_spark_chooses(name: str) -> None:
    """Each condition over all files gives the ids of Spark's rows, also where it is only counted."""
    async with spark_table(name) as table:
        for asked in table.expected["conditions"]:
            found = await table.rows(where=asked["where"], columns=["id"])
            assert [row[0] for row in found] == asked["ids"], asked["where"]
            counted = await table.scan(where=asked["where"], columns=())
            assert await counted.count() == len(asked["ids"])


@pytest.mark.parametrize("name", SPARK_TABLES)
async def test_snapshots_tags_and_branches_have_their_rows(name: str) -> None:
    """Snapshots and tags are read in the schema of their time, branches in the current one."""
    async with spark_table(name) as table:
        metadata = table.metadata
        for version in table.expected["versions"]:
            if "snapshot" in version:
                snapshot = metadata.snapshot_by_id(version["snapshot"])
            else:
                kind = "tag" if "tag" in version else "branch"
                snapshot = metadata.snapshot_of_ref(version[kind], kind)
            names = version["columns"]
            scan = await table.scan(snapshot)
            if "branch" in version:
                snapshot = replace(snapshot, schema_id=metadata.current_schema_id)
            else:
                assert scan.schema.names == names
            types = dict(
                zip(table.expected["current"]["columns"], table.expected["current"]["types"], strict=True)
            )
            kinds = [types.get(name, "") for name in scan.schema.names]
            assert same(await table.rows(snapshot), version["rows"], kinds)


@pytest.mark.parametrize("name", [name for name in SPARK_TABLES if name in ("vectors", "types")])
async def test_rows_keep_their_lineage(name: str) -> None:
    """Row ids and the commits of last changes are Spark's, kept through rewrites or made of the file's."""
    async with spark_table(name) as table:
        columns = ["id", "_row_id", "_last_updated_sequence_number"]
        assert await table.rows(columns=columns) == table.expected["lineage"]


@pytest.mark.parametrize("name", SPARK_TABLES)
async def test_counting_agrees_with_reading(name: str) -> None:
    """The number of rows is that of the rows, whatever deletes there are."""
    async with spark_table(name) as table:
        assert await (await table.scan(columns=())).count() == len(table.expected["current"]["rows"])


async def test_files_without_deletes_are_counted_without_a_request() -> None:
    """What the manifests say is known; deletion vectors say how many rows they delete."""
    made = MadeTable(_FIELDS[:2])
    task = await made.data(_ROWS, [1, 2])
    vectors = await made.vectors({task.path: [3, 4]})
    with measure() as cost:
        assert await made.scan([task], columns=()).count() == 20
        assert await made.scan([replace(task, deletes=(vectors[task.path],))], columns=()).count() == 18
    assert cost.by_kind() == {}


async def test_a_small_file_is_one_request() -> None:
    """Data of a small file come with its footer, and stay in the cache for the next scan."""
    made = MadeTable(_FIELDS[:2])
    task = await made.data(_ROWS, [1, 2])
    for requests in ({"get": 1}, {}):
        with measure() as cost:
            scan = made.scan([task], where="name = 'n07'")
            assert [row async for table in scan.tables() for row in table.to_pylist()] == [
                {"id": 7, "name": "n07"}
            ]
        assert cost.by_kind() == requests
    assert scan.report.pieces_read == 1


async def test_a_limit_ends_the_reading() -> None:
    """No more rows are returned than were asked for, and files behind them are not opened."""
    made = MadeTable(_FIELDS[:2])
    tasks = [await made.data(_ROWS, [1, 2]) for _ in range(8)]
    with measure() as cost:
        assert len(await made.rows(*tasks, limit=5)) == 5
    assert cost.by_kind() == {"get": 1}


async def test_columns_of_types_that_are_not_read_can_be_left_out() -> None:
    """A column of another type is an error when it is read, and only then."""
    made = MadeTable(_FIELDS)
    task = await made.data(_ROWS, [1, 2])
    assert (await made.rows(task, columns=["name"], limit=1)) == [{"name": "n00"}]
    with pytest.raises(InvalidInputError, match="column 'odd' is variant, a type that is not read"):
        made.scan([task])
    with pytest.raises(InvalidInputError, match="there is no column 'odd'"):
        made.scan([task], columns=["id"], where="odd = 1")


async def test_a_column_that_nobody_asks_for_may_have_any_type() -> None:
    """Files are opened with the columns that are needed."""
    made = MadeTable(_FIELDS[:2])
    odd = pa.table({"id": range(20), "name": pa.array(range(20), pa.uint64())})
    task = await made.data(odd, [1, 2])
    assert len(await made.rows(task, columns=["id"], where="id < 5")) == 5


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"columns": ["idd"]}, "column 'idd' is not there"),
        ({"where": "title = 'x'"}, "there is no column 'title'; these are there: id, name"),
        ({"where": "name > 3"}, "name is string and cannot be compared with 3"),
    ],
)
async def test_what_does_not_fit_the_schema_is_refused_at_once(wanted: dict[str, Any], message: str) -> None:
    """A wrong name or constant is an error before anything is read."""
    made = MadeTable(_FIELDS[:2])
    with pytest.raises(InvalidInputError, match=message):
        made.scan([], **wanted)


async def test_a_table_without_files_has_no_rows() -> None:
    """A scan of no task is empty and has the schema's columns."""
    scan = MadeTable(_FIELDS[:2]).scan([])
    assert scan.schema.names == ["id", "name"]
    assert await scan.count() == 0


async def test_memory_bounds_the_reading() -> None:
    """Sections begin when there is room for them, so that a scan of many files holds few."""
    settings = TableSettings(scan_memory_bytes=1 << 20, scan_concurrency=4)
    made = MadeTable(_FIELDS[:2], settings=settings)
    rows = pa.table({"id": range(20_000), "name": ["x" * 100] * 20_000})
    tasks = [await made.data(rows, [1, 2]) for _ in range(3)]
    scan = made.scan(tasks)
    assert sum([table.num_rows async for table in scan.tables()]) == 60_000
    assert scan.report.sections > 6


async def test_schemas_evolve_by_field_id() -> None:
    """Added, dropped, renamed, moved and promoted columns are found by their ids, inside structs too."""
    inner = {"type": "struct", "fields": [field(6, "new", "long"), field(5, "why", "string")]}
    made = MadeTable(
        [
            field(3, "d", "decimal(12,2)"),
            field(4, "s", inner),
            field(1, "wide", "long"),
            field(7, "f", "double"),
            field(8, "added", "string", **{"initial-default": "then"}),
        ]
    )
    rows = pa.table(
        {
            "narrow": pa.array([1, None], pa.int32()),
            "gone": ["x", "y"],
            "d": pa.array([1, 2], pa.decimal128(5, 2)),
            "s": pa.array(
                [{"y": "why"}, None],
                pa.struct([pa.field("y", pa.string(), metadata={"PARQUET:field_id": "5"})]),
            ),
            "f": pa.array([1.5, None], pa.float32()),
        }
    )
    task = await made.data(rows, [1, 2, 3, 4, 7])
    first, second = await made.rows(task)
    assert [str(first["d"]), first["s"], first["wide"]] == ["1.00", {"new": None, "why": "why"}, 1]
    assert [second["s"], second["wide"], second["f"], second["added"]] == [None, None, None, "then"]
    assert len(await made.rows(task, where="wide > 0 and added = 'then' and s.why = 'why'")) == 1


async def test_types_of_fixed_length_and_nanoseconds_are_read() -> None:
    """A uuid is 16 bytes, and moments keep their nanoseconds, in conditions too."""
    made = MadeTable(
        [field(1, "u", "uuid"), field(2, "x", "fixed[3]"), field(3, "t", "timestamp_ns", required=True)]
    )
    rows = pa.table(
        {
            "u": pa.array([bytes(range(16)), None], pa.uuid()),
            "x": pa.array([b"abc", b"abd"], pa.binary(3)),
            "t": pa.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_002], pa.timestamp("ns")),
        }
    )
    task = await made.data(rows, [1, 2, 3])
    found = await made.rows(task, columns=["u", "x"], where="x = 'abc'")
    assert found == [{"u": bytes(range(16)), "x": b"abc"}]
    later = made.scan([task], columns=["t"], where="t > '2023-11-14T22:13:20.000000001'")
    tables = [table async for table in later.tables()]
    assert pa.concat_tables(tables).column("t").cast(pa.int64()).to_pylist() == [1_700_000_000_000_000_002]


@pytest.mark.parametrize("kind", ["none", "positions", "equality", "vectors"])
async def test_shares_of_a_file_are_the_file(kind: str) -> None:
    """Row groups that begin in a share are read with it, once, without what is deleted in the file."""
    made = MadeTable(_FIELDS[:2])
    task = await made.data(_ROWS, [1, 2], first_row_id=100)
    gone = {3, 8, 15}
    if kind == "positions":
        deletes = (await made.positions((task.path, row) for row in gone),)
    elif kind == "equality":
        deletes = (await made.equality(pa.table({"id": sorted(gone)}), [1]),)
    else:
        deletes = ((await made.vectors({task.path: sorted(gone)}))[task.path],)
    task = replace(task, deletes=() if kind == "none" else deletes)
    left = [row for row in range(20) if kind == "none" or row not in gone]
    for step in (100, 400, task.size):
        shares = [replace(task, start=at, length=step) for at in range(0, task.size, step)]
        found = await made.rows(*shares, columns=["id", "_row_id"])
        assert sorted(row["id"] for row in found) == left
        assert all(row["_row_id"] == row["id"] + 100 for row in found)
        assert await made.scan(shares, columns=()).count() == len(left)
        alone = [await made.rows(share, where="id < 12") for share in shares]
        assert sorted(row["id"] for rows in alone for row in rows) == [row for row in left if row < 12]


async def test_files_that_match_are_counted_without_a_request() -> None:
    """Where the plan knows that all rows of a file match, its manifest says how many; others are asked."""
    made = MadeTable(_FIELDS[:2])
    one, other = [await made.data(_ROWS, [1, 2]) for _ in range(2)]
    where = parse_where("id < 5")
    with measure() as cost:
        counted = task_scan([one, replace(other, residual=where)], made.reading, where=where, columns=())
        assert await counted.count() == 25
    assert cost.by_kind() == {"get": 1}


async def test_deletes_of_row_groups_without_a_match_are_not_fetched() -> None:
    """Where statistics of all row groups exclude the condition, no delete file is read."""
    made = MadeTable(_FIELDS[:2])
    task = await made.data(_ROWS, [1, 2])
    task = replace(task, deletes=(await made.positions([(task.path, 3)]),))
    with measure() as cost:
        assert await made.rows(task, where="id > 1000") == []
    assert cost.by_kind() == {"get": 1}
