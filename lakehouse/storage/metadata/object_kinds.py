"""Which of a table's objects a path names: the one place that tells ours from foreign ones.

Invariant: a path that does not look exactly like one we write is foreign, and no maintenance deletes it.
"""

from __future__ import annotations

import enum
import re

from lakehouse.storage.metadata.paths import LATEST, SNAPSHOT_PREFIX

__all__ = ["ObjectKind", "object_kind", "snapshot_path"]

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class ObjectKind(enum.StrEnum):
    """What an object in a table's directory is."""

    DATA = "data"
    INDEX = "index"
    """A puffin file."""
    MANIFEST = "manifest"
    SCHEMA = "schema"
    SEGMENT = "segment"
    """Of the write-ahead log."""
    SNAPSHOT = "snapshot"
    HINT = "hint"
    PROBE = "probe"
    """Left behind by a process that ended while it asked for the store's time."""


_PATTERNS = {
    ObjectKind.DATA: rf"data/(?:[^/]+/)*bucket-[0-9]+/{_UUID}\.(?:parquet|sst)",
    ObjectKind.INDEX: rf"(?:data|index)/(?:[^/]+/)*{_UUID}(?:[-.][0-9a-z-]+)?\.puffin",
    ObjectKind.MANIFEST: rf"manifest/manifest-{_UUID}",
    ObjectKind.SCHEMA: rf"schema/schema-{_UUID}",
    ObjectKind.SEGMENT: r"wal/wal-[0-9]{20}\.log",
    ObjectKind.SNAPSHOT: r"snapshot/snapshot-[0-9]{20}",
    ObjectKind.HINT: re.escape(LATEST),
    ObjectKind.PROBE: rf"probe/probe-{_UUID}",
}
_ALL = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))


def object_kind(path: str) -> ObjectKind | None:
    """What the object of that path, relative to the table's directory, is; None = it is foreign."""
    found = _ALL.fullmatch(path)
    return ObjectKind(found.lastgroup) if found is not None and found.lastgroup else None


def snapshot_path(number: int) -> str:
    """Path of a snapshot, relative to the table's directory."""
    return f"{SNAPSHOT_PREFIX}{number:020}"
