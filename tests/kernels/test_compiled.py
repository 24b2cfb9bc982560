"""Loops: the same source interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lakehouse.kernels import compiled as loops_module
from lakehouse.kernels.compiled import Loops, numba_available

needs_numba = pytest.mark.skipif(not numba_available(), reason="numba is not installed")


def _wrapped(number: int) -> int:
    return number & 0xFF


def _wrapped_differently(number: int) -> int:
    return number % 256


def _total(numbers: Any) -> int:
    total = 0
    for number in numbers:
        total = _wrapped(total * 31 + number)
    return total


@needs_numba
def test_compiled_and_interpreted_agree() -> None:
    """A loop and its callees give one result, whichever way they run."""
    compiled = Loops(_wrapped, _total).compiled_for(0, wanted=True)
    assert compiled is not None
    assert compiled._total(np.arange(100)) == _total(range(100))


@needs_numba
def test_a_stand_in_takes_the_place_of_a_function() -> None:
    """The compiled run calls the stand-in under the name of what it stands for."""
    compiled = Loops(_total, _wrapped=_wrapped_differently).compiled_for(0, wanted=True)
    assert compiled is not None
    assert compiled._total(np.arange(100)) == _total(range(100))


@needs_numba
def test_little_work_is_not_worth_loading_a_compiler() -> None:
    """Nothing is compiled for a handful of items; once compiled, fewer items pay."""
    some = Loops(_wrapped, _total)
    assert some.compiled_for(1_000) is None
    assert not some.is_loaded
    assert some.compiled_for(1_000_000) is not None
    assert some.is_loaded
    assert some.compiled_for(1_000) is not None
    assert some.compiled_for(1) is None
    assert some.compiled_for(1_000_000, wanted=False) is None


@needs_numba
def test_a_little_work_again_and_again_is_worth_it() -> None:
    """Where work adds up, code is loaded from as much on as loading takes; elsewhere nobody waits for it."""
    for adds_up in (False, True):
        some = Loops(_wrapped, _total, pays_from=100, adds_up=adds_up)
        assert [some.compiled_for(40) is not None for _ in range(3)] == [False, False, adds_up]


def test_any_change_makes_new_code() -> None:
    """The compiled code on disk is that of these functions: a callee, a constant or an array renews it."""
    versions = {
        unit._version()
        for unit in (
            Loops(_wrapped, _total),
            Loops(_wrapped_differently, _total),
            Loops(_total, _wrapped=_wrapped_differently),
            Loops(_wrapped, _total, TABLE=np.zeros(3)),
            Loops(_wrapped, _total, TABLE=np.ones(3)),
        )
    }
    assert len(versions) == 5
    assert Loops(_wrapped, _total)._version() == Loops(_wrapped, _total)._version()


def test_without_numba_everything_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numba is missing, asking for compiled code gives none and no error."""
    monkeypatch.setattr(loops_module, "numba_available", lambda: False)
    assert Loops(_wrapped, _total).compiled_for(1_000_000, wanted=True) is None
