"""Providers of hints: the calls that one answers, and those that installed packages bring."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, runtime_checkable

from lakehouse.catalog.engines.engine import EngineKey
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import EngineHint, Node
from lakehouse.errors import InvalidInputError

__all__ = ["HINT_PROVIDERS", "HintProvider", "found_providers"]

HINT_PROVIDERS = "lakehouse.engine_hints"
"""Group of entry points by which packages bring providers."""


@runtime_checkable
class HintProvider(Protocol):
    """Computes hints of some payload types for nodes of some kinds."""

    def supports(self, kind: NodeKind, payload_type: str) -> bool:
        """Returns whether it makes payloads of that type for nodes of that kind."""
        ...

    def is_available(self, engine: EngineKey) -> bool:
        """Returns whether it serves that engine; an empty version is any."""
        ...

    def fingerprint(self, node: Node, engine: EngineKey, payload_type: str) -> str:
        """Returns a text that changes when the hint of an unchanged node does, such as its own version."""
        ...

    async def compute(self, node: Node, engine: EngineKey, payload_type: str) -> EngineHint | None:
        """Computes a hint; None = there is none for this node."""
        ...


def found_providers() -> Iterator[HintProvider]:
    """Yields the providers of installed packages, in order of their names."""
    for entry in sorted(entry_points(group=HINT_PROVIDERS), key=lambda entry: entry.name):
        yield _loaded(entry)


def _loaded(entry: EntryPoint) -> HintProvider:
    """Loads an entry point: a provider, or a class or function that makes one."""
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"{_named(entry)} cannot be loaded: {error}", entry=entry.name) from error
    # A class has the methods too, so that having them does not tell an object from what makes it.
    provider = found() if isinstance(found, type) or not isinstance(found, HintProvider) else found
    if not isinstance(provider, HintProvider):
        raise InvalidInputError(
            f"{_named(entry)} makes no provider: it lacks methods of lakehouse.catalog.hints.HintProvider",
            entry=entry.name,
        )
    return provider


def _named(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "an unknown package"
    return f"the entry point {entry.name!r} ({entry.value}) of {package} in {HINT_PROVIDERS}"
