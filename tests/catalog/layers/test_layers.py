"""Layers: whose entries they hold, what settings make of them, and what an invalidation takes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from lakehouse.cache import CacheBudget, CacheSpec, identity_tags
from lakehouse.catalog.layers import Layers
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError
from lakehouse.testing import ManualClock

ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def layers(clock: ManualClock | None = None, **given: object) -> Layers:
    """Layers under a budget, with these settings."""
    clock = clock or ManualClock()
    settings = Settings.resolve({name.replace("__", "."): value for name, value in given.items()})
    return Layers(CacheBudget.of(settings, clock=clock), settings, clock)


async def load(key: Any) -> Any:
    """The key itself as the value."""
    return key


async def test_accounts_do_not_share_pointers() -> None:
    """What one account was told of a name is not there for another."""
    made = layers()
    mine, theirs = made.account("me"), made.account("them")
    mine.pointers.put(mine.pointer_key("ice", ("db", "t")), "a pointer")
    assert theirs.pointers.get_if_present(theirs.pointer_key("ice", ("db", "t"))) is None
    assert made.account("me") is mine


async def test_an_account_may_have_the_name_of_a_layer() -> None:
    """An account called as a layer has nothing to do with that layer's bytes."""
    made = layers()
    made.account("table").pointers.put(("table", "ice", "t"), "a pointer")
    made.table.put(("key",), "content")
    made.forget("table")
    assert made.table.get_if_present(("key",)) == "content"


async def test_a_forgotten_account_leaves_nothing() -> None:
    """Entries, floor and statistics of an account that is forgotten are given back."""
    made = layers(cache__max_bytes=1 << 20, cache__account_floor_bytes=1 << 19)
    before = made.budget.weight, len(made.budget.stats())
    first = made.account("first")
    first.pointers.put(first.pointer_key("ice", ("t",)), "a pointer")
    assert made.forget("first") == 1
    assert (made.budget.weight, len(made.budget.stats())) == before
    made.account("second")
    assert made.forget("nobody") == 0


async def test_accounts_beyond_the_floors_have_none_and_work() -> None:
    """Floors take half of the budget at most; the account that finds none left is served all the same."""
    made = layers(cache__max_bytes=1 << 20, cache__account_floor_bytes=400_000)
    for number in range(50):
        account = made.account(f"a{number}")
        assert account.pointers.put(account.pointer_key("ice", ("t",)), "a pointer")


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ((), []),
        (("a",), ["other.t"]),
        (("a", "t"), ["a.u", "a.b.t", "other.t"]),
        (("a", "b"), ["a.t", "a.u", "other.t"]),
    ],
    ids=["catalog", "namespace", "table", "inner namespace"],
)
async def test_an_invalidation_takes_what_it_names(path: tuple[str, ...], kept: list[str]) -> None:
    """Dropping a catalog, a namespace or a table drops the pointers in it and no others."""
    account = layers().account()
    names = [("a", "t"), ("a", "u"), ("a", "b", "t"), ("other", "t")]
    for name in names:
        account.pointers.put(account.pointer_key("ice", name), name)
    account.pointers.put(account.pointer_key("ice2", ("a", "t")), "in another catalog")
    account.drop("ice", path)
    found = [n for n in names if account.pointers.get_if_present(account.pointer_key("ice", n))]
    assert [".".join(name) for name in found] == kept
    assert account.pointers.get_if_present(account.pointer_key("ice2", ("a", "t")))


async def test_a_name_with_dots_is_one_part() -> None:
    """A table whose name has a dot is not in the namespace that its name seems to begin with."""
    account = layers().account()
    account.pointers.put(account.pointer_key("ice", ("a.b", "t")), "dotted")
    account.drop("ice", ("a",))
    assert account.pointers.get_if_present(account.pointer_key("ice", ("a.b", "t"))) == "dotted"


async def test_dropping_a_table_drops_the_listings_that_show_it() -> None:
    """The listing of the namespace of a dropped name goes; those of other namespaces stay."""
    account = layers().account()
    for namespace in ((), ("a",), ("b",)):
        account.names.put(account.names_key("ice", namespace, "page 1"), namespace or "root")
    account.drop("ice", ("a", "t"))
    assert account.names.get_if_present(account.names_key("ice", ("a",), "page 1")) is None
    assert account.names.get_if_present(account.names_key("ice", ("b",), "page 1"))
    assert account.names.get_if_present(account.names_key("ice", (), "page 1"))


async def test_content_of_one_identity_goes_alone() -> None:
    """Dropping the content of a table leaves that of another under the same name."""
    made = layers()
    for identity in (ONE, OTHER):
        for layer in (made.table, made.schema, made.partitions):
            layer.put((str(identity), "1"), "content", tags=identity_tags(identity))
    assert made.drop_content([ONE]) == 3
    assert made.table.get_if_present((str(ONE), "1")) is None
    assert made.schema.get_if_present((str(OTHER), "1")) == "content"


async def test_a_pointer_is_stale_within_its_bound_and_no_longer() -> None:
    """A pointer is served up to its ttl after its load began, and then read again."""
    clock = ManualClock()
    made = layers(clock, meta__cache__pointer__ttl=2.0)
    pointers, asked = made.account().pointers, list[Any]()

    async def noted(key: Any) -> int:
        asked.append(key)
        return len(asked)

    assert await pointers.get(("k",), noted) == 1
    await clock.advance(1.9)
    assert await pointers.get(("k",), noted) == 1
    await clock.advance(0.2)
    assert await pointers.get(("k",), noted) == 2


async def test_content_never_grows_stale() -> None:
    """Content is served without a look at its source, however old it is."""
    clock = ManualClock()
    made = layers(clock)
    made.table.put(("k",), "content")
    await clock.advance(1e9)
    assert made.table.get_if_present(("k",)) == "content"


@pytest.mark.parametrize("given", [{"ttl": 0}, {"enable": False}, {"max_bytes": 0}], ids=str)
@pytest.mark.parametrize("layer", ["pointer", "table", "table_manifests", "iceberg_manifests", "run_data"])
async def test_a_layer_that_is_turned_off_keeps_nothing(layer: str, given: dict[str, object]) -> None:
    """ttl 0, enable false and no bytes turn any layer off, also those that other rooms have made."""
    made = layers(**{f"meta__cache__{layer}__{name}": value for name, value in given.items()})
    region = (
        made.account().pointers
        if layer == "pointer"
        else made.budget.region(
            made.table.spec if layer == "table" else CacheSpec(name=layer.replace("_", "-"))
        )
    )
    assert not region.put(("k",), "content")
    assert await region.get(("k",), load) == ("k",)
    assert (len(region), region.stats().enabled, region.stats().configured) == (0, False, False)


def test_an_account_has_a_name() -> None:
    """The empty name is refused: it is no account."""
    with pytest.raises(InvalidInputError, match="an account has a name"):
        layers().account("")
