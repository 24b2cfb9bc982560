"""Source: the calls that every catalog answers, and the values that it answers with.

A source answers as of the call and keeps nothing but connections: what is kept, and for how long, is decided
by the layers above it. Errors are those of the engine: NotFoundError with the fact ``missing`` (``namespace``
or ``table``) where something is not there, UnavailableError where the catalog cannot be reached.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import NO_SUMMARY, RelationPath, TableSummary

__all__ = [
    "CatalogSource",
    "ListedName",
    "Page",
    "Pointer",
    "SnapshotFacts",
    "TableFacts",
    "ViewFacts",
    "catalog_tag",
    "unread_pointer",
]

_NOBODY = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedName:
    """A relation as a listing has it; nothing of it was read."""

    path: RelationPath
    kind: NodeKind | None = None
    """Table or view; None = the listing does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a listing, in order of the names."""

    entries: tuple[ListedName, ...]
    after: str | None = None
    """Name after which the next page begins; None = this is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """State that a name stood for at one moment."""

    path: RelationPath
    kind: NodeKind
    identity: uuid.UUID
    """Incarnation: a relation that was dropped and made again has another."""
    version: str
    """State: whatever is read through pointers of one identity and version is the same, for ever. Empty = the
    name alone was looked at."""
    content_key: tuple[str, ...]
    """Key under which accounts may share content: identity, version, and whose credentials reach it."""
    location: str
    """URL of the directory, or the empty text."""
    handle: Any = field(default=None, compare=False, repr=False)
    """The source's own, such as a table that it has open; holds no credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """A snapshot, as the list of snapshots has it."""

    id: int
    parent: int | None
    time_ms: int
    schema_id: int
    operation: str
    summary: TableSummary = NO_SUMMARY
    token: str | None = None
    """Token of the commit that made it; None where the catalog has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """Facts that a version of a table says of it."""

    format: str
    schema_id: int
    schema_json: str
    field_ids: Mapping[str, int]
    primary_key: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    current_snapshot: int | None = None
    previous_snapshot: int | None = None
    references: Mapping[str, int] = field(default_factory=dict)
    """Snapshots by the name of a tag or branch."""
    summary: TableSummary = NO_SUMMARY
    updated_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewFacts:
    """Facts that a version of a view says of it."""

    sql: str
    dialect: str
    texts: Mapping[str, str] = field(default_factory=dict)
    """SQL by dialect, for views that are written in several."""
    columns: tuple[str, ...] = ()
    base_relations: tuple[str, ...] = ()
    search_path: tuple[str, ...] = ()
    owner: str | None = None
    updated_ms: int | None = None


def catalog_tag(name: str) -> tuple[Hashable, ...]:
    """Returns the tag of content that was read through a catalog of some name."""
    return ("catalog", name)


def unread_pointer(path: RelationPath) -> Pointer:
    """Returns the pointer of a name that nobody looked at."""
    return Pointer(path=path, kind=NodeKind.TABLE, identity=_NOBODY, version="", content_key=(), location="")


class CatalogSource(Protocol):
    """A catalog that the graph can ask."""

    @property
    def name(self) -> str:
        """Name it is attached under; empty for the warehouse."""
        ...

    @property
    def connector(self) -> str:
        """Sort of catalog, such as ``lakehouse`` or ``rest``."""
        ...

    @property
    def display(self) -> str:
        """Place, for people; without credentials."""
        ...

    async def namespaces(self, inside: RelationPath = ()) -> list[RelationPath]:
        """Lists the namespaces directly inside another, in order."""
        ...

    async def page(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None, limit: int
    ) -> Page:
        """Lists a page of tables and views of a namespace; loads none of them.

        A catalog that lists all names at once returns them all, however many are asked for.
        """
        ...

    def names(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[RelationPath, None]:
        """Yields the tables and views of a namespace, in order, each of which was there a moment ago."""
        ...

    async def identify(self, path: RelationPath) -> Pointer | None:
        """Reads what a name stands for now, without its version; None where that saves no request."""
        ...

    async def pointer(self, path: RelationPath) -> Pointer:
        """Reads what a name stands for now, with its version."""
        ...

    async def renew(self, pointer: Pointer) -> Pointer:
        """Reads the version that a relation has now; its name need not be read again."""
        ...

    async def locate(self, identity: uuid.UUID) -> RelationPath | None:
        """Finds the name of an incarnation that was never met; None where the catalog cannot tell."""
        ...

    async def table(self, pointer: Pointer) -> TableFacts:
        """Reads what a version of a table says of it."""
        ...

    async def view(self, pointer: Pointer) -> ViewFacts:
        """Reads what a version of a view says of it."""
        ...

    async def snapshots(self, pointer: Pointer) -> tuple[SnapshotFacts, ...]:
        """Reads the list of snapshots, oldest first."""
        ...

    async def snapshot(
        self,
        pointer: Pointer,
        *,
        number: int | None = None,
        as_of_ms: int | None = None,
    ) -> SnapshotFacts:
        """Reads one snapshot: by its id, or the last that is not after a time."""
        ...

    async def schema(self, pointer: Pointer, *, snapshot: int) -> TableFacts:
        """Reads the schema that a snapshot has, with all that depends on it."""
        ...

    async def open(self, pointer: Pointer) -> Any:
        """Opens the relation for reads of rows; one of which only the name is known is opened as it is
        now."""
        ...

    async def aclose(self) -> None:
        """Gives connections back; the source may be used again."""
        ...
