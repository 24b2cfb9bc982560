"""Descriptions of caches."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from lakehouse.cache import CacheSpec
from lakehouse.errors import InvalidInputError


@pytest.mark.parametrize(
    "bound",
    ["expire_after_write_s", "expire_after_access_s", "refresh_after_write_s", "max_bytes", "prefix_length"],
)
def test_a_negative_bound_is_refused(bound: str) -> None:
    """The message names the cache and the bound."""
    with pytest.raises(InvalidInputError, match=f"{bound} of cache 'nodes'"):
        CacheSpec(name="nodes", **{bound: -1})


def test_a_setting_becomes_a_replaced_field() -> None:
    """Settings of one entry change a declared spec without touching the others."""
    declared = CacheSpec(name="nodes", expire_after_write_s=60)
    assert dataclasses.replace(declared, expire_after_write_s=0).disabled
    assert not declared.disabled


def test_a_spec_travels() -> None:
    """Specs are values that survive pickle."""
    spec = CacheSpec(name="nodes", expire_after_access_s=3, prefix_length=2)
    assert pickle.loads(pickle.dumps(spec)) == spec
