"""Providers of hints for tests: what they answer is set, and what they are asked is kept."""

from __future__ import annotations

import asyncio

from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import EngineHint, Node

__all__ = ["Provider"]


class Provider:
    """A provider of one payload type.

    Args:
        payload: what it answers; None = it has no hint.
        payload_type: that it supports.
        kinds: of engines that it serves; none = all.
    """

    def __init__(
        self,
        payload: bytes | None = b"1",
        *,
        payload_type: str = "test.type+json",
        kinds: tuple[str, ...] = (),
    ) -> None:
        self.payload = payload
        self.payload_type = payload_type
        self.kinds = kinds
        self.error: Exception | None = None
        self.print = "1"
        self.gate: asyncio.Event | None = None
        """What it waits for before it answers."""
        self.asked: list[Node] = []

    def supports(self, kind: NodeKind, payload_type: str) -> bool:
        """Returns whether it is asked for its payload type, for a table."""
        return kind is NodeKind.TABLE and payload_type == self.payload_type

    def is_available(self, engine: EngineKey) -> bool:
        """Returns whether it serves the engine."""
        return not self.kinds or engine.kind in self.kinds

    def fingerprint(self, node: Node, engine: EngineKey, payload_type: str) -> str:
        """Returns what the test set."""
        return self.print

    async def compute(self, node: Node, engine: EngineKey, payload_type: str) -> EngineHint | None:
        """Answers, or raises what the test set."""
        self.asked.append(node)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return None if self.payload is None else EngineHint(payload_type=payload_type, payload=self.payload)
