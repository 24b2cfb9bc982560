"""Where a table's objects are: every key is made here, and taken apart here.

Invariant: a key holds a uuid or a number of a dense log, so no object is ever written twice.
"""

from __future__ import annotations

from lakehouse.ids import new_uuid

__all__ = [
    "DATABASE_MARKER",
    "LATEST",
    "SNAPSHOT_PREFIX",
    "WAL_PREFIX",
    "WAL_SUFFIX",
    "database_key",
    "join",
    "new_manifest_path",
    "new_probe_path",
    "new_schema_path",
    "pointer_key",
    "pointer_prefix",
    "table_directory",
]

SNAPSHOT_PREFIX = "snapshot/snapshot-"
LATEST = "snapshot/LATEST"
WAL_PREFIX = "wal/wal-"
WAL_SUFFIX = ".log"
DATABASE_MARKER = "_database"


def join(root: str, path: str) -> str:
    """The key of a path in a directory; the directory may be the store's root."""
    return f"{root}/{path}" if root else path


def new_schema_path() -> str:
    """Path of a schema object, relative to the table's directory."""
    return f"schema/schema-{new_uuid()}"


def new_manifest_path() -> str:
    """Path of a manifest, relative to the table's directory."""
    return f"manifest/manifest-{new_uuid()}"


def new_probe_path() -> str:
    """Path of an object that is written to learn the store's time, relative to the table's directory."""
    return f"probe/probe-{new_uuid()}"


def table_directory(database: str, table: str, uuid_text: str) -> str:
    """Directory of one incarnation of a table, relative to the warehouse."""
    return f"{database}/{table}-{uuid_text[:8]}"


def pointer_prefix(database: str) -> str:
    """What the keys of a database's name pointers begin with."""
    return f"{database}/_tables/"


def pointer_key(database: str, table: str) -> str:
    """Key of a table's name pointer, relative to the warehouse."""
    return pointer_prefix(database) + table


def database_key(database: str) -> str:
    """Key of the object that says a database exists, relative to the warehouse."""
    return f"{database}/{DATABASE_MARKER}"
