"""Payload types: namespaced, with families at every dot."""

from __future__ import annotations

import pytest

from lakehouse.catalog.engines import PayloadType
from lakehouse.errors import InvalidInputError


@pytest.mark.parametrize(
    "text", ["lakehouse.type+json", "builtin.systemcatalog.function.semantic+json", "a.b"]
)
def test_a_payload_type_is_read_and_written(text: str) -> None:
    """The text of a payload type is what it was read from."""
    assert str(PayloadType.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["type", "type+json", ".a", "a..b", "a.b+", "a.b+JSON", "a b.c", "", "a." * 40]
)
def test_a_payload_type_without_a_namespace_is_refused(text: str) -> None:
    """A name that another publisher could take as well is no payload type."""
    with pytest.raises(InvalidInputError, match="no payload type"):
        PayloadType.parse(text)


def test_families_keep_the_encoding() -> None:
    """The families of a type are its beginnings, the closest first, with its encoding."""
    assert [str(family) for family in PayloadType.parse("a.b.c+json").families()] == [
        *("a.b.c+json", "a.b+json", "a+json")
    ]
