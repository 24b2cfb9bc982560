"""Rules: what engines of a kind, in a window of versions, are told about something.

Rules stand in an order. Of those that match an engine, the last one of a payload type wins, and properties of
later ones replace those of earlier ones name by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lakehouse.catalog.engines.engine import EngineKey
from lakehouse.catalog.engines.versions import ANY_VERSION, VersionWindow
from lakehouse.catalog.nodes import EngineHint

__all__ = ["EngineRule", "matching", "published"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRule:
    """One rule."""

    kind: str | None = None
    """Kind of the engines it is for; None = that of the file it stands in."""
    window: VersionWindow = ANY_VERSION
    payload_type: str
    payload: bytes | None = None
    """None: the payload is that of an earlier rule, or else the properties as JSON."""
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    def inheriting(self, kind: str | None) -> EngineRule:
        """Returns the rule with the kind of its file where it has none."""
        return self if self.kind is not None or kind is None else replace(self, kind=kind)

    def matches(self, engine: EngineKey) -> bool:
        """Returns whether it is for that engine; one without a kind is for all."""
        return self.kind in (None, engine.kind) and self.window.includes(engine.version)


def matching(rules: Iterable[EngineRule], engine: EngineKey) -> Iterator[EngineRule]:
    """Yields the rules for an engine, in their order."""
    return (rule for rule in rules if rule.matches(engine))


def published(rules: Iterable[EngineRule], engine: EngineKey) -> dict[str, EngineHint]:
    """Returns the hints that rules make for an engine, by payload type."""
    payloads: dict[str, bytes | None] = {}
    properties: dict[str, dict[str, str]] = {}
    for rule in matching(rules, engine):
        earlier = payloads.get(rule.payload_type)
        payloads[rule.payload_type] = earlier if rule.payload is None else rule.payload
        properties.setdefault(rule.payload_type, {}).update(rule.properties)
    return {name: _hint(name, payload, properties[name]) for name, payload in payloads.items()}


def _hint(payload_type: str, payload: bytes | None, properties: dict[str, str]) -> EngineHint:
    if payload is None:
        payload = json.dumps(properties, sort_keys=True, separators=(",", ":")).encode()
    return EngineHint(payload_type=payload_type, payload=payload, metadata=MappingProxyType(properties))
