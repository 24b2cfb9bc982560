"""A catalog in memory for tests: tables, views and faults that a test scripts, and the calls that it counts.

::

    catalog = MemoryCatalog("mem")
    catalog.add_table("sales.orders", pa.schema({"id": pa.int64()}), primary_key=["id"])
    catalog.commit("sales.orders", rows=10)
    pointer = await catalog.pointer(("sales", "orders"))
    assert catalog.counts() == {"pointer": 1}

Invariant: what a test changes is seen by the next ``pointer`` and by nothing that was read before; what a
pointer leads to stays readable until the relation is dropped with ``purge``.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import RelationPath, TableSummary
from lakehouse.catalog.sources import ListedName, Page, Pointer, SnapshotFacts, TableFacts, ViewFacts
from lakehouse.clock import Clock, SystemClock
from lakehouse.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.format.schema import schema_from_arrow
from lakehouse.iceberg.publishing import published_schema
from lakehouse.ids import new_uuid
from lakehouse.suggest import suggestion

__all__ = ["CatalogCall", "HeldCalls", "MemoryCatalog", "MemoryRelation"]

_PAGE = 1_000
_SCHEMA_VERSION = 3
"""Version of Iceberg's format whose types schemas are written in."""


@dataclass(frozen=True, slots=True)
class CatalogCall:
    """One call that a catalog received."""

    verb: str
    path: RelationPath

    def __repr__(self) -> str:
        return f"{self.verb} {'.'.join(self.path)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRelation:
    """One state of a table or view; what ``open`` returns."""

    path: RelationPath
    identity: uuid.UUID
    version: int
    facts: TableFacts | None = None
    view: ViewFacts | None = None
    snapshots: tuple[SnapshotFacts, ...] = ()
    schemas: Mapping[int, TableFacts] = field(default_factory=dict)
    """Facts by the id of the schema."""

    @property
    def kind(self) -> NodeKind:
        """Table or view."""
        return NodeKind.VIEW if self.facts is None else NodeKind.TABLE


class HeldCalls:
    """Calls that a test keeps waiting; made by :meth:`MemoryCatalog.hold`."""

    def __init__(self, verb: str, path: RelationPath | None) -> None:
        self._verb, self._path = verb, path
        self._released, self._arrived = asyncio.Event(), asyncio.Event()
        self.waiting = 0
        """Calls that wait now."""

    def matches(self, call: CatalogCall) -> bool:
        """Returns whether a call is to wait."""
        return call.verb == self._verb and self._path in (None, call.path)

    async def arrived(self) -> None:
        """Waits until a call waits."""
        await self._arrived.wait()

    def release(self) -> None:
        """Lets the calls go on, and holds no further ones."""
        self._released.set()

    async def wait(self) -> None:
        """Waits as a held call does."""
        self.waiting += 1
        self._arrived.set()
        try:
            await self._released.wait()
        finally:
            self.waiting -= 1


class _Contents:
    """Relations of a catalog, which all who look at it share."""

    def __init__(self) -> None:
        self.place = new_uuid().hex
        self.namespaces: set[RelationPath] = set()
        self.now: dict[RelationPath, MemoryRelation] = {}
        self.states: dict[tuple[uuid.UUID, str], MemoryRelation] = {}
        self.field_ids: Counter[uuid.UUID] = Counter()


class MemoryCatalog:
    """A catalog in memory; implements the protocol of the catalog's sources.

    Names are ``namespace.table``, or tuples of parts where a part has a dot.

    Args:
        name: the catalog is attached under it.
        clock: times of commits, and waits of ``latency_s``.
        latency_s: seconds that each call takes.
        credentials: whose it is read with; content is shared by sources with the same ones alone.
    """

    def __init__(
        self,
        name: str = "mem",
        *,
        clock: Clock | None = None,
        latency_s: float = 0.0,
        credentials: str = "",
    ) -> None:
        self.name = name
        self.connector = "memory"
        self.latency_s = latency_s
        self.is_down = False
        """Every call is answered with UnavailableError."""
        self.calls: list[CatalogCall] = []
        """All calls since the last :meth:`clear`."""
        self.closed = 0
        """Times that it was closed."""
        self._clock = clock or SystemClock()
        self._credentials = credentials
        self._contents = _Contents()
        self._broken: dict[RelationPath, LakehouseError] = {}
        self._cut: dict[RelationPath, str] = {}
        self._held: list[HeldCalls] = []

    def __repr__(self) -> str:
        return f"MemoryCatalog({self.name!r}, {len(self._contents.now)} relations, {self.counts()})"

    @property
    def display(self) -> str:
        """Place, for people."""
        return f"memory:{self.name}"

    def seen_with(self, credentials: str, *, name: str | None = None) -> MemoryCatalog:
        """Returns another source of the same relations, with its own credentials, faults and counters."""
        other = MemoryCatalog(name or self.name, clock=self._clock, credentials=credentials)
        other._contents = self._contents
        return other

    # --- script: what is there --------------------------------------------------------

    def add_namespace(self, name: str | RelationPath) -> None:
        """Makes a namespace, and those around it."""
        path = _path(name)
        self._contents.namespaces.update(path[:depth] for depth in range(1, len(path) + 1))

    def add_table(
        self,
        name: str | RelationPath,
        schema: pa.Schema,
        *,
        primary_key: Sequence[str] = (),
        partition_keys: Iterable[str] = (),
    ) -> uuid.UUID:
        """Makes a table without a snapshot, and its namespace; returns its identity."""
        identity = new_uuid()
        facts = self._facts(identity, schema, 0, primary_key, None)
        facts = replace(facts, partition_keys=tuple(partition_keys))
        self._add(MemoryRelation(path=_path(name), identity=identity, version=1, facts=facts))
        return identity

    def add_view(self, name: str | RelationPath, sql: str, **facts: Any) -> uuid.UUID:
        """Makes a view, and its namespace; ``facts`` are fields of :class:`ViewFacts`."""
        identity = new_uuid()
        view = ViewFacts(**{"dialect": "duckdb", "updated_ms": self._clock.now_ms(), **facts, "sql": sql})
        self._add(MemoryRelation(path=_path(name), identity=identity, version=1, view=view))
        return identity

    def commit(self, name: str | RelationPath, *, rows: int = 1, operation: str = "append") -> SnapshotFacts:
        """Commits a snapshot to a table; ids count from 0."""
        old = self._relation(name)
        facts = _table_facts(old)
        last = old.snapshots[-1] if old.snapshots else None
        before = 0 if last is None else last.summary.rows or 0
        made = SnapshotFacts(
            id=len(old.snapshots),
            parent=None if last is None else last.id,
            time_ms=self._clock.now_ms(),
            schema_id=facts.schema_id,
            operation=operation,
            summary=TableSummary(rows=before + rows, files=len(old.snapshots) + 1),
        )
        self._replace(old, snapshots=(*old.snapshots, made), facts=_at(facts, (*old.snapshots, made)))
        return made

    def change_schema(self, name: str | RelationPath, schema: pa.Schema) -> int:
        """Gives a table other columns; those that keep their name and type keep their id. Returns its id."""
        old = self._relation(name)
        facts = _table_facts(old)
        changed = self._facts(old.identity, schema, max(old.schemas) + 1, facts.primary_key, facts)
        self._replace(old, facts=changed)
        return changed.schema_id

    def change_partitions(self, name: str | RelationPath, keys: Iterable[str]) -> None:
        """Gives a table other partition fields."""
        old = self._relation(name)
        self._replace(old, facts=replace(_table_facts(old), partition_keys=tuple(keys)))

    def change_view(self, name: str | RelationPath, sql: str) -> None:
        """Gives a view other SQL."""
        old = self._relation(name)
        if old.view is None:
            raise InvalidInputError(f"{'.'.join(old.path)!r} is a table")
        self._replace(old, view=replace(old.view, sql=sql))

    def rename(self, name: str | RelationPath, new_name: str | RelationPath) -> None:
        """Gives a relation another name; it keeps its identity."""
        old = self._relation(name)
        self._add(replace(old, path=_path(new_name), version=old.version + 1))
        del self._contents.now[old.path]

    def drop(self, name: str | RelationPath, *, purge: bool = False) -> None:
        """Drops a relation; with ``purge`` what older pointers lead to goes as well."""
        old = self._contents.now.pop(self._relation(name).path)
        if purge:
            for key in [key for key in self._contents.states if key[0] == old.identity]:
                del self._contents.states[key]

    # --- script: what goes wrong ------------------------------------------------------

    def hold(self, verb: str, name: str | RelationPath | None = None) -> HeldCalls:
        """Keeps calls waiting, those about one relation or namespace or all, until they are released."""
        held = HeldCalls(verb, None if name is None else _path(name))
        self._held.append(held)
        return held

    def break_relation(self, name: str | RelationPath, error: LakehouseError | None = None) -> None:
        """Makes one relation fail, with CorruptionError when no other error is given; listings show it."""
        path = _path(name)
        self._broken[path] = error or CorruptionError(
            f"metadata of {'.'.join(path)} are damaged", key="/".join(path)
        )

    def cut_listing(self, namespace: str | RelationPath, *, after: str) -> None:
        """Makes pages of a namespace fail that begin behind a name; a page ends there at the latest."""
        self._cut[_path(namespace)] = after

    def mend(self) -> None:
        """Takes all faults back."""
        self.is_down, self.latency_s = False, 0.0
        self._broken.clear()
        self._cut.clear()
        for held in self._held:
            held.release()
        self._held.clear()

    # --- counters ---------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Calls by verb."""
        return dict(sorted(Counter(call.verb for call in self.calls).items()))

    def clear(self) -> None:
        """Forgets the calls so far."""
        self.calls.clear()

    # --- the source -------------------------------------------------------------------

    async def namespaces(self, inside: RelationPath = ()) -> list[RelationPath]:
        """Lists the namespaces directly inside another, in order."""
        await self._called("namespaces", inside)
        if inside and inside not in self._contents.namespaces:
            raise self._no_namespace(inside)
        return sorted(path for path in self._contents.namespaces if path[:-1] == inside)

    async def page(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None, limit: int
    ) -> Page:
        """Lists a page of tables and views of a namespace."""
        await self._called("page", namespace)
        if namespace not in self._contents.namespaces:
            raise self._no_namespace(namespace)
        cut = self._cut.get(namespace)
        if cut is not None and after is not None and after >= cut:
            raise UnavailableError(f"catalog {self.name!r} broke off a listing behind {after!r}")
        found = sorted(
            (one.path[-1], one.kind)
            for one in self._contents.now.values()
            if one.path[:-1] == namespace and one.path[-1].startswith(prefix)
        )
        left = [(name, kind) for name, kind in found if after is None or name > after]
        shown = [one for one in left if cut is None or one[0] <= cut][:limit]
        entries = tuple(ListedName(path=(*namespace, name), kind=kind) for name, kind in shown)
        return Page(entries=entries, after=shown[-1][0] if shown and len(shown) < len(left) else None)

    async def pointer(self, path: RelationPath) -> Pointer:
        """Reads what a name stands for now."""
        await self._called("pointer", path)
        found = self._contents.now.get(path)
        if found is None:
            raise self._no_relation(path)
        version = str(found.version)
        return Pointer(
            path=path,
            kind=found.kind,
            identity=found.identity,
            version=version,
            content_key=(self._contents.place, self._credentials, found.identity.hex, version),
            location=f"memory://{self.name}/{'/'.join(path)}",
        )

    async def names(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[RelationPath, None]:
        """Yields the relations of a namespace, in order."""
        while True:
            page = await self.page(namespace, prefix=prefix, after=after, limit=_PAGE)
            for entry in page.entries:
                yield entry.path
            after = page.after
            if after is None:
                return

    async def identify(self, path: RelationPath) -> Pointer | None:
        """Returns None: a name costs as much as its version."""

    async def renew(self, pointer: Pointer) -> Pointer:
        """Reads what the pointer's name stands for now."""
        return await self.pointer(pointer.path)

    async def locate(self, identity: uuid.UUID) -> RelationPath | None:
        """Finds the name of an incarnation."""
        await self._called("locate", ())
        return next((one.path for one in self._contents.now.values() if one.identity == identity), None)

    async def table(self, pointer: Pointer) -> TableFacts:
        """Reads what a version of a table says of it."""
        return _table_facts(await self._state("table", pointer))

    async def view(self, pointer: Pointer) -> ViewFacts:
        """Reads what a version of a view says of it."""
        found = await self._state("view", pointer)
        if found.view is None:
            raise InvalidInputError(f"{'.'.join(found.path)!r} is a table")
        return found.view

    async def snapshots(self, pointer: Pointer) -> tuple[SnapshotFacts, ...]:
        """Reads the list of snapshots, oldest first."""
        return (await self._state("snapshots", pointer)).snapshots

    async def snapshot(
        self, pointer: Pointer, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Reads one snapshot: by its id, or the last that is not after a time."""
        found = await self._state("snapshot", pointer)
        fitting = [
            one
            for one in found.snapshots
            if (number is None or one.id == number) and (as_of_ms is None or one.time_ms <= as_of_ms)
        ]
        if not fitting:
            raise NotFoundError(f"{'.'.join(found.path)} has no such snapshot", missing="snapshot")
        return fitting[-1]

    async def schema(self, pointer: Pointer, *, snapshot: int) -> TableFacts:
        """Reads the schema that a snapshot has."""
        found = await self._state("schema", pointer)
        for one in found.snapshots:
            if one.id == snapshot:
                return found.schemas[one.schema_id]
        raise NotFoundError(f"{'.'.join(found.path)} has no snapshot {snapshot}", missing="snapshot")

    async def open(self, pointer: Pointer) -> MemoryRelation:
        """Returns the state that a pointer leads to; that of now where the name alone is known."""
        if pointer.version:
            return await self._state("open", pointer)
        await self._called("open", pointer.path)
        return self._relation(pointer.path)

    async def aclose(self) -> None:
        """Counts that it was closed."""
        self.closed += 1

    # --- inside -----------------------------------------------------------------------

    async def _called(self, verb: str, path: RelationPath) -> None:
        call = CatalogCall(verb, path)
        self.calls.append(call)
        if self.latency_s:
            await self._clock.sleep(self.latency_s)
        for held in [one for one in self._held if one.matches(call)]:
            await held.wait()
        if self.is_down:
            raise UnavailableError(
                f"catalog {self.name!r} cannot be reached", kind="unreachable", catalog=self.name
            )
        if path in self._broken and verb != "page":
            raise self._broken[path]

    async def _state(self, verb: str, pointer: Pointer) -> MemoryRelation:
        await self._called(verb, pointer.path)
        found = self._contents.states.get((pointer.identity, pointer.version))
        if found is None:
            raise CorruptionError(
                f"{'.'.join(pointer.path)}: version {pointer.version} is gone, and a pointer leads to it",
                key="/".join(pointer.path),
            )
        return found

    def _relation(self, name: str | RelationPath) -> MemoryRelation:
        found = self._contents.now.get(_path(name))
        if found is None:
            raise self._no_relation(_path(name))
        return found

    def _add(self, made: MemoryRelation) -> None:
        if made.path in self._contents.now:
            raise AlreadyExistsError(f"there is a relation {'.'.join(made.path)} already")
        self.add_namespace(made.path[:-1])
        self._keep(made)

    def _replace(self, old: MemoryRelation, **changes: Any) -> None:
        self._keep(replace(old, version=old.version + 1, **changes))

    def _keep(self, made: MemoryRelation) -> None:
        if made.facts is not None:
            made = replace(made, schemas={**made.schemas, made.facts.schema_id: made.facts})
        self._contents.now[made.path] = made
        self._contents.states[made.identity, str(made.version)] = made

    def _facts(
        self,
        identity: uuid.UUID,
        schema: pa.Schema,
        number: int,
        primary_key: Sequence[str],
        before: TableFacts | None,
    ) -> TableFacts:
        document = published_schema(schema_from_arrow(schema, primary_key=primary_key), _SCHEMA_VERSION)
        known = (
            {} if before is None else {one["name"]: one for one in json.loads(before.schema_json)["fields"]}
        )
        fields = []
        for one in document["fields"]:
            self._number(identity, one)
            old = known.get(one["name"])
            fields.append(old if old is not None and old["type"] == one["type"] else one)
        ids = {one["name"]: one["id"] for one in fields}
        document |= {"schema-id": number, "fields": fields}
        document["identifier-field-ids"] = [ids[name] for name in primary_key]
        changes: dict[str, Any] = {
            "schema_id": number,
            "schema_json": json.dumps(document),
            "field_ids": ids,
            "primary_key": tuple(primary_key),
            "not_null": tuple(one["name"] for one in fields if one["required"]),
            "updated_ms": self._clock.now_ms(),
        }
        return TableFacts(format="memory", **changes) if before is None else replace(before, **changes)

    def _number(self, identity: uuid.UUID, part: Any) -> None:
        """Gives a column and its parts ids that the table never had."""
        for key in ("id", "element-id", "key-id", "value-id"):
            if key in part:
                self._contents.field_ids[identity] += 1
                part[key] = self._contents.field_ids[identity]
        for inner in (
            *part.get("fields", ()),
            *(part[key] for key in ("type", "element", "key", "value") if key in part),
        ):
            if isinstance(inner, dict):
                self._number(identity, inner)

    def _no_namespace(self, path: RelationPath) -> NotFoundError:
        known = [".".join(one) for one in sorted(self._contents.namespaces)]
        return NotFoundError(
            f"catalog {self.name!r} has no namespace {'.'.join(path)!r}; {suggestion('.'.join(path), known)}",
            missing="namespace",
            catalog=self.name,
        )

    def _no_relation(self, path: RelationPath) -> NotFoundError:
        if path[:-1] not in self._contents.namespaces:
            return self._no_namespace(path[:-1])
        known = sorted(one[-1] for one in self._contents.now if one[:-1] == path[:-1])
        return NotFoundError(
            f"catalog {self.name!r} has no table {'.'.join(path)!r}; in {'.'.join(path[:-1])!r} "
            f"{suggestion(path[-1], known)}",
            missing="table",
            catalog=self.name,
        )


def _path(name: str | RelationPath) -> RelationPath:
    return tuple(name.split(".")) if isinstance(name, str) else tuple(name)


def _table_facts(relation: MemoryRelation) -> TableFacts:
    if relation.facts is None:
        raise InvalidInputError(f"{'.'.join(relation.path)!r} is a view")
    return relation.facts


def _at(facts: TableFacts, snapshots: Sequence[SnapshotFacts]) -> TableFacts:
    """Returns the facts of a table whose newest snapshot is the last of some."""
    last = snapshots[-1]
    return replace(
        facts,
        current_snapshot=last.id,
        previous_snapshot=last.parent,
        summary=last.summary,
        updated_ms=last.time_ms,
    )
