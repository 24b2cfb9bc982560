"""Hints of builtins, which the rules of their files publish."""

from __future__ import annotations

import json

from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.hints import EngineHintManager, SystemCatalogHintProvider
from lakehouse.catalog.nodes import EngineHint
from lakehouse.catalog.system import SystemRegistry

_TOY = """
format = 1
engine = "toy"
source = "a test"
[[functions]]
name = "f"
[[functions.rules]]
payload_type = "toy.function+json"
payload = { cost = 1 }
properties = { strict = "no", parallel = "yes" }
[[functions.rules]]
payload_type = "toy.function+json"
min_version = "2"
payload = { cost = 2 }
properties = { strict = "yes" }
[[functions]]
name = "g"
"""


async def _hint(
    manager: EngineHintManager, registry: SystemRegistry, name: str, version: str, payload_type: str
) -> EngineHint | None:
    (node,) = (await registry.system_objects("toy", version)).named("function", name)
    return await manager.hint(node, EngineKey("toy", version), payload_type)


def _made(*texts: str) -> tuple[EngineHintManager, SystemRegistry]:
    registry = SystemRegistry()
    for number, text in enumerate(texts):
        registry.add(text, name=f"{number}.toml")
    provider = SystemCatalogHintProvider(registry)
    return EngineHintManager(fallbacks=[provider], discover=False), registry


async def test_rules_publish_by_version() -> None:
    """The last rule that matches the version gives the payload; properties are laid over each other."""
    manager, registry = _made(_TOY)
    for version, cost, strict in (("1.9", 1, "no"), ("2.0", 2, "yes"), ("", 2, "yes")):
        hint = await _hint(manager, registry, "f", version, "toy.function+json")
        assert hint is not None
        assert json.loads(hint.payload) == {"cost": cost}
        assert dict(hint.metadata) == {"strict": strict, "parallel": "yes"}


async def test_builtins_without_rules_have_no_hints() -> None:
    """A builtin that no rule is about, and a payload type that none publishes, have no hint."""
    manager, registry = _made(_TOY)
    assert await _hint(manager, registry, "g", "1", "toy.function+json") is None
    assert await _hint(manager, registry, "f", "1", "toy.other+json") is None


async def test_a_file_that_is_added_changes_hints() -> None:
    """A file laid over the others moves the fingerprint: its rules win at once."""
    manager, registry = _made(_TOY)
    assert await _hint(manager, registry, "f", "1", "toy.function+json") is not None
    registry.add(
        'format = 1\nengine = "toy"\n[[functions]]\nname = "f"\n[[functions.rules]]\n'
        'payload_type = "toy.function+json"\npayload = "mine"\n',
        name="mine.toml",
    )
    hint = await _hint(manager, registry, "f", "1", "toy.function+json")
    assert hint is not None
    assert hint.payload == b"mine"
