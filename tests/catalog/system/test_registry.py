"""Registry of system objects: overlays by engine and version, bounded and laid over each other."""

from __future__ import annotations

import asyncio

import pytest

from lakehouse.cache import CacheBudget, CacheStats, weigh
from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.system import SYSTEM_ACCOUNT, BuiltinSort, SystemRegistry
from lakehouse.clock import SystemClock
from lakehouse.config import CacheSettings, Settings
from lakehouse.errors import InvalidInputError, NotFoundError

_TOY = """
format = 1
engine = "toy"
source = "a test"
[[types]]
name = "INT"
aliases = ["int4"]
[[functions]]
name = "f"
signatures = ["(INT) -> INT"]
max_version = "1.999"
[[functions]]
name = "f"
signatures = ["(INT) -> INT"]
category = "new"
min_version = "2"
[[functions]]
name = "g"
min_version = "2"
[[functions.rules]]
payload_type = "toy.f+json"
payload = "1"
"""


def _registry(*texts: str, budget: CacheBudget | None = None) -> SystemRegistry:
    """A registry in the layers of a budget, or alone."""
    layers = None if budget is None else Layers(budget, Settings(), SystemClock())
    registry = SystemRegistry(None if layers is None else layers.overlay)
    for number, text in enumerate(texts):
        registry.add(text, name=f"{number}.toml")
    return registry


async def test_a_missing_kind_is_refused() -> None:
    """System objects are asked for by the kind of engine, which must be given."""
    for kind in (None, "", "  "):
        with pytest.raises(InvalidInputError, match="name its kind"):
            await _registry().system_objects(kind, "1")


async def test_an_unknown_kind_is_told() -> None:
    """A kind that no file describes is an error that suggests one."""
    with pytest.raises(NotFoundError, match="did you mean 'postgres'"):
        await _registry().system_objects("postgresql", "16")


async def test_a_missing_version_is_any() -> None:
    """Without a version all that some version has is there, once, as its newest definition says."""
    objects = await _registry(_TOY).system_objects("toy")
    assert [node.name for node in objects.of("function")] == ["f", "g"]
    assert objects.named("function", "F")[0].builtin.category == "new"


async def test_an_overlay_has_what_its_version_has() -> None:
    """Builtins are there inside their windows, relations in every version."""
    registry = _registry(_TOY)
    old, new = await registry.system_objects("toy", "1.5"), await registry.system_objects("TOY", "2.0")
    assert [node.name for node in old.of(BuiltinSort.FUNCTION)] == ["f"]
    assert [node.name for node in new.of(BuiltinSort.FUNCTION)] == ["f", "g"]
    assert old.relations == new.relations != ()


@pytest.mark.parametrize("engine", [None, EngineKey(""), EngineKey("unheard-of", "7")])
async def test_resolution_falls_back_to_information_schema(engine: EngineKey | None) -> None:
    """An engine that is missing or not known resolves names with the relations, which are always there."""
    objects = (await _registry(_TOY).overlay(engine)).objects
    assert objects.builtins == ()
    assert objects.relation(("information_schema", "tables")) is not None
    assert objects.relation(("INFORMATION_SCHEMA", "Columns")) is not None
    assert objects.relation(("information_schema", "none")) is None


async def test_ids_of_system_objects_are_the_same_for_ever() -> None:
    """An id is made of what an object is: the same in each process and version, and nobody else's."""
    one, other = _registry(_TOY), _registry(_TOY)
    (old,) = (await one.system_objects("toy", "1")).named("function", "f")
    (new,) = (await other.system_objects("toy", "2")).named("function", "f")
    assert old.id == new.id
    assert old.id.account == SYSTEM_ACCOUNT
    assert ResourceId.parse(str(old.id)) == old.id
    assert str(old.id.uuid) == "39ba82f9-0951-54de-840b-e4e432158797"
    ids = [node.id for node in (await one.system_objects("duckdb")).builtins]
    assert len({*ids}) == len(ids)


async def test_objects_are_found_by_id_and_name() -> None:
    """Every object is found by its id; types by their other names too, whatever their case."""
    objects = await _registry(_TOY).system_objects("toy", "2")
    for node in (*objects.relations, *objects.builtins):
        assert objects.node(node.id) is node
    assert objects.named("type", "INT4") == objects.named("type", "int")
    assert len(objects) == len(objects.relations) + len(objects.builtins)


async def test_a_file_is_laid_over_those_before() -> None:
    """A definition that comes again replaces the one below and keeps its rules, in order."""
    more = (
        'format = 1\nengine = "toy"\nsource = "more"\n[[functions]]\nname = "g"\ncategory = "mine"\n'
        '[[functions.rules]]\npayload_type = "toy.f+json"\npayload = "2"\n[[functions]]\nname = "h"\n'
        'signatures = ["(int4)"]\n'
    )
    registry = _registry(_TOY, more)
    overlay = await registry.overlay(EngineKey("toy", "3"))
    (g,), (h,) = (overlay.objects.named("function", name) for name in "gh")
    assert g.builtin.category == "mine"
    assert [rule.payload for rule in overlay.rules[g.id]] == [b"1", b"2"]
    assert h.builtin.arguments == ("INT",)  # the type is defined in the file below


async def test_a_file_that_is_added_is_seen_at_once() -> None:
    """Overlays that were cached are made anew when a file is added."""
    registry = _registry(_TOY)
    assert (await registry.system_objects("toy", "2")).named("function", "h") == ()
    registry.add('format = 1\nengine = "toy"\n[[functions]]\nname = "h"\n', name="more.toml")
    assert len((await registry.system_objects("toy", "2")).named("function", "h")) == 1


def test_a_file_with_errors_is_not_added() -> None:
    """A file that has errors is refused with the first of them, and changes nothing."""
    registry = _registry()
    with pytest.raises(InvalidInputError, match=r"bad\.toml:2: error"):
        registry.add('format = 1\nengine = "a b"\n[[functions]]\n', name="bad.toml")
    assert "toy" not in registry.kinds


def _overlays(budget: CacheBudget) -> CacheStats:
    """Statistics of the cache of overlays."""
    return next(each for each in budget.stats() if each.name == "overlay")


async def test_an_overlay_is_made_once() -> None:
    """Whoever asks for one engine and version at the same time, or later, shares one overlay."""
    budget = CacheBudget()
    registry = _registry(_TOY, budget=budget)
    overlays = await asyncio.gather(*(registry.overlay(EngineKey("toy", "2")) for _ in range(20)))
    assert len({id(overlay) for overlay in overlays}) == 1
    assert _overlays(budget).counters.loads == 1


async def test_overlays_are_bounded() -> None:
    """Versions that nobody has do not fill the memory: what is cached stays below the bound."""
    budget = CacheBudget(CacheSettings(max_bytes=100_000, max_entry_share=1))
    registry = _registry(_TOY, budget=budget)
    for number in range(200):
        await registry.overlay(EngineKey("toy", f"2.{number}"))
    assert 0 < budget.weight <= 100_000
    assert 0 < _overlays(budget).entries < 20


async def test_what_an_overlay_says_it_weighs_is_what_it_takes() -> None:
    """The weight of an overlay, which is told and not measured, is no less than what is measured."""
    overlay = await _registry().overlay(EngineKey("duckdb", "2.0"))
    assert weigh(overlay) <= overlay.weight <= 2 * weigh(overlay)
