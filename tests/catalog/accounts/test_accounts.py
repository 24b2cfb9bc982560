"""Accounts of a process: bounded, resting when idle, gone when nobody holds them."""

from __future__ import annotations

import gc

import pytest

from lakehouse.catalog.accounts import ActiveAccounts
from lakehouse.config import CatalogSettings
from lakehouse.testing import ManualClock


class _Account:
    def __init__(self, account: str) -> None:
        self.account, self.used_at, self.rests = account, 0.0, 0

    def rest(self) -> None:
        self.rests += 1


def _accounts(**bounds: float) -> tuple[ActiveAccounts[_Account], ManualClock]:
    clock = ManualClock()
    return ActiveAccounts(CatalogSettings(**bounds), clock), clock  # type: ignore[arg-type]


def _get(accounts: ActiveAccounts[_Account], name: str) -> _Account:
    return accounts.get(name, lambda: _Account(name))


def test_one_name_is_one_account() -> None:
    """An account that somebody holds is the same for whoever asks for it."""
    accounts, _ = _accounts()
    assert _get(accounts, "a") is _get(accounts, "a")
    assert _get(accounts, "a") is not _get(accounts, "b")


@pytest.mark.parametrize("used", ["a", "b"])
def test_the_least_recently_used_account_rests_first(used: str) -> None:
    """Where more are active than may be, the one whose last use is longest ago gives back what it has."""
    accounts, _ = _accounts(accounts_max=2)
    held = {name: _get(accounts, name) for name in "ab"}
    accounts.use(held[used])
    third = _get(accounts, "c")
    assert {name for name, one in held.items() if one.rests} == {"a", "b"} - {used}
    assert (third.rests, len(accounts)) == (0, 2)


async def test_idle_accounts_rest() -> None:
    """An account that was not used for the time of the setting rests when another comes, and not before."""
    accounts, clock = _accounts(account_idle_s=10)
    idle, busy = _get(accounts, "idle"), _get(accounts, "busy")
    await clock.advance(9)
    accounts.use(busy)
    _get(accounts, "x")
    assert (idle.rests, busy.rests) == (0, 0)
    await clock.advance(2)
    assert accounts.sweep() == 1
    assert (idle.rests, busy.rests) == (1, 0)


async def test_a_resting_account_comes_back() -> None:
    """Whoever holds a resting account may use it, and it is active again."""
    accounts, clock = _accounts(account_idle_s=10)
    held = _get(accounts, "a")
    await clock.advance(11)
    assert accounts.sweep() == 1
    assert accounts.find("a") is held
    accounts.use(held)
    assert len(accounts) == 1


async def test_nobody_holds_a_resting_account() -> None:
    """An account that rests and that nobody holds is gone; the next of its name is another."""
    accounts, clock = _accounts(account_idle_s=10)
    first = id(_get(accounts, "a"))
    await clock.advance(11)
    accounts.sweep()
    gc.collect()
    assert accounts.find("a") is None
    assert first


def test_a_closed_account_is_not_found() -> None:
    """A closed account rests at once; who still holds it does not bring it back."""
    accounts, _ = _accounts()
    held = _get(accounts, "a")
    accounts.close("a")
    accounts.use(held)
    assert (held.rests, len(accounts), accounts.find("a")) == (1, 0, None)
