"""Pin sets: the first touch of a table decides which snapshot a query reads, and every later one agrees.

Names are bound as tables are: a name that is moved to another table while a query runs still means the table
that the query met first.

Invariant: a set holds one pin for each table, it never changes, and nobody gets it before it is held.
"""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from lakehouse.catalog.graph.references import Reference
from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.nodes import RelationNode, TableNode, ViewNode
from lakehouse.catalog.pins.choices import Moment, PinKind, SnapshotChoice, SnapshotPin
from lakehouse.catalog.sources import SnapshotFacts
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io.work import map_bounded

__all__ = ["PinSet", "PinnedNodes", "Resolve", "snapshot_pin"]

Resolve = Callable[[], Awaitable[SnapshotPin]]
"""Resolves the snapshot that a table is to be pinned to."""

_VIEWS_DEEP = 64
"""Maximum number of views that read one another in a chain."""


class PinnedNodes(Protocol):
    """Part of the graph that pins are taken through."""

    async def relation(self, ref: Reference, /) -> RelationNode:
        """Returns the node of a table or view, as its pointer has it now."""
        ...

    async def snapshot(
        self, node: TableNode, /, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Returns a snapshot of a table: by its id, or the last that is not after a time."""
        ...


async def snapshot_pin(
    graph: PinnedNodes,
    ref: Reference,
    *,
    snapshot: int | None = None,
    as_of: Moment | None = None,
    as_of_default: Moment | None = None,
) -> SnapshotPin:
    """Resolves the snapshot of one table, once: by id, as of a moment, as of a default, or the newest.

    Raises:
        InvalidInputError: the reference is of a view, which has no snapshots of its own.
        NotFoundError: there is no such table, or it has no such snapshot.
    """
    choice = SnapshotChoice.of(snapshot=snapshot, as_of=as_of, as_of_default=as_of_default)
    return await _resolved(graph, _table(await graph.relation(ref)), choice)


def _table(node: RelationNode) -> TableNode:
    if not isinstance(node, TableNode):
        raise InvalidInputError(
            f"{node.display} is a {node.kind.value.replace('_', ' ')}, and only tables have snapshots: "
            "pin the tables that it reads",
            name=node.display,
        )
    return node


async def _resolved(graph: PinnedNodes, node: TableNode, choice: SnapshotChoice) -> SnapshotPin:
    schema_id, number, token = node.schema_id, node.current_snapshot, None
    is_empty = number is None and choice.kind is PinKind.AS_OF  # it had no snapshot then either
    if choice.kind is not PinKind.CURRENT and not is_empty:
        facts = await graph.snapshot(node, number=choice.snapshot, as_of_ms=choice.as_of_ms)
        schema_id, number, token = facts.schema_id, facts.id, facts.token
    return SnapshotPin(
        table=node.id,
        name=node.display,
        kind=choice.kind,
        snapshot=number,
        version=node.version,
        schema_id=schema_id,
        token=token,
        as_of_ms=choice.as_of_ms,
    )


class PinSet:
    """Pins of one query.

    Args:
        graph: resolves names and snapshots.
        as_of: moment that all tables are read as of, unless another is asked for.
        pins: pins that were made before, elsewhere.
        agree: called with a table and what resolves its pin, returns the pin that it has: of a query that
            others read by, the one that the first of them made.
        hold: called with a table and its new pin before anybody gets it; if it raises, there is no pin.
        at_once: maximum number of tables that are pinned at once.
    """

    def __init__(
        self,
        graph: PinnedNodes,
        *,
        as_of: Moment | None = None,
        pins: Sequence[SnapshotPin] = (),
        agree: Callable[[TableNode, Resolve], Awaitable[SnapshotPin]] | None = None,
        hold: Callable[[TableNode, SnapshotPin], Awaitable[None]] | None = None,
        at_once: int = 16,
    ) -> None:
        self._graph, self._agree, self._hold, self._at_once = graph, agree, hold, at_once
        self._default = SnapshotChoice.of(as_of_default=as_of)
        self._pins = {pin.table: pin for pin in pins}
        self._nodes: dict[Reference, RelationNode] = {}
        self._bound = {pin.name: pin.table for pin in pins}
        self._turns: defaultdict[ResourceId, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def pins(self) -> tuple[SnapshotPin, ...]:
        """Pins, in the order in which the tables were first touched."""
        return tuple(self._pins.values())

    @property
    def as_of_ms(self) -> int | None:
        """Moment that all tables are read as of, unless another is asked for."""
        return self._default.as_of_ms

    async def relation(self, ref: Reference) -> RelationNode:
        """Returns what a reference means in this query: the node that its first touch found."""
        node = self._nodes.get(ref)
        if node is None:
            found = await self._graph.relation(ref)
            bound = self._bound.get(found.display, found.id)
            if found.id != bound:  # the name is another table's by now
                found = await self._graph.relation(bound)
            # Of two that look at once the first one binds, under every way to write the name.
            node = self._nodes.setdefault(found.id, found)
            self._bound.setdefault(node.display, node.id)
            self._nodes[ref] = node
        return node

    async def pin(
        self, ref: Reference, *, snapshot: int | None = None, as_of: Moment | None = None
    ) -> SnapshotPin:
        """Returns the pin of a table; the first touch makes it.

        Raises:
            InvalidInputError: the table is pinned to another snapshot than is asked for (kind
                ``pin-conflict``), or the reference is of a view.
        """
        choice = self._choice(snapshot, as_of)
        return await self._pinned(_table(await self.relation(ref)), choice)

    async def pin_all(
        self, ref: Reference, *, snapshot: int | None = None, as_of: Moment | None = None
    ) -> tuple[SnapshotPin, ...]:
        """Returns the pins of the tables that a relation reads: of a table its own, of a view those below it.

        Raises:
            InvalidInputError: a view is asked for by the id of a snapshot, or reads itself.
        """
        choice = self._choice(snapshot, as_of)
        node = await self.relation(ref)
        if isinstance(node, TableNode):
            return (await self._pinned(node, choice),)
        if choice.kind is PinKind.SNAPSHOT_ID:
            raise InvalidInputError(
                f"{node.display} is a view and has no snapshot {snapshot}: ids are of tables; ask for a "
                "moment (as_of=), which goes for all tables that it reads",
                name=node.display,
                snapshot=snapshot,
            )
        below = await self.tables_of(node)
        return tuple(
            [
                pin
                async for pin in map_bounded(
                    lambda table: self._pinned(table, choice), below, self._at_once, ordered=True
                )
            ]
        )

    async def settled(self) -> None:
        """Waits for touches of tables that began before."""
        for turn in list(self._turns.values()):
            async with turn:
                pass

    async def tables_of(self, node: RelationNode) -> list[TableNode]:
        """Returns the tables that a relation reads, each once, in the order in which its text names them."""
        found: dict[ResourceId, TableNode] = {}
        await self._walk(node, (), found, set())
        return list(found.values())

    async def _walk(
        self,
        node: RelationNode,
        above: tuple[RelationNode, ...],
        found: dict[ResourceId, TableNode],
        done: set[ResourceId],
    ) -> None:
        if isinstance(node, TableNode):
            found.setdefault(node.id, node)
        if not isinstance(node, ViewNode) or node.id in done:
            return
        chain = (*above, node)
        if any(one.id == node.id for one in above) or len(chain) > _VIEWS_DEEP:
            path = " → ".join(one.display for one in chain[-_VIEWS_DEEP:])
            problem = "reads itself" if len(chain) <= _VIEWS_DEEP else "nests too deep"
            raise InvalidInputError(f"the view {node.display} {problem}: {path}", name=node.display)
        for name in node.base_relations:
            try:
                base = await self.relation(name)
            except NotFoundError as error:
                error.add_note(f"the view {node.display} reads {name}")
                raise
            await self._walk(base, chain, found, done)
        done.add(node.id)

    def _choice(self, snapshot: int | None, as_of: Moment | None) -> SnapshotChoice:
        if snapshot is None and as_of is None:
            return self._default
        return SnapshotChoice.of(snapshot=snapshot, as_of=as_of)

    async def _pinned(self, node: TableNode, choice: SnapshotChoice) -> SnapshotPin:
        async with self._turns[node.id]:
            first = self._pins.get(node.id)
            if first is not None:
                return await self._agreed(node, first, choice)
            resolve = functools.partial(_resolved, self._graph, node, choice)
            pin = await resolve() if self._agree is None else await self._agree(node, resolve)
            if self._hold is not None:
                await self._hold(node, pin)
            self._pins[node.id] = pin
            return await self._agreed(node, pin, choice)

    async def _agreed(self, node: TableNode, first: SnapshotPin, choice: SnapshotChoice) -> SnapshotPin:
        """Returns the pin that there is, if what is asked for is no other snapshot."""
        if choice.is_default or (choice.kind is PinKind.SNAPSHOT_ID and choice.snapshot == first.snapshot):
            return first
        if choice.kind is PinKind.AS_OF:
            if choice.as_of_ms == first.as_of_ms:
                return first
            other = await _resolved(self._graph, node, choice)
            if other.is_same_read(first):
                return first
            raise _conflict(first, str(other))
        raise _conflict(first, str(choice))


def _conflict(first: SnapshotPin, asked: str) -> InvalidInputError:
    return InvalidInputError(
        f"this query reads {first.name} at {first}, and is asked for {asked}: a query shows one state of a "
        "table; read the other in a query of its own",
        kind="pin-conflict",
        table=first.name,
        pinned=str(first),
        asked=asked,
    )
