"""Manager of hints: finds the provider, computes a hint once, keeps it while what it depends on is the same.

Invariants: a hint is kept under the content of its node and the provider's fingerprint, so an update that
changes nothing keeps hints, and one that changes something never shows old ones; concurrent requests for one
hint compute it once; failures and absence are not kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Hashable, Iterable
from types import MappingProxyType
from typing import TypeVar

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec
from lakehouse.catalog.engines.engine import EngineKey
from lakehouse.catalog.engines.payload_types import PayloadType
from lakehouse.catalog.hints.decoders import HintDecoders
from lakehouse.catalog.hints.providers import HintProvider, found_providers
from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.nodes import EngineHint, EngineHintKey, Node
from lakehouse.config import CatalogSettings
from lakehouse.errors import InvalidInputError

__all__ = ["EngineHintManager"]

N = TypeVar("N", bound=Node)

_ALONE = CacheSpec(name="hints", max_bytes=64 * 1024 * 1024)
_CONTENTS_MAX = 4096
"""Nodes whose content is remembered at once."""
_NO_CONTENT = frozenset({"version", "updated_ms", "hints"})
"""Fields of nodes that may differ between nodes of equal content."""


class EngineHintManager:
    """Hints of nodes for engines.

    Args:
        region: cache of hints; None = one of its own.
        providers: asked before those of installed packages, in this order.
        fallbacks: asked behind them.
        discover: whether providers of installed packages are asked.
        max_bytes: of a hint, its metadata included; None = the default of the setting.
    """

    def __init__(
        self,
        region: CacheRegion[tuple[Hashable, ...], EngineHint] | None = None,
        *,
        providers: Iterable[HintProvider] = (),
        fallbacks: Iterable[HintProvider] = (),
        discover: bool = True,
        max_bytes: int | None = None,
    ) -> None:
        self._cache = region or CacheBudget().region(_ALONE)
        self._registered = [*providers]
        self._found: list[HintProvider] | None = None if discover else []
        self._fallbacks = [*fallbacks]
        self._max_bytes = CatalogSettings().hint_max_bytes if max_bytes is None else max_bytes
        self._contents: dict[tuple[ResourceId, str], bytes] = {}
        self.decoders = HintDecoders()
        """Decoders of payloads, by family of payload types."""

    @property
    def providers(self) -> tuple[HintProvider, ...]:
        """Providers in the order in which they are asked; those of packages are loaded at the first call."""
        if self._found is None:
            self._found = [*found_providers()]
        return (*self._registered, *self._found, *self._fallbacks)

    def register(self, provider: HintProvider) -> None:
        """Registers a provider, behind those that were registered before and ahead of all others."""
        if not isinstance(provider, HintProvider):
            raise InvalidInputError(
                f"{provider!r} is no provider: it needs the methods of lakehouse.catalog.hints.HintProvider"
            )
        self._registered.append(provider)

    async def hint(self, node: Node, engine: EngineKey, payload_type: str) -> EngineHint | None:
        """Returns the hint of a node for an engine; None where no provider has one.

        Args:
            node: of any kind.
            engine: kind and version; an empty version is any.
            payload_type: namespaced name of the payload's format, such as ``lakehouse.type+json``.
        """
        PayloadType.parse(payload_type)
        provider = next(
            (p for p in self.providers if p.supports(node.kind, payload_type) and p.is_available(engine)),
            None,
        )
        if provider is None:
            return None
        fingerprint = provider.fingerprint(node, engine, payload_type)
        key = (node.id, self._content(node), engine, payload_type, fingerprint)

        async def compute(_: Hashable) -> EngineHint | None:
            return self._checked(await provider.compute(node, engine, payload_type), node, payload_type)

        # The first tag is that of everything kept of an incarnation, by which a drop frees all layers.
        tags = (("identity", node.id.uuid.bytes), _tag(node.id))
        return await self._cache.get(key, compute, tags=tags)

    async def hinted(self, node: N, engine: EngineKey, payload_types: Iterable[str]) -> N:
        """Returns a node with its hints of some payload types for an engine, as far as there are any."""
        found: dict[EngineHintKey, EngineHint] = dict(node.hints)
        for payload_type in payload_types:
            hint = await self.hint(node, engine, payload_type)
            if hint is not None:
                key = EngineHintKey(kind=engine.kind, version=engine.version, payload_type=payload_type)
                found[key] = hint
        return dataclasses.replace(node, hints=MappingProxyType(found))

    def invalidate(self, resource: ResourceId) -> int:
        """Drops the hints of a node, for all engines; says how many."""
        return self._cache.invalidate_tag(_tag(resource))

    def _content(self, node: Node) -> bytes:
        """Returns a digest of a node's content, which equal nodes of different versions share."""
        known = self._contents.get((node.id, node.version))
        if known is not None:
            return known
        fields = (f.name for f in dataclasses.fields(node) if f.name not in _NO_CONTENT)
        text = repr([(name, getattr(node, name)) for name in fields])
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        if len(self._contents) >= _CONTENTS_MAX:
            self._contents.clear()
        self._contents[node.id, node.version] = digest
        return digest

    def _checked(self, hint: EngineHint | None, node: Node, payload_type: str) -> EngineHint | None:
        """Returns a hint that may be handed out."""
        if hint is None:
            return None
        if hint.payload_type != payload_type:
            raise InvalidInputError(
                f"a provider answered with a payload {hint.payload_type} to a request for {payload_type}",
                resource=str(node.id),
            )
        size = len(hint.payload) + sum(sys.getsizeof(text) for pair in hint.metadata.items() for text in pair)
        if size > self._max_bytes:
            raise InvalidInputError(
                f"the hint {payload_type} of {node.id} has {size:,} bytes, and {self._max_bytes:,} are "
                "allowed: hints travel with every plan, so put large things elsewhere and a reference here",
                resource=str(node.id),
                size=size,
                limit=self._max_bytes,
            )
        return hint


def _tag(resource: ResourceId) -> Hashable:
    return ("hints", resource)
