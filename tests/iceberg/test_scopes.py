"""Scopes: who shares content with whom, and what becomes of it when credentials change."""

from __future__ import annotations

import pytest

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.iceberg.scopes import Scopes, scope_tag, store_digest

_SPEC = CacheSpec(name="content")
A = {"type": "rest", "uri": "http://c", "token": "a"}
B = {"type": "rest", "uri": "http://c", "token": "b"}


def test_equal_properties_are_one_scope() -> None:
    """Catalogs with the same properties share, whatever the order they are written in; others do not."""
    scopes = Scopes(CacheBudget())
    one, same, other = scopes.enter(A), scopes.enter(dict(reversed(A.items()))), scopes.enter(B)
    assert one.who == same.who != other.who


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "bc"}, {"ab": "c"}),
        ({"a": "1"}, {"a": 1}),
        ({"a": ["b", "c"]}, {"a": ["bc"]}),
        ({"a": {"b": "c"}}, {"a": "b", "c": ""}),
        ({"a": None}, {}),
    ],
)
def test_other_properties_are_another_scope(one: dict[str, object], other: dict[str, object]) -> None:
    """Properties that differ in anything, type and nesting included, do not share."""
    scopes = Scopes(CacheBudget())
    assert scopes.enter(one).who != scopes.enter(other).who


def test_scopes_of_two_lakes_are_never_one() -> None:
    """Scopes that were made apart have other names, also where they are under one budget."""
    budget = CacheBudget()
    assert Scopes(budget).enter(A).who != Scopes(budget).enter(B).who


def test_objects_are_like_no_other() -> None:
    """A property that is an object, which may say something else tomorrow, makes a scope of its own."""
    scopes, ask = Scopes(CacheBudget()), object()
    assert scopes.enter({"credentials": ask}).who != scopes.enter({"credentials": ask}).who


def test_the_environment_is_part_of_a_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that stores take from the environment tell scopes apart as those of properties do."""
    scopes = Scopes(CacheBudget())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    first = scopes.enter(A)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "two")
    assert scopes.enter(A).who != first.who


def test_content_goes_with_the_last_catalog() -> None:
    """What is kept in a scope stays until the last catalog of it is left, and then all of it goes."""
    budget = CacheBudget()
    scopes = Scopes(budget)
    one, same = scopes.enter(A), scopes.enter(A)
    budget.region(_SPEC, group=one.who).put("k", "v")
    budget.region(_SPEC).put("told", "v", tags=(scope_tag(one.who),))
    scopes.leave(one)
    assert budget.region(_SPEC, group=same.who).get_if_present("k") == "v"
    who = same.who
    scopes.leave(same)
    assert (len(scopes), budget.region(_SPEC).get_if_present("told")) == (0, None)
    assert budget.region(_SPEC, group=who).get_if_present("k") is None


def test_a_rotation_keeps_what_the_catalog_alone_has_read() -> None:
    """Other credentials of the only catalog of a scope keep its content."""
    scopes = Scopes(CacheBudget())
    scope = scopes.enter(A)
    before = scope.who
    scopes.move(scope, B)
    assert scope.who == before
    assert scopes.enter(B).who == before


def test_a_rotation_takes_nothing_of_others_along() -> None:
    """Other credentials of one of two catalogs leave the content to the catalog that has the old ones."""
    scopes = Scopes(CacheBudget())
    stays, moves = scopes.enter(A), scopes.enter(A)
    scopes.move(moves, B)
    assert stays.who != moves.who
    assert scopes.enter(A).who == stays.who


def test_who_asks_is_no_part_of_a_store() -> None:
    """Two sets of keys for one endpoint are one store, two endpoints are two; digests show no secret."""
    one = store_digest({"key": "a", "secret": "sa", "endpoint_url": "http://x"})
    assert one == store_digest({"key": "b", "secret": "sb", "endpoint_url": "http://x"})
    assert one != store_digest({"key": "a", "secret": "sa", "endpoint_url": "http://y"})
    assert "sa" not in one
