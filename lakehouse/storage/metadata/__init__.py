"""Metadata of a table in its bucket: where each object is, and how it is read, kept and written.

Words: *path* (key within a table's directory) → *dense log* (objects numbered without gaps) → *snapshot* →
*manifest* → *entry*. A *run* is the files of one interval of positions, a *merge unit* the runs that may
share keys. The *store's clock* is the one that times of snapshots are of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.metadata.caches import RunCaches, TableCaches
    from lakehouse.storage.metadata.manifests import with_position
    from lakehouse.storage.metadata.name_listing import ListedPointer, NameListing
    from lakehouse.storage.metadata.paths import (
        DATA_PREFIX,
        DATABASE_MARKER,
        PUBLISHED,
        QUERY_PREFIX,
        join,
        new_published_path,
        published_version,
        published_version_path,
        published_writer,
        query_key,
        query_key_of,
        query_pin_key,
        relative,
    )
    from lakehouse.storage.metadata.run_order import Interval, covered_intervals, interval, units_of
    from lakehouse.storage.metadata.statistics_file import (
        StatisticsFooter,
        has_rows_of,
        read_statistics,
    )
    from lakehouse.storage.metadata.table_name import (
        INFORMATION_SCHEMA,
        TableName,
        check_name,
        check_not_system,
    )

__all__ = [
    "DATABASE_MARKER", "DATA_PREFIX", "INFORMATION_SCHEMA", "PUBLISHED", "QUERY_PREFIX", "Interval",
    "ListedPointer", "NameListing", "RunCaches", "StatisticsFooter", "TableCaches", "TableName",
    "check_name", "check_not_system", "covered_intervals", "has_rows_of", "interval", "join",
    "new_published_path", "published_version", "published_version_path", "published_writer", "query_key",
    "query_key_of", "query_pin_key", "read_statistics", "relative", "units_of", "with_position",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "caches": "RunCaches TableCaches",
        "manifests": "with_position",
        "name_listing": "ListedPointer NameListing",
        "paths": (
            "DATABASE_MARKER DATA_PREFIX PUBLISHED QUERY_PREFIX join new_published_path "
            "published_version published_version_path published_writer query_key query_key_of query_pin_key "
            "relative"
        ),
        "run_order": "Interval covered_intervals interval units_of",
        "statistics_file": "StatisticsFooter has_rows_of read_statistics",
        "table_name": "INFORMATION_SCHEMA TableName check_name check_not_system",
    },
)
