"""Files that other programs wrote, read through scans like the engine's own."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

from lakehouse.cache import CacheBudget
from lakehouse.config import TableSettings
from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.expr import matching, parse_where
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.storage.files.foreign import ForeignFiles
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.storage.scan import Scan, bind_where
from tests.kit.foreign_files import ROWS, SCHEMA, plain, scanned, source, written


async def test_columns_without_ids_are_found_by_name() -> None:
    """All types read back, nested ones too, in one request of a small file."""
    store, entry = await written()
    assert plain(await scanned(Scan([entry], SCHEMA, source(store)))) == plain(ROWS)
    assert store.kinds() == {"get": 1}


async def test_columns_with_ids_are_found_by_them() -> None:
    """Where the file has field ids its names mean nothing, and a field that it lacks is null."""
    fields = [pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "7"})]
    store, entry = await written(pa.table([ROWS["id"]], schema=pa.schema(fields)))
    by_name = {field.name: field for field in SCHEMA.fields}
    schema = replace(SCHEMA, fields=(replace(by_name["id"], id=7), replace(by_name["name"], id=8, name="x")))
    found = await scanned(Scan([entry], schema, source(store)))
    assert found.to_pydict() == {"id": list(range(1_000)), "x": [None] * 1_000}


async def test_a_column_of_another_type_is_refused_when_the_file_is_opened() -> None:
    """A type that the field was never stored as is an error that names both."""
    rows = pa.table({"id": pa.array(range(10), pa.uint32())})
    store, entry = await written(rows)
    with pytest.raises(
        InvalidInputError, match="column 'id' is uint32 in the file, which is not read as bigint"
    ):
        await source(store).open(entry, SCHEMA)


@pytest.mark.parametrize(
    ("where", "pieces"),
    [
        ("id = 234", 1),
        ("id >= 800", 2),
        ("name = 'n0777'", 1),
        ("name is null", 10),
        ("score < 20", 1),
        ("score > 400", 10),  # a NaN is greater than every number, and nobody says where there is none
        ("place.x = 7", 10),
        ("id = 5 and name is not null", 1),
    ],
)
@pytest.mark.parametrize("told", [True, False])
async def test_a_condition_reads_the_row_groups_that_may_match(where: str, pieces: int, told: bool) -> None:
    """The rows are those that match, whether or not the file has statistics; with them, few are read."""
    store, entry = await written(write_statistics=told)
    condition = parse_where(where)
    scan = Scan([entry], SCHEMA, source(store), where=condition)
    expected = ROWS.filter(matching(bind_where(condition, SCHEMA), ROWS))
    assert plain(await scanned(scan)) == plain(expected)
    assert scan.report.pieces_read == (pieces if told else 10)


async def test_a_large_file_is_read_in_parts() -> None:
    """Opening fetches the tail, and a scan the chunks of the columns and row groups that it needs."""
    rows = pa.table({"id": range(200_000), "pad": [f"{n:09}" for n in range(200_000)]})
    schema = schema_from_arrow(rows.schema)
    store, entry = await written(rows, compression="none", use_dictionary=False, row_group_size=20_000)
    files = source(store)
    scan = Scan([entry], schema, files, columns=["id"], where=parse_where("id = 77777"))
    assert (await scanned(scan)).to_pydict() == {"id": [77_777]}
    assert store.kinds() == {"get": 2}
    assert scan.report.pieces_read == 1
    await files.open(entry, schema)
    assert store.kinds() == {"get": 2}


async def test_another_file_in_its_place_is_refused() -> None:
    """Size and rows have to be those that the table says."""
    store, entry = await written()
    for wrong in (replace(entry, rows=999), replace(entry, size=entry.size + 1)):
        with pytest.raises(CorruptionError, match=r"another file stands in its place|cut off"):
            await source(store).open(wrong, SCHEMA)


async def test_a_file_without_rows_is_read() -> None:
    """Column chunks of a file without rows have no place, and nothing is read of them."""
    store, entry = await written(ROWS.slice(0, 0))
    assert (await scanned(Scan([entry], SCHEMA, source(store)))).num_rows == 0


async def test_columns_without_ids_may_have_several_names() -> None:
    """The names to look for are given where they are not those of the schema."""
    store, entry = await written(ROWS.select(["id", "name"]).rename_columns(["ID", "name"]))
    fields = {field.name: field for field in SCHEMA.fields}
    naming = (fields["id"], replace(fields["id"], name="ID"))
    found = await scanned(Scan([entry], SCHEMA, source(store, naming=naming), columns=["id", "name"]))
    assert found.column("id").to_pylist() == ROWS.column("id").to_pylist()
    assert found.column("name").null_count == 1_000


async def test_columns_without_any_name_are_refused() -> None:
    """Where no names are known, a file without field ids cannot be read, and one with them can."""
    store, entry = await written()
    with pytest.raises(InvalidInputError, match=r"no field ids.*give the table a name mapping"):
        await source(store, naming=()).open(entry, SCHEMA)
    fields = [pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "1"})]
    store, entry = await written(pa.table([ROWS["id"]], schema=pa.schema(fields)))
    assert len((await source(store, naming=()).open(entry, SCHEMA)).pieces) == 10


async def test_stores_that_share_caches_are_told_apart() -> None:
    """Files of one key in two places are two files."""
    caches = RunCaches(CacheBudget())
    for number in (1, 2):
        rows = pa.table({"id": [number]})
        store, entry = await written(rows)
        files = ForeignFiles(store, caches, home=f"place {number}", settings=TableSettings())
        scan = Scan([entry], schema_from_arrow(rows.schema), files)
        assert (await scanned(scan)).to_pydict() == {"id": [number]}


async def test_timestamps_of_96_bits_are_moments_of_utc() -> None:
    """Spark and Hive write them by default; every year's are read to the microsecond, by conditions too."""
    moments = [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None]
    rows = pa.table({"at": pa.array([*moments, dt.datetime(9999, 12, 31)], pa.timestamp("us"))})
    wanted = schema_from_arrow(pa.schema([("at", pa.timestamp("us", "UTC"))]))
    for part in (rows, rows.slice(1, 2)):
        store, entry = await written(part, use_deprecated_int96_timestamps=True)
        found = await scanned(Scan([entry], wanted, source(store)))
        assert found.column("at").to_pylist() == [
            one and one.replace(tzinfo=dt.UTC) for one in part.column("at").to_pylist()
        ]
        scan = Scan([entry], wanted, source(store), where=parse_where("at < '1970-01-01'"))
        assert (await scanned(scan)).num_rows == 2 - (part is not rows)
    store, entry = await written(rows, use_deprecated_int96_timestamps=True)
    local = schema_from_arrow(pa.schema([("at", pa.timestamp("us"))]))
    with pytest.raises(InvalidInputError, match=r"column 'at' is timestamp\[us, tz=UTC\] in the file"):
        await source(store).open(entry, local)
