"""Accounts of one process: which are in use, and what becomes of those that are not.

An account whose view somebody holds lives as long as that view. What the process keeps for it (floor,
pointers, listings, counters, connections) is given back when it was idle for a time, or when more accounts
are active than may be; it is made anew when the account is used again. One that rests and that nobody holds
is gone.

Invariant: no more than the maximum are active, and nothing is kept of one that is neither active nor held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from lakehouse.clock import Clock
from lakehouse.config import CatalogSettings
from lakehouse.log import get_logger

__all__ = ["ActiveAccounts", "KeptAccount"]

log = get_logger(__name__)


class KeptAccount(Protocol):
    """State of one account, as much as this module has to know of it."""

    account: str
    """Its name."""
    used_at: float
    """Moment of its last use, by the steady clock."""

    def rest(self) -> None:
        """Gives back what is kept for it; must not wait."""
        ...


A = TypeVar("A", bound=KeptAccount)


class ActiveAccounts(Generic[A]):
    """The accounts of a lake.

    Args:
        settings: bounds.
        clock: source of time.
    """

    def __init__(self, settings: CatalogSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._active: OrderedDict[str, A] = OrderedDict()
        self._known: WeakValueDictionary[str, A] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._active)

    def __iter__(self) -> Iterator[A]:
        """Yields all accounts that somebody holds or uses."""
        return iter([one for _, one in sorted(self._known.items())])

    def find(self, account: str) -> A | None:
        """Returns an account that somebody holds or uses."""
        return self._known.get(account)

    def get(self, account: str, make: Callable[[], A]) -> A:
        """Returns an account, made where nobody has it."""
        found = self._known.get(account)
        if found is None:
            found = self._known[account] = make()
        self.use(found)
        return found

    def use(self, one: A) -> None:
        """Notes that an account is used, and lets those rest that are not."""
        one.used_at = self._clock.steady()
        if self._known.get(one.account) is not one:
            return  # it was closed, and whoever holds it uses it on
        if one.account not in self._active:
            self._active[one.account] = one
            self._settle()
        self._active.move_to_end(one.account)

    def close(self, account: str) -> None:
        """Ends an account: what is kept for it goes, whoever holds it."""
        self._active.pop(account, None)
        one = self._known.pop(account, None)
        if one is not None:
            one.rest()

    def sweep(self) -> int:
        """Lets accounts rest that were idle for long; returns how many."""
        before = self._clock.steady() - self._settings.account_idle_s
        count = 0
        while self._active and next(iter(self._active.values())).used_at <= before:
            self._let_rest()
            count += 1
        return count

    def _settle(self) -> None:
        self.sweep()
        while len(self._active) > self._settings.accounts_max:
            self._let_rest()

    def _let_rest(self) -> None:
        """Lets the account rest whose last use is longest ago."""
        account, one = self._active.popitem(last=False)
        one.rest()
        log.info("account rests", account=account, active=len(self._active))
