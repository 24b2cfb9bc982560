"""Manager of hints: who computes them, when they are kept, and when they are not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.hints import EngineHintManager, HintProvider
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.nodes import EngineHint, EngineHintKey
from lakehouse.clock import SystemClock
from lakehouse.config import CacheSettings, Settings
from lakehouse.errors import InvalidInputError, UnavailableError
from tests.kit.hint_providers import Provider
from tests.kit.system_listings import table_node, view_node

_TYPE = "test.type+json"
_PG16 = EngineKey("postgres", "16")
_NODE = table_node(("db", "t"))


def _manager(*providers: HintProvider, max_bytes: int = 1000) -> EngineHintManager:
    return EngineHintManager(providers=providers, discover=False, max_bytes=max_bytes)


async def test_a_hint_is_computed_when_it_is_asked_for() -> None:
    """Nothing is computed ahead; the second request is answered from the cache."""
    provider = Provider()
    manager = _manager(provider)
    assert provider.asked == []
    hints = [await manager.hint(_NODE, _PG16, _TYPE) for _ in range(3)]
    assert [hint.payload for hint in hints if hint is not None] == [b"1"] * 3
    assert provider.asked == [_NODE]


async def test_the_first_provider_that_supports_and_is_available_wins() -> None:
    """Providers are asked in order; one of another payload type or engine is passed over."""
    other, elsewhere = Provider(b"other", payload_type="test.other+json"), Provider(b"no", kinds=("duckdb",))
    first, second = Provider(b"first"), Provider(b"second")
    hint = await _manager(other, elsewhere, first, second).hint(_NODE, _PG16, _TYPE)
    assert hint == EngineHint(payload_type=_TYPE, payload=b"first")
    assert [len(each.asked) for each in (other, elsewhere, first, second)] == [0, 0, 1, 0]


async def test_without_a_provider_there_is_no_hint() -> None:
    """A node, type or engine that nobody serves has no hint, which is no error."""
    manager = _manager(Provider(kinds=("duckdb",)))
    assert await manager.hint(_NODE, _PG16, _TYPE) is None
    assert await manager.hint(view_node(("db", "v")), EngineKey("duckdb"), _TYPE) is None
    assert await manager.hint(_NODE, EngineKey("duckdb"), "test.none+json") is None


async def test_concurrent_requests_compute_a_hint_once() -> None:
    """A hundred planners that ask for one hint at the same time wait for one computation."""
    provider = Provider()
    provider.gate = asyncio.Event()
    manager = _manager(provider)
    tasks = [asyncio.create_task(manager.hint(_NODE, _PG16, _TYPE)) for _ in range(100)]
    await asyncio.sleep(0)
    provider.gate.set()
    assert {hint.payload for hint in await asyncio.gather(*tasks) if hint is not None} == {b"1"}
    assert len(provider.asked) == 1


async def test_a_caller_that_gives_up_leaves_the_computation_to_others() -> None:
    """Cancelling one of two who wait does not cancel the other's hint."""
    provider = Provider()
    provider.gate = asyncio.Event()
    manager = _manager(provider)
    first, second = (asyncio.create_task(manager.hint(_NODE, _PG16, _TYPE)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    provider.gate.set()
    assert await second is not None
    assert len(provider.asked) == 1


async def test_exceptions_propagate_and_are_not_kept() -> None:
    """What a provider raises reaches the caller as it is, and the next request computes again."""
    provider = Provider()
    provider.error = UnavailableError("away")
    manager = _manager(provider)
    with pytest.raises(UnavailableError) as caught:
        await manager.hint(_NODE, _PG16, _TYPE)
    assert caught.value is provider.error
    provider.error = None
    assert await manager.hint(_NODE, _PG16, _TYPE) is not None


async def test_an_empty_result_is_not_kept() -> None:
    """A provider that has no hint yet is asked again."""
    provider = Provider(None)
    manager = _manager(provider)
    assert await manager.hint(_NODE, _PG16, _TYPE) is None
    provider.payload = b"now"
    hint = await manager.hint(_NODE, _PG16, _TYPE)
    assert hint is not None
    assert hint.payload == b"now"


async def test_an_oversized_hint_is_refused_with_its_limit() -> None:
    """A hint that is too large is an error that says how large it may be, payload and metadata together."""
    manager = _manager(Provider(b"x" * 1001))
    with pytest.raises(InvalidInputError, match="1,001 bytes, and 1,000 are allowed"):
        await manager.hint(_NODE, _PG16, _TYPE)
    assert await _manager(Provider(b"x" * 1000)).hint(_NODE, _PG16, _TYPE) is not None


async def test_a_payload_type_must_be_namespaced() -> None:
    """A payload type that could be anybody's is refused before any provider is asked."""
    provider = Provider(payload_type="type")
    with pytest.raises(InvalidInputError, match="namespace"):
        await _manager(provider).hint(_NODE, _PG16, "type")


async def test_an_answer_of_another_type_is_refused() -> None:
    """A provider that answers with another payload type than it was asked for is told so."""

    class Wrong(Provider):
        async def compute(self, node: object, engine: object, payload_type: str) -> EngineHint:
            return EngineHint(payload_type="test.other+json", payload=b"")

    with pytest.raises(InvalidInputError, match=r"answered with a payload test\.other\+json"):
        await _manager(Wrong()).hint(_NODE, _PG16, _TYPE)


async def test_engines_types_and_fingerprints_have_hints_of_their_own() -> None:
    """Another version of the engine, payload type or fingerprint is another hint."""
    provider = Provider()
    manager = _manager(provider, Provider(payload_type="test.other+json"))
    await manager.hint(_NODE, _PG16, _TYPE)
    await manager.hint(_NODE, EngineKey("postgres", "17"), _TYPE)
    await manager.hint(_NODE, _PG16, "test.other+json")
    assert len(provider.asked) == 2
    provider.print, provider.payload = "2", b"new"
    hint = await manager.hint(_NODE, _PG16, _TYPE)
    assert hint is not None
    assert hint.payload == b"new"


async def test_an_update_of_equal_content_keeps_hints() -> None:
    """A node that was written again without a change has its hints still (floecat#391)."""
    provider = Provider()
    manager = _manager(provider)
    await manager.hint(_NODE, _PG16, _TYPE)
    key = EngineHintKey(kind="postgres", version="16", payload_type=_TYPE)
    attached = {key: EngineHint(payload_type=_TYPE, payload=b"1")}
    await manager.hint(replace(_NODE, version="2", updated_ms=99, hints=attached), _PG16, _TYPE)
    assert len(provider.asked) == 1


async def test_a_change_of_content_never_shows_an_old_hint() -> None:
    """A node whose content has changed is computed anew."""
    provider = Provider()
    manager = _manager(provider)
    await manager.hint(_NODE, _PG16, _TYPE)
    await manager.hint(replace(_NODE, version="2", not_null=("id",)), _PG16, _TYPE)
    assert len(provider.asked) == 2


async def test_invalidation_removes_all_hints_of_an_id_and_no_others() -> None:
    """Whoever invalidates an id drops its hints for every engine; those of other nodes stay."""
    provider, other = Provider(), table_node(("db", "other"))
    manager = _manager(provider)
    for node in (_NODE, other):
        await manager.hint(node, _PG16, _TYPE)
        await manager.hint(node, EngineKey("postgres", "17"), _TYPE)
    assert manager.invalidate(_NODE.id) == 2
    await manager.hint(_NODE, _PG16, _TYPE)
    await manager.hint(other, _PG16, _TYPE)
    assert [node.path[-1] for node in provider.asked] == ["t", "t", "other", "other", "t"]


async def test_an_invalidation_during_a_computation_never_lets_the_old_hint_land() -> None:
    """A hint whose id was invalidated while it was computed is not kept."""
    provider = Provider(b"old")
    provider.gate = asyncio.Event()
    manager = _manager(provider)
    asking = asyncio.create_task(manager.hint(_NODE, _PG16, _TYPE))
    await asyncio.sleep(0)
    manager.invalidate(_NODE.id)
    provider.gate.set()
    await asking
    provider.payload = b"new"
    hint = await manager.hint(_NODE, _PG16, _TYPE)
    assert hint is not None
    assert hint.payload == b"new"


async def test_what_hints_take_is_bounded() -> None:
    """Hints of any number of nodes stay within the bytes of their layer; the rest is computed again."""
    budget = CacheBudget(CacheSettings(max_bytes=200_000, max_entry_share=1))
    region = budget.region(CacheSpec(name="hints"))
    manager = EngineHintManager(region, providers=[Provider(b"x" * 900)], discover=False)
    for number in range(1000):
        await manager.hint(table_node(("db", f"t{number}")), _PG16, _TYPE)
    assert 0 < budget.weight <= 200_000


async def test_dropping_a_tables_content_drops_its_hints() -> None:
    """What drops all that layers keep of an incarnation drops its hints too."""
    layers = Layers(CacheBudget(), Settings(), SystemClock())
    provider = Provider()
    manager = EngineHintManager(layers.hints, providers=[provider], discover=False)
    await manager.hint(_NODE, _PG16, _TYPE)
    assert layers.drop_content([_NODE.id.uuid]) == 1
    await manager.hint(_NODE, _PG16, _TYPE)
    assert len(provider.asked) == 2


async def test_a_node_is_given_its_hints() -> None:
    """A node comes back with the hints that there are, beside those it has; itself it does not change."""
    manager = _manager(Provider())
    node = await manager.hinted(_NODE, _PG16, [_TYPE, "test.none+json"])
    node = await manager.hinted(node, EngineKey("postgres", "17"), [_TYPE])
    assert {key.version: hint.payload for key, hint in node.hints.items()} == {"16": b"1", "17": b"1"}
    assert not _NODE.hints
    assert replace(node, hints={}) == replace(_NODE, hints={})


def test_only_providers_are_registered() -> None:
    """Something without the methods of a provider is refused when it is registered, not when it is asked."""
    manager = _manager()
    with pytest.raises(InvalidInputError, match="no provider"):
        manager.register(object())  # type: ignore[arg-type]
    provider = Provider()
    manager.register(provider)
    assert manager.providers == (provider,)
