"""Where a table's objects are: every key is made here, and taken apart here.

::

    _queries/<uuid>                                               a query that other processes may join
    _queries/<uuid>.<table's uuid>                                snapshot of a table touched after that
    <database>/_database                                          says that a database exists
    <database>/_tables/<table>                                    which directory or view a name stands for
    <database>/_views/<view>                                      a view has, or had, that name
    <database>/_history/<view>-<uuid>/version-<number>            older versions of a view
    <database>/<table>-<uuid>/                                    the directory of one table
        snapshot/snapshot-<number>  snapshot/LATEST               the log of snapshots, and a hint
        wal/wal-<number>.log                                      the write-ahead log
        manifest/manifest-<uuid>    schema/schema-<uuid>
        data/[<partition>/]bucket-<number>/<uuid>.<format>
        index/<uuid>.puffin         statistics/<uuid>.puffin     probe/probe-<uuid>
        iceberg/metadata/                                         the table as Iceberg's readers see it

Invariant: a key holds a uuid or a number of a dense log, so no object is ever written twice. A path
that does not look exactly like one that is made here is foreign, and no maintenance deletes it.
"""

from __future__ import annotations

import enum
import re
from typing import Literal

from lakehouse.ids import new_uuid

__all__ = [
    "DATABASE_MARKER",
    "DATA_PREFIX",
    "HISTORY_PREFIX",
    "LATEST",
    "PUBLISHED",
    "QUERY_PREFIX",
    "SCHEMA_PREFIX",
    "SNAPSHOT_PREFIX",
    "UUID_DIRECTORIES",
    "WAL_PREFIX",
    "WAL_SUFFIX",
    "ObjectKind",
    "database_key",
    "dense_number",
    "dense_path",
    "index_path",
    "join",
    "new_data_path",
    "new_manifest_path",
    "new_probe_path",
    "new_published_path",
    "new_schema_path",
    "new_statistics_path",
    "object_kind",
    "pointer_key",
    "pointer_prefix",
    "published_version",
    "published_version_path",
    "published_writer",
    "query_key",
    "query_key_of",
    "query_pin_key",
    "relative",
    "segment_path",
    "snapshot_path",
    "table_directory",
    "view_directory",
    "view_marker_key",
    "view_marker_prefix",
    "view_of_directory",
    "view_version_number",
    "view_version_path",
]

DATA_PREFIX = "data/"
SCHEMA_PREFIX = "schema/"
SNAPSHOT_PREFIX = "snapshot/snapshot-"
LATEST = "snapshot/LATEST"
WAL_PREFIX = "wal/wal-"
WAL_SUFFIX = ".log"
PUBLISHED = "iceberg"
"""Directory of the table as Iceberg's readers see it; its data files are those of the table."""
DATABASE_MARKER = "_database"
HISTORY_PREFIX = "_history/"
"""Directory of a database's older versions of views."""
_VERSION_PREFIX = "version-"
QUERY_PREFIX = "_queries/"
_STATISTICS_PREFIX = "statistics/"
UUID_DIRECTORIES = (DATA_PREFIX, "index/", "manifest/", SCHEMA_PREFIX, _STATISTICS_PREFIX)
"""Directories of objects that are named by a uuid, and uploaded before the commit that needs them."""

# Room for every number of 64 bits: listings are in the order of text, which is that of the numbers then.
_DIGITS = 20
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_VERSION = r"v[1-9][0-9]{0,17}\.metadata\.json"
_WRITTEN = rf"(?:snap|manifest|deletes)-[0-9]{{1,18}}-{_UUID}\.(?:avro|puffin)"


class ObjectKind(enum.StrEnum):
    """Kind of an object in a table's directory."""

    DATA = "data"
    INDEX = "index"
    """A Puffin file with the indexes of a data file."""
    STATISTICS = "statistics"
    """A Puffin file with sketches of the table's columns."""
    MANIFEST = "manifest"
    SCHEMA = "schema"
    SEGMENT = "segment"
    """A segment of the write-ahead log."""
    SNAPSHOT = "snapshot"
    HINT = "hint"
    PROBE = "probe"
    """An object left by a process that ended while it asked for the store's time."""
    PUBLISHED = "published"
    """Metadata of the table as Iceberg's readers see it."""


_PATTERNS = {
    ObjectKind.DATA: rf"{DATA_PREFIX}(?:[^/]+/)*bucket-[0-9]+/{_UUID}\.(?:parquet|sst)",
    ObjectKind.INDEX: rf"(?:data|index)/(?:[^/]+/)*{_UUID}(?:[-.][0-9a-z-]+)?\.puffin",
    ObjectKind.STATISTICS: rf"{_STATISTICS_PREFIX}{_UUID}\.puffin",
    ObjectKind.MANIFEST: rf"manifest/manifest-{_UUID}",
    ObjectKind.SCHEMA: rf"{SCHEMA_PREFIX}schema-{_UUID}",
    ObjectKind.SEGMENT: rf"{WAL_PREFIX}[0-9]{{{_DIGITS}}}{re.escape(WAL_SUFFIX)}",
    ObjectKind.SNAPSHOT: rf"{SNAPSHOT_PREFIX}[0-9]{{{_DIGITS}}}",
    ObjectKind.HINT: re.escape(LATEST),
    ObjectKind.PROBE: rf"probe/probe-{_UUID}",
    ObjectKind.PUBLISHED: rf"{PUBLISHED}/metadata/(?:{_VERSION}|version-hint\.text|{_WRITTEN})",
}
_ALL = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))


def object_kind(path: str) -> ObjectKind | None:
    """Returns the kind of the object at a path in the table's directory; None = it is foreign."""
    found = _ALL.fullmatch(path)
    return ObjectKind(found.lastgroup) if found is not None and found.lastgroup else None


def join(root: str, path: str) -> str:
    """Joins a directory's key and a path in it; the directory may be the store's root."""
    return f"{root}/{path}" if root else path


def relative(root: str, key: str) -> str:
    """The path of a key in a directory: ``relative(root, join(root, path)) == path``."""
    return key[len(root) + 1 :] if root else key


def dense_path(prefix: str, number: int, suffix: str = "") -> str:
    """Path or key of an object of a dense log."""
    return f"{prefix}{number:0{_DIGITS}}{suffix}"


def dense_number(prefix: str, path: str, suffix: str = "") -> int | None:
    """The number that :func:`dense_path` made the path of; None for a foreign object."""
    digits = path[len(prefix) : len(path) - len(suffix)]
    # By itself isdigit takes digits of every script, and no key that is made here has those.
    well_formed = len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if well_formed and path == dense_path(prefix, int(digits), suffix) else None


def snapshot_path(number: int) -> str:
    """Returns the path of a snapshot, relative to the table's directory."""
    return dense_path(SNAPSHOT_PREFIX, number)


def segment_path(number: int) -> str:
    """Path of a segment of the write-ahead log, relative to the table's directory."""
    return dense_path(WAL_PREFIX, number, WAL_SUFFIX)


def new_data_path(partition: str, bucket: int, extension: str) -> str:
    """Path of a data file, relative to the table's directory.

    Args:
        partition: folder of its partition; empty in a table without partitions.
        bucket: its bucket.
        extension: its format.
    """
    parts = [f"bucket-{bucket}", f"{new_uuid()}.{extension}"]
    return DATA_PREFIX + "/".join([partition, *parts] if partition else parts)


def index_path(uuid_text: str) -> str:
    """Returns the path of an index file, relative to the table's directory."""
    return f"index/{uuid_text}.puffin"


def new_statistics_path() -> str:
    """Path of a file with statistics of columns, relative to the table's directory."""
    return f"{_STATISTICS_PREFIX}{new_uuid()}.puffin"


def new_schema_path() -> str:
    """Path of a schema object, relative to the table's directory."""
    return f"{SCHEMA_PREFIX}schema-{new_uuid()}"


def new_manifest_path() -> str:
    """Path of a manifest, relative to the table's directory."""
    return f"manifest/manifest-{new_uuid()}"


def new_probe_path() -> str:
    """Path of an object that is written to learn the store's time, relative to the table's directory."""
    return f"probe/probe-{new_uuid()}"


def published_version_path(version: int | None) -> str:
    """Path of a version of the published metadata, relative to the table's directory; None = of the hint."""
    name = "version-hint.text" if version is None else f"v{version}.metadata.json"
    return f"{PUBLISHED}/metadata/{name}"


def published_version(path: str) -> int | None:
    """Returns the version that :func:`published_version_path` made the path of; None for other objects."""
    name = path.removeprefix(f"{PUBLISHED}/metadata/")
    return int(name[1:].partition(".")[0]) if re.fullmatch(_VERSION, name) else None


def new_published_path(kind: Literal["snap", "manifest", "deletes"], snapshot: int, extension: str) -> str:
    """Path of an object that published metadata refer to, relative to the table's directory.

    Args:
        kind: manifest list, manifest or deletion vectors.
        snapshot: id of the snapshot for which it is written.
        extension: its format.
    """
    return f"{PUBLISHED}/metadata/{kind}-{snapshot}-{new_uuid()}.{extension}"


def published_writer(path: str) -> int | None:
    """Returns the snapshot that :func:`new_published_path` was given; None for other objects."""
    name = path.removeprefix(f"{PUBLISHED}/metadata/")
    return int(name.split("-")[1]) if re.fullmatch(_WRITTEN, name) else None


def table_directory(database: str, table: str, uuid_text: str) -> str:
    """Directory of one incarnation of a table, relative to the warehouse."""
    return f"{database}/{table}-{uuid_text[:8]}"


def pointer_prefix(database: str) -> str:
    """Prefix of the keys of a database's name pointers."""
    return f"{database}/_tables/"


def pointer_key(database: str, table: str) -> str:
    """Key of a table's name pointer, relative to the warehouse."""
    return pointer_prefix(database) + table


def query_key(uuid_text: str) -> str:
    """Key of a shared query, relative to the warehouse."""
    return QUERY_PREFIX + uuid_text


def query_pin_key(query: str, table: str) -> str:
    """Key of the pin of a table that a shared query touched late, relative to the warehouse."""
    return f"{query_key(query)}.{table}"


def query_key_of(key: str) -> str:
    """Key of the shared query that an object below ``_queries/`` belongs to."""
    return key.partition(".")[0]


def database_key(database: str) -> str:
    """Key of the object whose existence makes a database exist, relative to the warehouse."""
    return f"{database}/{DATABASE_MARKER}"


def view_marker_prefix(database: str) -> str:
    """Prefix of the keys that say which names a listing of a database's views has to look at."""
    return f"{database}/_views/"


def view_marker_key(database: str, view: str) -> str:
    """Key of the object that exists if a view has, or had, a name; relative to the warehouse."""
    return view_marker_prefix(database) + view


def view_directory(database: str, view: str, uuid_text: str) -> str:
    """Directory of the older versions of a view, relative to the warehouse."""
    return f"{database}/{HISTORY_PREFIX}{view}-{uuid_text}"


def view_of_directory(directory: str) -> tuple[str, str] | None:
    """Returns the name and uuid that :func:`view_directory` was given; None for other directories."""
    found = re.fullmatch(rf"[^/]+/{HISTORY_PREFIX}([^/]+)-([0-9a-f]{{32}})/?", directory)
    return (found[1], found[2]) if found is not None else None


def view_version_path(number: int) -> str:
    """Path of a version of a view, relative to its directory."""
    return dense_path(_VERSION_PREFIX, number)


def view_version_number(path: str) -> int | None:
    """Returns the number that :func:`view_version_path` made the path of; None for a foreign object."""
    return dense_number(_VERSION_PREFIX, path)
