"""``lakehouse iceberg describe|files|snapshots``, as a person gives them."""

from __future__ import annotations

import json
from collections import Counter

from tests.cli.iceberg.test_plan import events  # noqa: F401 - fixture
from tests.cli.tables.test_commands import Run, run  # noqa: F401 - fixture


def test_a_table_is_described(events: str, run: Run) -> None:  # noqa: F811
    """Columns, partition specs, properties and size are told to people and to programs."""
    told = json.loads(run("iceberg", "describe", events, "--json").out)
    assert [column["name"] for column in told["columns"]] == ["id", "at", "city"]
    fields = [{"name": "at_day", "transform": "day", "columns": ["at"]}]
    assert (told["format_version"], told["partition_specs"]) == (2, {"0": fields})
    assert (told["snapshot"], told["snapshots"]) == (3, 3)
    shown = run("iceberg", "describe", events).out
    assert "partition spec 0: at_day = day of at" in shown
    assert "timestamp" in shown


def test_files_are_listed(events: str, run: Run) -> None:  # noqa: F811
    """Live data files of a snapshot are rows, of the newest or of the one that is chosen."""
    lines = run("iceberg", "files", events, "--json").lines
    assert Counter(str(line["partition"]["at_day"]) for line in lines) == {
        "2024-01-01": 10,
        "2024-01-02": 10,
        "2024-01-03": 10,
    }
    assert len(run("iceberg", "files", events, "--snapshot", 1, "--json").lines) == 10
    assert "at_day=2024-01-02" in run("iceberg", "files", events).out


def test_snapshots_are_listed(events: str, run: Run) -> None:  # noqa: F811
    """Snapshots are rows, oldest first, the last of them with its branch."""
    lines = run("iceberg", "snapshots", events, "--json").lines
    assert [line["snapshot"] for line in lines] == [1, 2, 3]
    assert [line["refs"] for line in lines] == [[], [], ["main"]]
    assert "main" in run("iceberg", "snapshots", events).out
