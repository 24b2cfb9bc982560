"""Hints for engines: what a planner wants to know of a node and the node itself does not say.

Words: *provider* (computes hints of some payload types) → *fingerprint* (its text for what a hint depends on
besides the node) → *hint* (a payload with its type) → *decoder* (reads payloads of a family of types).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.hints.decoders import HintDecoders
    from lakehouse.catalog.hints.manager import EngineHintManager
    from lakehouse.catalog.hints.providers import HINT_PROVIDERS, HintProvider, found_providers
    from lakehouse.catalog.hints.system_hints import SystemCatalogHintProvider

__all__ = [
    "HINT_PROVIDERS",
    "EngineHintManager",
    "HintDecoders",
    "HintProvider",
    "SystemCatalogHintProvider",
    "found_providers",
]

__getattr__, __dir__ = door(
    __name__,
    {
        "decoders": "HintDecoders",
        "manager": "EngineHintManager",
        "providers": "HINT_PROVIDERS HintProvider found_providers",
        "system_hints": "SystemCatalogHintProvider",
    },
)
