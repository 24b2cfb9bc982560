"""Iceberg tables without await: opened by themselves or through a lake's catalog, planned and scanned."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakehouse.sync
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.iceberg import IcebergPlan
from lakehouse.sync import iceberg
from tests.iceberg.catalogs.test_through_pyiceberg import ROWS, sql_table


def _directory(tmp_path: Path) -> tuple[dict[str, str], str]:
    """Properties of a catalog, and the directory of its only table."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    (found,) = (tmp_path / "warehouse").rglob("metadata")
    return properties, str(found.parent)


def _sorted(rows: pa.Table) -> dict[str, list[object]]:
    return rows.take(pc.sort_indices(rows["id"])).to_pydict()


def _threads() -> int:
    return sum(thread.name == "lakehouse-sync" for thread in threading.enumerate())


def test_a_table_is_opened_planned_and_read(tmp_path: Path) -> None:
    """Everything that is awaited elsewhere is called here, and leaving the table ends its thread."""
    _, directory = _directory(tmp_path)
    before = _threads()
    with iceberg.open(directory) as table:
        assert isinstance(table, iceberg.IcebergTable)
        assert table.schema().names == ROWS.schema.names
        plan = table.plan("id > 1")
        assert isinstance(plan, IcebergPlan)
        assert len(plan) == 1
        assert len(table.plan("id > 7")) == 0
        assert table.files().num_rows == table.snapshots().num_rows == 1
        scan = table.scan("id > 1")
        assert len(scan.plan()) == 1
        assert _sorted(scan.to_arrow())["id"] == [2, 3]
        assert sum(batch.num_rows for batch in table.scan().batches()) == ROWS.num_rows
        assert _threads() == before + 1
    assert _threads() == before
    with pytest.raises(InvalidInputError, match="closed"):
        table.files()


def test_a_table_may_be_closed_by_hand(tmp_path: Path) -> None:
    """Without ``with`` a table works too, and ``close`` ends it."""
    _, directory = _directory(tmp_path)
    before = _threads()
    table = iceberg.open(directory)
    assert _sorted(table.scan().to_arrow()) == ROWS.to_pydict()
    table.close()
    assert _threads() == before


def test_what_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    """The error of the opening is raised, and the thread that was begun for it has ended."""
    before = _threads()
    with pytest.raises(NotFoundError, match="no metadata"):
        iceberg.open(str(tmp_path))
    assert _threads() == before


def test_a_lake_gives_tables_of_catalogs(tmp_path: Path) -> None:
    """``lake.table`` gives blocking tables of both kinds; leaving one of a catalog leaves the lake open."""
    properties, _ = _directory(tmp_path)
    with lakehouse.sync.connect(f"memory://sync-iceberg/{tmp_path.name}") as lake:
        lake.create_database("own")
        lake.create_table("own.t", ROWS.schema)
        lake.attach_catalog("ice", properties)
        assert lake.catalogs() == ["ice"]
        assert list(lake.tables("ice.web")) == ["ice.web.events"]
        assert isinstance(lake.table("own.t"), lakehouse.sync.Table)
        with lake.table("ice.web.events") as table:
            assert isinstance(table, iceberg.IcebergTable)
            assert _sorted(table.scan().to_arrow()) == ROWS.to_pydict()
        with pytest.raises(InvalidInputError, match="closed"):
            table.refresh()
        assert lake.table("ice.web.events").name == "ice.web.events"
        lake.detach_catalog("ice")
        assert lake.catalogs() == []
