"""Keys of engines: equal for equal engines, however they are written."""

from __future__ import annotations

import pytest

from lakehouse.catalog.engines import EngineKey
from lakehouse.errors import InvalidInputError


def test_equal_engines_have_equal_keys() -> None:
    """Case and space around kind and version do not matter."""
    assert EngineKey.of(" Postgres ", " 16.1 ") == EngineKey("postgres", "16.1")


def test_what_is_missing_is_empty() -> None:
    """An engine may leave out its version, or say nothing."""
    assert EngineKey.of(None) == EngineKey("", "")
    assert str(EngineKey.of("duckdb")) == "duckdb (any version)"


@pytest.mark.parametrize("kind", ["a b", "1duck", "../x", "x" * 65])
def test_a_kind_that_is_no_name_is_refused(kind: str) -> None:
    """A kind is a short lower-case name."""
    with pytest.raises(InvalidInputError, match="no kind of engine"):
        EngineKey.of(kind)
