"""Stream of a bundle: relations resolved chunk by chunk, pinned before they are sent.

Invariant: when a chunk leaves, every snapshot that it shows is pinned; when its consumer stops, no further
relation is begun. What goes wrong with one relation is told in its place, and ends nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from lakehouse.catalog.bundles.chunks import (
    BundleChunk,
    BundleEnd,
    BundleHeader,
    RelationResolution,
    RelationStatus,
    Resolutions,
)
from lakehouse.catalog.bundles.requests import UserObjectsRequest
from lakehouse.catalog.bundles.resolving import Resolved, Resolver
from lakehouse.catalog.hints import EngineHintManager
from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.nodes import TableNode
from lakehouse.catalog.pins import Query
from lakehouse.io import map_bounded
from lakehouse.log import get_logger

__all__ = ["user_objects"]

_log = get_logger(__name__)

_SHORT_S = 5.0
"""Seconds below which the rest of a query's lifetime is worth a warning."""


async def user_objects(
    query: Query,
    request: UserObjectsRequest,
    *,
    hints: EngineHintManager | None = None,
    chunk_max: int = 25,
) -> AsyncGenerator[BundleChunk, None]:
    """Streams what a planner asks of some relations: a header, resolutions, and an end with counts.

    Args:
        query: pins what is resolved; it outlives the stream, so that rows can be read through it.
        request: relations, and who asks.
        hints: provider of what decorates relations.
        chunk_max: maximum number of resolutions in a chunk.
    """
    stream = _Stream(query, request, hints, chunk_max)
    try:
        yield stream.chunk(BundleHeader(warnings=stream.warnings()))
        while stream.has_more:
            yield stream.chunk(await stream.resolutions())
        stream.is_complete = True
        yield stream.chunk(stream.end())
    finally:
        stream.summarise()


@dataclass(slots=True)
class _Counts:
    """Numbers of resolutions by what became of them."""

    found: int = 0
    not_found: int = 0
    errors: int = 0
    pushed: int = 0
    identity_only: int = 0

    def add(self, one: RelationResolution) -> None:
        """Counts a resolution."""
        self.identity_only += one.relation is not None and one.relation.is_identity_only
        if one.index is None:
            self.pushed += 1
        elif one.status is RelationStatus.FOUND:
            self.found += 1
        elif one.status is RelationStatus.NOT_FOUND:
            self.not_found += 1
        else:
            self.errors += 1


@dataclass(slots=True)
class _Stream:
    """State of one stream."""

    query: Query
    request: UserObjectsRequest
    hints: EngineHintManager | None
    chunk_max: int
    is_complete: bool = False
    _resolver: Resolver = field(init=False)
    _begun: int = 0
    """Number of relations that were begun."""
    _sent: int = 0
    """Number of chunks."""
    _carried: deque[TableNode] = field(default_factory=deque)
    """Tables that views read, not sent yet."""
    _met: set[ResourceId] = field(default_factory=set)
    """Tables that were sent, or are carried."""
    _counts: _Counts = field(default_factory=_Counts)
    _started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._resolver = Resolver(self.query, self.request, self.hints)

    def warnings(self) -> tuple[str, ...]:
        """Returns what the planner should know before anything else."""
        found = []
        if self.request.payload_types and not self.request.engine.kind:
            found.append("payload_types are asked for by no engine: give engine_kind")
        if self.query.remaining_s < _SHORT_S:
            found.append(f"the query ends in {self.query.remaining_s:.0f} s: renew it")
        return tuple(found)

    @property
    def has_more(self) -> bool:
        """Whether there are resolutions to come."""
        return self._begun < len(self.request.relations) or bool(self._carried)

    def chunk(self, part: BundleHeader | Resolutions | BundleEnd) -> BundleChunk:
        """Returns the next chunk."""
        self._sent += 1
        return BundleChunk(query=self.query.id, number=self._sent - 1, part=part)

    async def resolutions(self) -> Resolutions:
        """Resolves the relations of the next chunk; at least one that was asked for, while there are any."""
        relations, begin = self.request.relations, self._begun
        left = len(relations) - begin
        carried = min(len(self._carried), self.chunk_max - (1 if left else 0))
        pushed = [self._carried.popleft() for _ in range(carried)]
        self._begun = begin + min(left, self.chunk_max - carried)
        items = [one.resolution for one in await self._pushed(pushed)]
        asked = list(enumerate(relations))[begin : self._begun]
        resolved = map_bounded(self._resolver.resolved, asked, self.chunk_max, ordered=True)
        found = [one async for one in resolved]
        items += [one.resolution for one in found]
        self._carry(found)
        room = min(self.chunk_max - len(items), len(self._carried))
        items += [
            one.resolution for one in await self._pushed([self._carried.popleft() for _ in range(room)])
        ]
        for item in items:
            self._counts.add(item)
        return Resolutions(items=tuple(items))

    async def _pushed(self, nodes: Sequence[TableNode]) -> list[Resolved]:
        resolved = map_bounded(self._resolver.pushed, nodes, self.chunk_max, ordered=True)
        return [one async for one in resolved]

    def _carry(self, found: Sequence[Resolved]) -> None:
        """Notes the tables below views that were not sent before."""
        self._met.update(one.node.id for one in found if isinstance(one.node, TableNode))
        for one in found:
            for table in one.below:
                if table.id not in self._met:
                    self._met.add(table.id)
                    self._carried.append(table)

    def end(self) -> BundleEnd:
        """Returns the counts."""
        counts = self._counts
        return BundleEnd(
            relations=len(self.request.relations),
            found=counts.found,
            not_found=counts.not_found,
            errors=counts.errors,
            pushed=counts.pushed,
            identity_only=counts.identity_only,
        )

    def summarise(self) -> None:
        """Writes the one event of the request."""
        _log.event(
            "get_user_objects.summary",
            query=self.query.id,
            account=self.query.account,
            engine=str(self.request.engine),
            **self.end().as_dict(),
            begun=self._begun,
            chunks=self._sent,
            complete=self.is_complete,
            seconds=round(time.perf_counter() - self._started, 6),
        )
