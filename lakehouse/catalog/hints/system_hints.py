"""Hints of builtins: what the rules of their files publish."""

from __future__ import annotations

from lakehouse.catalog.engines.engine import EngineKey
from lakehouse.catalog.engines.rules import published
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import EngineHint, Node
from lakehouse.catalog.system.registry import SystemRegistry

__all__ = ["SystemCatalogHintProvider"]


class SystemCatalogHintProvider:
    """Publishes payloads and properties of the rules that match an engine.

    Args:
        registry: has the files.
    """

    def __init__(self, registry: SystemRegistry) -> None:
        self._registry = registry

    def supports(self, kind: NodeKind, payload_type: str) -> bool:
        """Returns whether the node is a builtin: authors of files choose payload types freely."""
        return kind is NodeKind.BUILTIN

    def is_available(self, engine: EngineKey) -> bool:
        """Returns whether files say anything of that engine."""
        return engine.kind in self._registry.kinds

    def fingerprint(self, node: Node, engine: EngineKey, payload_type: str) -> str:
        """Returns the revision of the files."""
        return self._registry.revision

    async def compute(self, node: Node, engine: EngineKey, payload_type: str) -> EngineHint | None:
        """Returns what the rules publish under that type; None where none of them matches."""
        overlay = await self._registry.overlay(engine)
        return published(overlay.rules.get(node.id, ()), engine).get(payload_type)
