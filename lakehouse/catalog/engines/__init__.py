"""Engines: planners that ask the catalog, their versions in order, and rules of which versions get what.

Words: *engine* (a planner's kind and version) → *window* (versions from a first to a last, both included)
→ *rule* (what an engine inside a window is told) → *payload type* (namespaced name of a payload's format).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.engines.engine import EngineKey
    from lakehouse.catalog.engines.payload_types import PayloadType
    from lakehouse.catalog.engines.rules import EngineRule, matching, published
    from lakehouse.catalog.engines.versions import ANY_VERSION, VersionWindow, version_key

__all__ = [
    "ANY_VERSION",
    "EngineKey",
    "EngineRule",
    "PayloadType",
    "VersionWindow",
    "matching",
    "published",
    "version_key",
]

__getattr__, __dir__ = door(
    __name__,
    {
        "engine": "EngineKey",
        "payload_types": "PayloadType",
        "rules": "EngineRule matching published",
        "versions": "ANY_VERSION VersionWindow version_key",
    },
)
