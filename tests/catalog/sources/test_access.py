"""Access to namespaces: patterns, and sources that show nothing else of a catalog."""

from __future__ import annotations

import fnmatch
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.sources import EVERYTHING, Access, CatalogSource, restricted, unread_pointer
from lakehouse.catalog.sources.access import _part_fits
from lakehouse.errors import InvalidInputError, LakehouseError, NotFoundError
from lakehouse.testing import MemoryCatalog

_ID = pa.schema({"id": pa.int64()})


def _catalog() -> MemoryCatalog:
    catalog = MemoryCatalog("ice")
    for name in ("sales.orders", "sales.eu.orders", "hr.people", "web.raw.hits", "web.clean.hits"):
        catalog.add_table(name, _ID)
    return catalog


def _seen(catalog: MemoryCatalog, **access: Any) -> CatalogSource:
    return restricted(catalog, Access.parse(**access))


# --- patterns -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "namespace", "fits"),
    [
        ("sales", "sales", True),
        ("sales", "sales.eu", True),
        ("sales", "salesx", False),
        ("sales*", "salesx", True),
        ("s?les", "sales", True),
        ("s?les", "sles", False),
        ("web.*", "web", False),
        ("web.*", "web.raw", True),
        ("*.raw", "web.raw.deep", True),
        ("*", "anything", True),
        ("Sales", "sales", False),
    ],
)
async def test_a_pattern_fits_by_parts(pattern: str, namespace: str, fits: bool) -> None:
    """A pattern stands for the namespaces that its parts fit, in their case, and for all inside."""
    assert await Access.parse(include=[pattern]).shows(tuple(namespace.split("."))) is fits


@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_parts_are_matched_as_globs_are(pattern: str, name: str) -> None:
    """Stars and question marks mean what they mean in file names."""
    assert _part_fits(pattern, name) is (re.fullmatch(fnmatch.translate(pattern), name) is not None)


def test_a_hostile_pattern_costs_no_more_than_its_length() -> None:
    """A pattern of many stars is matched in the product of both lengths."""
    assert not _part_fits("*a" * 300 + "b", "a" * 1_000)


async def test_an_exclude_wins() -> None:
    """What an exclude fits is not seen, whatever includes fit it."""
    access = Access.parse(include=["sales", "sales.eu"], exclude=["*.eu"])
    assert await access.shows(("sales",))
    assert not await access.shows(("sales", "eu"))


@pytest.mark.parametrize(
    "pattern", ["sales[12]", "{a,b}", "!hr", "^hr$", "a..b", "", "a|b", (), ("a", ""), 7]
)
def test_syntax_that_is_not_known_is_refused(pattern: Any) -> None:
    """A pattern with more in it than names, stars and question marks is an error that names the option."""
    with pytest.raises(InvalidInputError) as raised:
        Access.parse(exclude=[pattern])
    assert raised.value.context["option"] == "exclude"


def test_text_is_no_list_of_patterns() -> None:
    """One text where a list belongs is refused, as its letters are no patterns."""
    with pytest.raises(InvalidInputError, match="is a list of patterns"):
        Access.parse(include="sales")


async def test_a_callback_decides_besides() -> None:
    """A callback, plain or not, is asked for what the patterns allow, and its no is a no."""
    asked = []

    async def authorise(namespace: tuple[str, ...]) -> bool:
        asked.append(namespace)
        return namespace != ("hr",)

    source = _seen(_catalog(), exclude=["web"], authorise=authorise)
    assert await source.namespaces() == [("sales",)]
    assert asked == [("hr",), ("sales",)]


def test_no_restriction_is_no_layer() -> None:
    """A source that shows everything is the source itself."""
    catalog = _catalog()
    assert restricted(catalog, EVERYTHING) is catalog


# --- the source ---------------------------------------------------------------------


async def test_listings_show_what_may_be_seen() -> None:
    """Hidden namespaces are in no listing; those on the way to one that may be seen are, without tables."""
    catalog = _catalog()
    catalog.add_table("web.visible_only_if_web_is", _ID)
    source = _seen(catalog, include=["web.raw"])
    assert await source.namespaces() == [("web",)]
    assert await source.namespaces(("web",)) == [("web", "raw")]
    assert (await source.page(("web",), limit=10)).entries == ()
    assert [one.path[-1] for one in (await source.page(("web", "raw"), limit=10)).entries] == ["hits"]
    assert [path async for path in source.names(("web", "raw"))] == [("web", "raw", "hits")]
    assert [path async for path in source.names(("web",))] == []


async def _failure(source: CatalogSource, verb: str, path: tuple[str, ...]) -> tuple[Any, ...]:
    calls: dict[str, Any] = {
        "pointer": lambda: source.pointer(path),
        "names": lambda: anext(source.names(path[:-1])),
        "page": lambda: source.page(path[:-1], limit=5),
        "namespaces": lambda: source.namespaces(path[:-1]),
    }
    with pytest.raises(LakehouseError) as raised:
        await calls[verb]()
    error = raised.value
    facts = {name: str(value).replace(path[0], "NAME") for name, value in error.context.items()}
    assert error.__cause__ is error.__context__ is None
    return type(error), error.kind, error.message.replace(path[0], "NAME"), facts


@pytest.mark.parametrize("verb", ["pointer", "names", "page", "namespaces"])
async def test_a_hidden_namespace_is_like_one_that_is_not_there(verb: str) -> None:
    """Kind, text and facts of the error for a hidden namespace are those for one that does not exist."""
    source = _seen(_catalog(), exclude=["hr"])
    hidden = await _failure(source, verb, ("hr", "people"))
    missing = await _failure(source, verb, ("xx", "people"))
    assert hidden == missing
    assert "hr" not in missing[2]
    assert (hidden[0], hidden[3]["missing"]) == (NotFoundError, "namespace")


async def test_no_suggestion_names_what_is_hidden() -> None:
    """A name that is nearly a hidden one is told of visible ones alone."""
    source = _seen(_catalog(), exclude=["hr"])
    with pytest.raises(NotFoundError) as raised:
        await source.pointer(("hrr", "people"))
    assert "hr'" not in raised.value.message.replace("hrr'", "")
    assert "sales" in raised.value.message


@pytest.mark.parametrize("verb", ["pointer", "open", "renew"])
async def test_no_call_says_what_is_beside_a_missing_namespace(verb: str) -> None:
    """Whatever is asked about a namespace that is not there, its error names visible ones alone."""
    source = _seen(_catalog(), exclude=["hr"])
    at = unread_pointer(("hrr", "people"))
    with pytest.raises(NotFoundError) as raised:
        await getattr(source, verb)(at.path if verb == "pointer" else at)
    assert "'hr'" not in f"{raised.value!r}"


async def test_hidden_relations_are_not_found_by_their_identity() -> None:
    """An id of a relation in a hidden namespace finds nothing, and its pointer opens nothing."""
    catalog = _catalog()
    pointer = await catalog.pointer(("hr", "people"))
    source = _seen(catalog, exclude=["hr"])
    assert await source.locate(pointer.identity) is None
    for call in (source.table, source.view, source.open, source.snapshots, source.snapshot, source.renew):
        with pytest.raises(NotFoundError, match="no namespace 'hr'"):
            await call(pointer)
    with pytest.raises(NotFoundError, match="no namespace 'hr'"):
        await source.schema(pointer, snapshot=0)


async def test_a_missing_table_of_a_visible_namespace_says_so() -> None:
    """In a namespace that may be seen, errors are the catalog's own."""
    source = _seen(_catalog(), exclude=["hr"])
    with pytest.raises(NotFoundError) as raised:
        await source.pointer(("sales", "order"))
    assert raised.value.context["missing"] == "table"
    assert "orders" in raised.value.message


async def test_a_catalog_that_is_down_says_so() -> None:
    """Trouble of the catalog is no absence, and a suggestion that cannot be made is left out."""
    catalog = _catalog()
    source = _seen(catalog, exclude=["hr"])
    catalog.is_down = True
    with pytest.raises(LakehouseError, match="cannot be reached"):
        await source.pointer(("sales", "orders"))
    with pytest.raises(NotFoundError, match=r"no namespace 'hr'$"):
        await source.pointer(("hr", "people"))
