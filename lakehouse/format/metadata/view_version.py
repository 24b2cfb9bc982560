"""Versions of views: the SQL that a name stands for, as one object or as a part of the name's pointer.

Invariant: a version never changes, and a view has one version of each number.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.format.limits.json_object import (
    JsonObject,
    count,
    each,
    moment,
    optional,
    table_of,
    text,
    unique_id,
)
from lakehouse.format.metadata.sealed_json import SealedFormat

__all__ = ["ViewVersion", "decode_view_version", "encode_view_version", "view_from_json", "view_to_json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewVersion:
    """A version of a view: its SQL, and what was said of it."""

    view: uuid.UUID
    number: int
    """Number of the version, from 1."""
    time_ms: int
    """Time at which it was made, in milliseconds since 1970."""
    texts: Mapping[str, str] = field(hash=False)
    """SQL by dialect."""
    columns: tuple[str, ...] = ()
    """Names of the output columns; empty = those of the SQL."""
    depends_on: tuple[str, ...] | None = None
    """Full names of the relations that it reads; None = not known."""
    search_path: tuple[str, ...] = ()
    """Namespaces in which names without one are looked for."""
    owner: str | None = None
    comment: str | None = None


def encode_view_version(version: ViewVersion) -> bytes:
    """Encodes the object."""
    return _VERSION.encode(version)


def decode_view_version(data: bytes, *, key: str) -> ViewVersion:
    """Decodes the object; ``key`` is named in errors."""
    return _VERSION.decode(data, key=key)


def view_to_json(version: ViewVersion) -> dict[str, Any]:
    """Returns the members of a version."""
    return {
        "view": str(version.view),
        "version": version.number,
        "time_ms": version.time_ms,
        "sql": dict(version.texts),
        "columns": list(version.columns),
        "depends_on": None if version.depends_on is None else list(version.depends_on),
        "search_path": list(version.search_path),
        "owner": version.owner,
        "comment": version.comment,
    }


def view_from_json(members: JsonObject) -> ViewVersion:
    """Returns the version that members say."""
    texts = members.read("sql", table_of(text))
    if not texts:
        raise members.wrong("sql", "SQL in one dialect or more", texts)
    return ViewVersion(
        view=members.read("view", unique_id),
        number=members.read("version", count),
        time_ms=members.read("time_ms", moment),
        texts=texts,
        columns=members.read("columns", each(text), ()),
        depends_on=members.read("depends_on", optional(each(text)), None),
        search_path=members.read("search_path", each(text), ()),
        owner=members.read("owner", optional(text), None),
        comment=members.read("comment", optional(text), None),
    )


_VERSION = SealedFormat(what="version of a view", to_json=view_to_json, from_json=view_from_json)
