"""``lakehouse iceberg publish``, as a person gives it."""

from __future__ import annotations

import json

from tests.cli.tables.test_commands import Run, orders, run, warehouse  # noqa: F401 - fixtures
from tests.kit.published import iceberg_rows

NAME = "sales.orders"


def test_publish_names_what_to_open(orders: str, run: Run) -> None:  # noqa: F811
    """The sentence ends with the metadata file, which another program can read; JSON has it as a member."""
    done = run("iceberg", "publish", orders, NAME)
    assert "published" in done.out
    members = json.loads(run("iceberg", "publish", orders, NAME, "--json").out)
    assert members["changed"] is False
    assert members["metadata"] in done.out.replace("\n", "")
    assert len(iceberg_rows(members["metadata"])) == members["rows"]


def test_a_dry_run_publishes_nothing(orders: str, run: Run) -> None:  # noqa: F811
    """With ``--dry-run`` the lag is told, and there is nothing to open afterwards."""
    members = json.loads(run("iceberg", "publish", orders, NAME, "--dry-run", "--json").out)
    assert (members["dry_run"], members["version"], members["metadata"]) == (True, 0, "")
    assert "lag" in members


def test_versions_are_2_and_3(orders: str, run: Run) -> None:  # noqa: F811
    """Another version of the format is wrong usage."""
    assert run("iceberg", "publish", orders, NAME, "--format-version", 4).code == 2
