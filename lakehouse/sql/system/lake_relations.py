"""Relations of a lake as a whole: catalogs, settings, statistics of caches, and jobs under way."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakehouse.catalog import PlannerGraph
from lakehouse.config import Settings
from lakehouse.io.work import BackgroundJob
from lakehouse.sql.system.masking import place_masked

__all__ = ["CATALOGS", "JOBS", "SETTINGS", "catalog_rows", "job_rows", "setting_rows"]

_TEXT = pa.string()
CATALOGS = pa.schema({"catalog_name": _TEXT, "connector": _TEXT, "place": _TEXT})
"""A row for each catalog: the warehouse, whose name is empty, and those that are attached."""
SETTINGS = pa.schema({"name": _TEXT, "value": _TEXT, "default": _TEXT, "type": _TEXT, "description": _TEXT})
"""A row for each setting."""
JOBS = pa.schema(
    {"job": _TEXT, "database_name": _TEXT, "table_name": _TEXT, "began": pa.timestamp("ms", tz="UTC")}
)
"""A row for each job that works beside others."""


def catalog_rows(graph: PlannerGraph) -> pa.Table:
    """Returns a row for each catalog that the account has; none is contacted."""
    sources = [graph.sources.get(name) for name in graph.sources.names]
    rows = [
        {"catalog_name": source.name, "connector": source.connector, "place": source.display}
        for source in sources
    ]
    return pa.Table.from_pylist(rows, CATALOGS)


def setting_rows(settings: Settings, *, is_masked: bool) -> pa.Table:
    """Returns a row for each setting, with the value that holds and the default."""
    values = settings.as_dict()
    hide = place_masked if is_masked else str
    rows = [
        {
            "name": info.name,
            "value": hide(_shown(values[info.name])),
            "default": _shown(info.default),
            "type": info.type,
            "description": info.doc,
        }
        for info in settings.describe()
    ]
    return pa.Table.from_pylist(rows, SETTINGS)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def job_rows(jobs: Sequence[BackgroundJob], graph: PlannerGraph) -> pa.Table:
    """Returns a row for each job of a table that the account sees."""
    rows = []
    for job in jobs:
        database, _, table = job.table.partition(".")
        if await graph.exists((database, table)):
            named = {"database_name": database, "table_name": table}
            rows.append({"job": job.name, **named, "began": job.began_ms})
    return pa.Table.from_pylist(rows, JOBS)
