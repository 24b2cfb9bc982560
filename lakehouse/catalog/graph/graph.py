"""The metadata graph: what an account sees of its catalogs, by name and by id.

Resolving is strict: what is not there is an error. Listing is lenient: each name has its own fate. Pointers
are fresh within the bound of their layer, or the one that a call gives; content is never stale.

Invariant: an id of another account is unknown here, whether or not it exists.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.graph.bulk import BulkGraph
from lakehouse.catalog.graph.containers import Containers
from lakehouse.catalog.graph.hydration import Hydration, full_path
from lakehouse.catalog.graph.listings import Listings
from lakehouse.catalog.graph.live import LiveGraph
from lakehouse.catalog.graph.meanings import (
    Meaning,
    ambiguous_error,
    container_meanings,
    missing_error,
    relation_meaning,
)
from lakehouse.catalog.graph.partition_reads import changed_in
from lakehouse.catalog.graph.pointers import Known, Pointers
from lakehouse.catalog.graph.references import Reference, reference_parts, show_name
from lakehouse.catalog.graph.system_side import Engines, GraphListing
from lakehouse.catalog.ids import DEFAULT_ACCOUNT, NodeKind, ResourceId
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.nodes import (
    CatalogNode,
    EngineHint,
    NamespaceNode,
    Node,
    RelationNode,
    RelationPath,
    SystemViewNode,
    TableNode,
    ViewNode,
)
from lakehouse.catalog.partitions import ChangedPartitions, PartitionInfo
from lakehouse.catalog.sources import (
    Pointer,
    SnapshotFacts,
    SourceSet,
    TableFacts,
    advanced,
    catalog_tag,
)
from lakehouse.catalog.system import SYSTEM_ACCOUNT, RelationFilter, SystemObjects, SystemScan
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.excerpt import short
from lakehouse.format.metadata import CommitKind
from lakehouse.storage.commit import Committed
from lakehouse.storage.metadata import TableName
from lakehouse.storage.tables import OpenTable

__all__ = ["MetadataGraph"]

N = TypeVar("N", bound=Node)
_NO_PARTS: RelationPath = ()


class MetadataGraph(BulkGraph, LiveGraph):
    """Catalogs, namespaces, tables and views that one account sees; ``lake.graph``.

    Args:
        layers: caches of the lake.
        sources: catalogs of the account.
        account: its name.
        engines: builtins of engines and hints for them; None = its own.
    """

    def __init__(
        self,
        layers: Layers,
        sources: SourceSet,
        *,
        account: str = DEFAULT_ACCOUNT,
        engines: Engines | None = None,
    ) -> None:
        self.account, self.sources = account, sources
        self.engines = engines or Engines(layers)
        """Builtins and hints, which accounts of one lake share."""
        self._layers = layers
        self._pointers = Pointers(account, layers, sources)
        # What the warm path needs is kept at hand.
        self._known = self._pointers.nodes.get_if_present
        self._fresh = self._pointers.region.get
        self._hydration = Hydration(layers, self._pointers)
        self._listings = Listings(account, layers, sources)
        self._containers = Containers(account, self._listings, sources)
        self._at_once = layers.settings.catalog.load_concurrency

    def __repr__(self) -> str:
        return f"<MetadataGraph of {self.account}, {len(self.sources.names)} catalogs>"

    @property
    def layers(self) -> Layers:
        """Caches of the lake, which graphs of other accounts share."""
        return self._layers

    # --- by id --------------------------------------------------------------------

    async def resolve(self, number: ResourceId, *, max_staleness: float | None = None) -> Node:
        """Returns the node of an id.

        Args:
            number: as names were resolved to, in this process or another.
            max_staleness: seconds that the pointer may be old, where that is less than its layer's bound.

        Raises:
            NotFoundError: nothing has the id any more, or this account may not see it.
        """
        known = self._known(number)
        if known is not None and max_staleness is None:
            try:
                pointer = await self._fresh(known.key, known.look)
            except NotFoundError as error:
                return await self._hydration.node(*await self._followed(known, error))
            if pointer is known.pointer and known.node is not None:
                return known.node
        return await self._resolved(number, max_staleness)

    async def _resolved(self, number: ResourceId, max_staleness: float | None) -> Node:
        if not isinstance(number, ResourceId):
            raise InvalidInputError(
                f"resolve takes a ResourceId, not {short(number)}: ResourceId.parse reads its text, and "
                "resolve_name a name"
            )
        if number.account == SYSTEM_ACCOUNT:
            return await self.engines.node(number)
        if number.account != self.account:
            raise _unknown(number)
        if number.kind in (NodeKind.CATALOG, NodeKind.NAMESPACE):
            return await self._containers.find(number)
        known = self._known(number) or await self._located(number)
        try:
            pointer = await self._pointers.fresh(known, max_staleness)
        except NotFoundError as error:
            known, pointer = await self._followed(known, error)
        return await self._hydration.node(known, pointer)

    async def _located(self, number: ResourceId) -> Known:
        """Looks for a relation that this process never met: our own tables can be found by their uuid."""
        if "" in self.sources:
            source = self.sources.get("")
            limits = self._layers.limits
            path = await limits.listings.run(lambda: source.locate(number.uuid), account=self.account)
            if path is not None:
                known = self._pointers.know("", await self._pointers.identified("", path))
                if known.id == number:
                    return known
        raise _unknown(number)

    async def _followed(self, known: Known, error: NotFoundError) -> tuple[Known, Pointer]:
        """Returns a renamed table under its new name; raises what was found where it was not renamed."""
        moved = error.context.get("moved_to")
        self._pointers.forget(known.id)
        if moved is None:
            raise error
        name = TableName.parse(moved)
        pointer = await self._pointers.named("", (name.database, name.table))
        found = self._pointers.know("", pointer)
        if found.id != known.id:
            raise error
        return found, pointer

    # --- by name ------------------------------------------------------------------

    async def resolve_name(self, ref: Reference, kind: NodeKind | None = None) -> ResourceId:
        """Returns the id of a name.

        Args:
            ref: full name, its parts, or a :class:`NameRef`, which is not looked for when it has an id.
            kind: kind of node that is meant; None = any.

        Raises:
            NotFoundError: nothing has the name.
            InvalidInputError: of kind ``ambiguous_name`` when it fits several objects.

        Example::

            table = await lake.graph.resolve(await lake.graph.resolve_name("sales.orders"))
        """
        parts = reference_parts(ref)
        if isinstance(parts, ResourceId):
            return parts
        system = self.engines.named(parts)
        if system is not None:
            return _system_id(system, kind)
        if kind is None:
            return await self._any(parts)
        if kind in (NodeKind.CATALOG, NodeKind.NAMESPACE):
            meanings = [one for one in container_meanings(parts, self.sources) if one.kind is kind]
            return await self._container(parts, meanings, kind.value)
        found = await self._relation_id(relation_meaning(parts, self.sources))
        if found.kind is not kind:
            raise _other_kind(parts, found.kind, kind)
        return found

    async def _any(self, parts: RelationPath) -> ResourceId:
        containers = container_meanings(parts, self.sources)
        found = [await self._meant(one) for one in containers if len(parts) <= _SHORT]
        ids = [one for one in found if one is not None]
        if len(parts) > 1:
            try:
                ids.append(await self._relation_id(relation_meaning(parts, self.sources)))
            except NotFoundError:
                ids += [one for one in [await self._meant(one) for one in containers] if one is not None]
                if not ids:
                    raise
        if len(ids) > 1 and len(set(ids)) > 1:
            raise ambiguous_error(parts, [str(one) for one in ids])
        if not ids:
            raise missing_error(parts, "catalog or database")
        return ids[0]

    async def _meant(self, meaning: Meaning) -> ResourceId | None:
        """Returns the id of a container that a name means, if it is there."""
        if meaning.kind is NodeKind.CATALOG:
            return self._containers.catalog_id(meaning.catalog)
        if await self._containers.has_namespace(meaning.catalog, meaning.path):
            return self._containers.namespace_id(meaning.catalog, meaning.path)
        return None

    async def _container(self, parts: RelationPath, meanings: list[Meaning], what: str) -> ResourceId:
        for meaning in meanings:
            found = await self._meant(meaning)
            if found is not None:
                return found
        raise missing_error(parts, what)

    async def _relation_id(self, meaning: Meaning) -> ResourceId:
        with self.engines.explaining(full_path(meaning.catalog, meaning.path)):
            pointer = await self._pointers.identified(meaning.catalog, meaning.path)
        return self._pointers.id_of(meaning.catalog, pointer)

    # --- nodes --------------------------------------------------------------------

    async def catalog(self, ref: Reference | None = None) -> CatalogNode:
        """Returns the node of a catalog; None = the warehouse."""
        parts = None if ref is None else reference_parts(ref)
        if isinstance(parts, ResourceId):
            return _checked(await self.resolve(parts), CatalogNode)
        if parts is not None and len(parts) != 1:
            raise missing_error(parts, "catalog")
        return await self._containers.catalog("" if parts is None else parts[0])

    async def namespace(self, ref: Reference) -> NamespaceNode:
        """Returns the node of a namespace: a database, or ``catalog.namespace``."""
        parts = reference_parts(ref)
        if isinstance(parts, ResourceId):
            return _checked(await self.resolve(parts), NamespaceNode)
        system = self.engines.named(parts)
        if isinstance(system, NamespaceNode):
            return system
        meanings = [one for one in container_meanings(parts, self.sources) if one.kind is NodeKind.NAMESPACE]
        if not meanings:
            raise missing_error(parts, "namespace")
        return await self._containers.namespace(meanings[0].catalog, meanings[0].path)

    async def table(self, ref: Reference, *, max_staleness: float | None = None) -> TableNode:
        """Returns the node of a table."""
        return _checked(await self.relation(ref, max_staleness=max_staleness), TableNode)

    async def view(self, ref: Reference, *, max_staleness: float | None = None) -> ViewNode:
        """Returns the node of a view."""
        return _checked(await self.relation(ref, max_staleness=max_staleness), ViewNode)

    async def relation(self, ref: Reference, *, max_staleness: float | None = None) -> RelationNode:
        """Returns the node of a table or view."""
        parts = reference_parts(ref)
        if isinstance(parts, ResourceId):
            return _checked(await self.resolve(parts, max_staleness=max_staleness), RelationNode)
        system = self.engines.named(parts)
        if isinstance(system, RelationNode):
            return system
        known, pointer = await self._known_by_name(parts, max_staleness)
        return await self._hydration.node(known, pointer)

    async def _known_by_name(
        self, parts: RelationPath, max_staleness: float | None = None
    ) -> tuple[Known, Pointer]:
        meaning = relation_meaning(parts, self.sources)
        with self.engines.explaining(parts):
            pointer = await self._pointers.named(meaning.catalog, meaning.path)
        known = self._pointers.know(meaning.catalog, pointer)
        if max_staleness is not None and self._pointers.is_older(known, max_staleness):
            pointer = await self._pointers.live(meaning.catalog, meaning.path)
            known = self._pointers.know(meaning.catalog, pointer)
        return known, pointer

    # --- engines ------------------------------------------------------------------

    async def system_objects(self, engine_kind: str, engine_version: str | None = None) -> SystemObjects:
        """Returns what an engine has by itself: types, functions, operators, casts, collations, aggregates.

        The relations of ``information_schema`` are among them, as they are for every engine.

        Args:
            engine_kind: such as ``duckdb``, ``postgres`` or ``spark``, in any case.
            engine_version: as the engine writes it; None = any version.

        Example::

            objects = await lake.graph.system_objects("postgres", "16.2")
            print([function.signature for function in objects.named("function", "date_trunc")])
        """
        return await self.engines.builtins.system_objects(engine_kind, engine_version)

    async def hint(
        self, ref: Reference, *, engine_kind: str, engine_version: str | None = None, payload_type: str
    ) -> EngineHint | None:
        """Returns what a provider tells an engine about a node; None where none has anything to tell.

        Args:
            ref: of a node of any kind; a builtin by its id.
            engine_kind: kind of the engine that asks.
            engine_version: its version; None = any.
            payload_type: namespaced name of the payload's format, such as ``lakehouse.type+json``.
        """
        number = await self.resolve_name(ref)
        engine = EngineKey.of(engine_kind, engine_version)
        return await self.engines.hints.hint(await self.resolve(number), engine, payload_type)

    def system_rows(
        self,
        name: str,
        *,
        catalog: str | Collection[str] | None = None,
        schema: str | Collection[str] | None = None,
        table: str | Collection[str] | None = None,
    ) -> SystemScan:
        """Computes a relation of ``information_schema``, as an async iteration over record batches.

        What cannot be read is in ``warnings`` of the result, and costs its own rows alone.

        Args:
            name: full name, such as ``information_schema.columns``.
            catalog: only this catalog, or these; the warehouse's name is empty.
            schema: only namespaces of this name, or these, as users write it.
            table: only tables and views of this name, or these.

        Example::

            rows = lake.graph.system_rows("information_schema.columns", schema="sales")
            print(await rows.to_arrow())
        """
        return SystemScan(
            self.engines.relation(name).name,
            GraphListing(self.sources, self._listings, self.relation),
            where=RelationFilter(catalog=catalog, schema=schema, table=table),
            concurrency=self._at_once,
        )

    # --- states -------------------------------------------------------------------

    async def pointer(self, ref: Reference, *, max_staleness: float | None = None) -> Pointer:
        """Returns the pointer of a table or view: for parts of the engine that read through sources."""
        parts = reference_parts(ref)
        if not isinstance(parts, ResourceId):
            return (await self._known_by_name(parts, max_staleness))[1]
        node = _checked(await self.resolve(parts, max_staleness=max_staleness), RelationNode)
        known = self._known(node.id)
        if known is None or known.pointer is None:
            raise _unknown(parts)
        return known.pointer

    async def snapshot(
        self, node: TableNode, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Returns a snapshot of a table: by its id, the last that is not after a time, or the newest."""
        known, pointer = await self._behind(node)
        source = self.sources.get(known.catalog)
        return await self._hydration.snapshot(source, pointer, number, as_of_ms)

    async def snapshots(self, node: TableNode) -> tuple[SnapshotFacts, ...]:
        """Returns the snapshots of a table, oldest first."""
        known, pointer = await self._behind(node)
        return await self._hydration.snapshots(self.sources.get(known.catalog), pointer)

    async def facts_at(self, node: TableNode, snapshot: int) -> TableFacts:
        """Returns the schema of a table as it was at a snapshot, with all that depends on it."""
        known, pointer = await self._behind(node)
        return await self._hydration.schema(self.sources.get(known.catalog), pointer, snapshot)

    async def partitions(self, ref: Reference, snapshot: int | None = None) -> PartitionInfo:
        """Returns the partitions of a table: ranges or values, files, rows, bytes, and which cover which.

        A table that has none, or whose manifests cannot be read, has empty partition info and no error.

        Args:
            ref: the table.
            snapshot: id of a snapshot; None = the newest.
        """
        node = await self.table(ref)
        known, pointer = await self._behind(node)
        return await self._hydration.partitions(self.sources.get(known.catalog), pointer, node, snapshot)

    async def changed_partitions(
        self, ref: Reference, start: int | None, end: int | None = None
    ) -> ChangedPartitions:
        """Returns the partitions whose rows may differ between two snapshots: what a refresh has to read.

        Costs what the commits in between wrote; older manifests only where they took whole files away.

        Args:
            ref: the table.
            start: snapshot that the caller has; None = nothing yet.
            end: snapshot to reach; None = the newest.

        Example::

            changed = await lake.graph.changed_partitions("sales.orders", 17)
            stale = None if changed.is_all else [key.name for key in changed.partitions]
        """
        known, pointer = await self._behind(await self.table(ref))
        return await changed_in(self.sources.get(known.catalog), pointer, start, end)

    async def _behind(self, node: TableNode) -> tuple[Known, Pointer]:
        """Returns the pointer that a node was made of, or a newer one of the same table."""
        await self.resolve(node.id)
        known = self._known(node.id)
        if known is None or known.pointer is None:
            raise _unknown(node.id)
        return known, known.pointer

    # --- changes ------------------------------------------------------------------

    def detached(self, catalog: str) -> None:
        """Forgets all that is kept of a catalog that was detached."""
        self._pointers.drop_name(catalog, ())
        self._layers.budget.invalidate_tag(catalog_tag(catalog))

    async def invalidate(self, number: ResourceId) -> None:
        """Forgets an id: the next call looks anew at its name, and reads its content again."""
        if number.account != self.account:
            return
        self.engines.hints.invalidate(number)
        if number.kind in (NodeKind.CATALOG, NodeKind.NAMESPACE):
            node = await self._containers.find(number)
            catalog = node.name if isinstance(node, CatalogNode) else await self._catalog_of(node)
            self._pointers.drop_name(catalog, node.path if isinstance(node, NamespaceNode) else ())
            return
        known = self._pointers.forget(number)
        if known is not None and known.pointer is not None:
            self._pointers.drop_name(known.catalog, known.path)
            self._layers.drop_content([known.pointer.identity])

    async def _catalog_of(self, node: NamespaceNode) -> str:
        return next(name for name in self.sources.names if self._containers.catalog_id(name) == node.catalog)

    def name_changed(self, database: str, table: str | None) -> None:
        """Hears that this process may have changed a name of the warehouse."""
        self._pointers.drop_name("", (database,) if table is None else (database, table))

    def committed(self, table: OpenTable, done: Committed) -> None:
        """Hears of a commit that this process made."""
        path = (table.name.database, table.name.table)
        known = self._known(ResourceId(self.account, NodeKind.TABLE, table.uuid))
        if known is None or known.pointer is None or done.snapshot.kind is CommitKind.DROP:
            # Also where nothing is known: a load that began before the commit must not land after it.
            self._pointers.drop_pointer("", path)
            if known is not None:
                self._pointers.drop_pointer("", known.path)
            return
        newer = advanced(known.pointer, table, done.snapshot)
        if newer is not None:
            known.adopt(newer)
            self._pointers.put("", newer)


_SHORT = 2
"""Parts up to which a name may stand for a container and for a relation."""


def _unknown(number: ResourceId) -> NotFoundError:
    return NotFoundError(
        f"nothing has the id {number}: resolve its name again, if it still has one", id=str(number)
    )


def _system_id(node: NamespaceNode | SystemViewNode, wanted: NodeKind | None) -> ResourceId:
    """Returns the id of a system object when it is of the kind that is meant.

    Its relations are found among tables and among views: whoever reads them need not know who makes the rows.
    """
    kinds = (NodeKind.TABLE, NodeKind.VIEW) if isinstance(node, SystemViewNode) else ()
    if wanted is None or wanted in (node.kind, *kinds):
        return node.id
    raise _other_kind(node.path, node.kind, wanted)


def _other_kind(parts: RelationPath, found: NodeKind, wanted: NodeKind) -> NotFoundError:
    return NotFoundError(
        f"{show_name(parts)} is a {found.value}, not a {wanted.value}",
        missing=wanted.value,
        name=show_name(parts),
    )


def _checked(node: Node, kind: type[N]) -> N:
    if isinstance(node, kind):
        return node
    shown = getattr(node, "display", str(node.id))
    wanted = kind.__name__.removesuffix("Node").lower()
    raise NotFoundError(f"{shown} is a {node.kind.value}, not a {wanted}", missing=wanted, id=str(node.id))
