"""Registry of system tables: which provider a name stands for, and near names where it stands for none.

::

    system.files                of every table that the account sees, with columns that name the table
    sales.orders$files          of one table, at the snapshot that the statement reads
    information_schema.tables   as the catalog computes it; ssts_index_meta in GreptimeDB's shape
    index_metas('s3://…')       of whatever lies below a URL
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import pyarrow as pa

from lakehouse.catalog import LakeCache, PlannerGraph, Query
from lakehouse.catalog.layers import STATISTICS_SCHEMA
from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.system import SystemWarning
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.excerpt import short
from lakehouse.index import IndexSource
from lakehouse.io.work import BackgroundJob
from lakehouse.sql.providers import TableProvider
from lakehouse.sql.system.complaints import Complaints
from lakehouse.sql.system.index_function import IndexMetasProvider
from lakehouse.sql.system.lake_relations import (
    CATALOGS,
    JOBS,
    SETTINGS,
    catalog_rows,
    job_rows,
    setting_rows,
)
from lakehouse.sql.system.providers import (
    AllTablesProvider,
    InformationProvider,
    LoadedProvider,
    OneTableProvider,
)
from lakehouse.sql.system.table_relations import SSTS_INDEX_META, TABLE_RELATIONS
from lakehouse.suggest import suggestion

__all__ = ["SystemHost", "SystemTables"]

_SYSTEM, _INFORMATION = "system", "information_schema"
_FUNCTION_ARGUMENTS = ("concurrency",)
_LAKE_SCHEMAS = {"catalogs": CATALOGS, "jobs": JOBS, "settings": SETTINGS}
_STATISTICS = "cache_statistics"
_SSTS = SSTS_INDEX_META.name
_PARTS = 2


class SystemHost(Protocol):
    """Lake, as one account has it, that system tables tell of."""

    @property
    def graph(self) -> PlannerGraph:
        """Metadata graph of the account."""
        ...

    @property
    def cache(self) -> LakeCache:
        """Caches, as the account sees them."""
        ...

    @property
    def settings(self) -> Settings:
        """Bounds and defaults; ``sql.mask_locations`` is for all system tables."""
        ...

    @property
    def jobs(self) -> Sequence[BackgroundJob]:
        """Jobs under way."""
        ...

    def index_source(self, url: str) -> AbstractAsyncContextManager[IndexSource]:
        """Opens the index files below a URL; refused where statements may not name any."""
        ...


class SystemTables:
    """System tables of one statement.

    Args:
        host: lake that they tell of.
        query: pins the tables of ``table$relation``; None = such names are refused.
    """

    def __init__(self, host: SystemHost, query: Query | None = None) -> None:
        self._host, self._query = host, query
        self._complaints = Complaints(is_masked=host.settings.sql.mask_locations)

    @property
    def warnings(self) -> Sequence[SystemWarning]:
        """Rows that are missing, so far: tables that could not be read, and why."""
        return self._complaints.found

    def provider(self, path: RelationPath) -> TableProvider | None:
        """Returns the provider of a name; None where it is none of the system. Makes no request.

        Args:
            path: parts of the name; of ``table$relation`` those of a full name.

        Raises:
            NotFoundError: the name is one of the system's, and there is no such table.
        """
        base, dollar, relation = path[-1].rpartition("$")
        if dollar:
            return self._of_one((*path[:-1], base), relation.lower())
        place = path[0].lower() if len(path) == _PARTS else ""
        if place == _INFORMATION:
            return self._of_information(path[-1].lower())
        return self._of_all(path[-1].lower()) if place == _SYSTEM else None

    def columns(self, path: RelationPath) -> pa.Schema | None:
        """Returns the columns of a name; None where it is none of the system."""
        found = self.provider(path)
        return None if found is None else found.schema

    def function(self, name: str, url: str, **arguments: object) -> TableProvider | None:
        """Returns the provider of a table function; None where there is none of that name.

        Args:
            name: of the function: ``index_metas``.
            url: its first argument.
            arguments: named ones: ``concurrency``.
        """
        if name.lower() != "index_metas":
            return None
        for one in arguments:
            if one not in _FUNCTION_ARGUMENTS:
                known = suggestion(one, _FUNCTION_ARGUMENTS)
                raise InvalidInputError(f"index_metas takes no argument {one!r}; {known}", argument=one)
        return IndexMetasProvider(
            url,
            self._host.index_source,
            settings=self._host.settings,
            concurrency=_checked_count(arguments.get("concurrency")),
            complaints=self._complaints,
        )

    def _of_one(self, path: RelationPath, name: str) -> TableProvider:
        relation = TABLE_RELATIONS.get(name)
        if relation is None:
            raise _missing(f"{'.'.join(path)}${name}", name, TABLE_RELATIONS)
        if self._query is None:
            raise InvalidInputError(f"{'.'.join(path)}${name} is read in a statement, which pins the table")
        graph, complaints = self._host.graph, self._complaints
        return OneTableProvider(relation, self._query, path, graph=graph, complaints=complaints)

    def _of_information(self, name: str) -> TableProvider:
        graph, complaints = self._host.graph, self._complaints
        if name == _SSTS:
            return AllTablesProvider(SSTS_INDEX_META, graph=graph, complaints=complaints, is_named=False)
        schema = graph.system_rows(f"{_INFORMATION}.{name}").schema
        return InformationProvider(name, schema, graph=graph, complaints=complaints)

    def _of_all(self, name: str) -> TableProvider:
        relation = TABLE_RELATIONS.get(name)
        if relation is not None:
            return AllTablesProvider(relation, graph=self._host.graph, complaints=self._complaints)
        if name == _STATISTICS:
            return self._loaded(STATISTICS_SCHEMA, self._statistics, "last_error")
        if name not in _LAKE_SCHEMAS:
            raise _missing(f"{_SYSTEM}.{name}", name, [known[-1] for known in self.names()])
        load = {"catalogs": self._catalogs, "jobs": self._jobs, "settings": self._settings}[name]
        return self._loaded(_LAKE_SCHEMAS[name], load, "place")

    def _loaded(
        self, schema: pa.Schema, load: Callable[[], Awaitable[pa.Table]], *locations: str
    ) -> TableProvider:
        return LoadedProvider(schema, load, locations if self._complaints.is_masked else ())

    async def _catalogs(self) -> pa.Table:
        return catalog_rows(self._host.graph)

    async def _settings(self) -> pa.Table:
        return setting_rows(self._host.settings, is_masked=self._complaints.is_masked)

    async def _statistics(self) -> pa.Table:
        return self._host.cache.stats()

    async def _jobs(self) -> pa.Table:
        return await job_rows(self._host.jobs, self._host.graph)

    @staticmethod
    def names() -> Iterator[RelationPath]:
        """Yields the full names of system tables, in order."""
        for name in sorted({*TABLE_RELATIONS, *_LAKE_SCHEMAS, _STATISTICS}):
            yield _SYSTEM, name

    @staticmethod
    def relations_of_tables() -> Sequence[str]:
        """Returns what may stand behind the ``$`` of ``table$relation``, in order."""
        return sorted(TABLE_RELATIONS)


def _missing(shown: str, name: str, known: Iterable[str]) -> NotFoundError:
    return NotFoundError(f"there is no {shown}; {suggestion(name, known)}", missing="table", name=shown)


def _checked_count(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise InvalidInputError(f"concurrency is a number of files above 0, not {short(value)}")
