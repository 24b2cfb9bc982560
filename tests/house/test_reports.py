"""What public calls return can be named by whoever annotates with it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import lakehouse
from lakehouse import catalog, iceberg, reports
from lakehouse.lake import Lake
from lakehouse.sql import session as sql_session
from lakehouse.storage.scan.table_scan import TableScan
from lakehouse.storage.table import Table
from lakehouse.storage.write.streaming_writer import TableWriter
from tests.house.source_tree import library, none_of

OURS = frozenset(
    name for module in library() for name in re.findall(r"^class (\w+)", module.text, re.MULTILINE)
)
INNER = frozenset({"CacheBudget", "ManifestSource", "OpenTable", "Reading"})
"""For engines built on this one."""


def returned() -> Iterator[tuple[str, str]]:
    """Our classes that public methods return, with the method."""
    iceberg_owners = (iceberg.IcebergPlan, iceberg.IcebergScan, iceberg.IcebergTable)
    for owner in (Lake, Table, TableScan, TableWriter, *iceberg_owners):
        for name, member in inspect.getmembers(owner):
            function = member.fget if isinstance(member, property) else member
            said = getattr(function, "__annotations__", {}).get("return", "")
            if not name.startswith("_"):
                yield from ((f"{owner.__name__}.{name}", word) for word in re.findall(r"\w+", str(said)))


def test_whatever_is_returned_can_be_imported() -> None:
    """A class that a public method returns is a name of lakehouse or of a part or room that users import."""
    known = {
        *sql_session.__all__,
        *lakehouse.__all__,
        *reports.__all__,
        *iceberg.__all__,
        *catalog.__all__,
        *INNER,
    }
    none_of(
        (f"{where} returns {name}" for where, name in returned() if name in OURS - known),
        "not in lakehouse, lakehouse.reports, .catalog, .iceberg or .sql.session:",
    )
    assert ("Table.compact", "CompactResult") in set(returned())
