"""A named cache: finds, loads, refreshes and invalidates values of one kind.

Invariants:

* Concurrent misses of a key share one load. Absence (None) and failures are handed out
  and never kept.
* A load that began before its key was invalidated or written never lands, and nobody who
  asks afterwards is given its value: whoever invalidates or writes a key takes its flight
  out of the table, and only what is in the table lands or is joined.
* A value is given to nobody who asks later than ``expire_after_write_s`` after its load
  began.

A region belongs to one event loop at a time and is not safe to share between threads.
Values outlive the loop, loads under way do not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from lakehouse.cache.eviction import FREQ_MAX
from lakehouse.cache.flight import Airspace, Flight, Home
from lakehouse.cache.labels import begins_with
from lakehouse.cache.ledger import Ledger
from lakehouse.cache.shelf import DUE, OUT, Shelf
from lakehouse.cache.spec import CacheSpec
from lakehouse.cache.stats import CacheStats
from lakehouse.clock import Clock
from lakehouse.config import CacheSettings
from lakehouse.errors import NotFoundError
from lakehouse.log import get_logger

__all__ = ["CacheRegion", "LoadGate"]

log = get_logger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_Fetch = Callable[[], Awaitable[Mapping[Any, Any]]]


class LoadGate(Protocol):
    """Whoever decides when loads run, and for how long."""

    async def __call__(self, fetch: _Fetch, *, background: bool) -> Mapping[Any, Any]:
        """Runs a load, now or later, and returns what it returns."""
        ...


class CacheRegion(Generic[K, V]):
    """A named cache under a :class:`~lakehouse.cache.budget.CacheBudget`, which makes it."""

    __slots__ = (
        "_airspace", "_clock", "_counters", "_disabled", "_entries", "_flights", "_gate", "_hits",
        "_home", "_settings", "_shelf", "_steady", "_timed", "spec",
    )  # fmt: skip

    def __init__(
        self,
        spec: CacheSpec,
        *,
        group: str,
        ledger: Ledger,
        home: Home,
        clock: Clock,
        settings: CacheSettings,
        gate: LoadGate | None = None,
    ) -> None:
        self.spec = spec
        self._gate = gate
        self._shelf = Shelf(spec, group=group, ledger=ledger, clock=clock)
        # What the warm path needs is kept at hand; hits are counted apart for its sake.
        self._entries = self._shelf.entries
        self._counters = self._shelf.counters
        self._hits = 0
        self._timed = spec.timed
        self._disabled = spec.disabled or ledger.max_bytes == 0
        self._flights: dict[K, Flight] = {}
        self._airspace: Airspace | None = None
        self._home = home
        self._clock = clock
        self._steady = clock.steady
        self._settings = settings

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __bool__(self) -> bool:
        return True  # an empty cache is a cache: len() must not decide

    def __repr__(self) -> str:
        held = f"entries={len(self)}, weight={self.weight}"
        return f"CacheRegion({self.spec.name!r}, group={self.group!r}, {held})"

    @property
    def group(self) -> str:
        """The group whose floor it counts towards."""
        return self._shelf.account.group.name

    @property
    def weight(self) -> int:
        """Bytes held."""
        return self._shelf.account.weight

    # --- reading ---------------------------------------------------------------------

    def holds(self, key: K) -> bool:
        """Returns whether there is a value, be it too old; counts nothing."""
        return key in self._entries

    def get_if_present(self, key: K) -> V | None:
        """The value held, or None; never loads or refreshes."""
        entry = self._entries.get(key)
        if entry is None or (
            self._timed and self._steady() >= entry.calm_until and self._shelf.age(entry) == OUT
        ):
            self._counters.misses += 1
            return None
        self._hits += 1
        if entry.freq < FREQ_MAX:
            entry.freq += 1
        return entry.value  # type: ignore[no-any-return]

    async def get(
        self, key: K, load: Callable[[K], Awaitable[V | None]], *, tags: Sequence[Hashable] = ()
    ) -> V | None:
        """The value held, or what ``load(key)`` returns; None is absence.

        The entry can be invalidated by each of ``tags``. Cancelling a waiter leaves the
        load to the others; the last one takes it along.
        """
        entry = self._entries.get(key)
        if entry is not None and not (
            self._timed and self._steady() >= entry.calm_until and self._is_out(entry, load, tags)
        ):
            self._hits += 1
            if entry.freq < FREQ_MAX:
                entry.freq += 1
            return entry.value  # type: ignore[no-any-return]
        self._counters.misses += 1
        if self._disabled:
            return (await self._fetched(_one(key, load), key)).get(key)
        flight = self._to_join(key) or self._start((key,), _one(key, load), tags)
        await self._wait((flight,))
        return flight.values.get(key)

    async def reload(
        self, key: K, load: Callable[[K], Awaitable[V | None]], *, tags: Sequence[Hashable] = ()
    ) -> V | None:
        """Loads a value now, whatever is held or being loaded; None is absence.

        It replaces what is held when it lands; when it fails, what is held stays.
        """
        self._counters.misses += 1
        if self._disabled:
            return (await self._fetched(_one(key, load), key)).get(key)
        self._under_way()
        flight = self._start((key,), _one(key, load), tags)
        await self._wait((flight,))
        return flight.values.get(key)

    async def get_many(
        self,
        keys: Iterable[K],
        load_many: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]],
        *,
        tags: Sequence[Hashable] = (),
    ) -> dict[K, V]:
        """The values of those keys that have one, in the order of the keys.

        Keys neither held nor being loaded go to one call of ``load_many``; a key missing
        from its answer is absent. Each loaded entry carries all ``tags``.
        """
        asked = tuple(dict.fromkeys(keys))
        found: dict[K, Any] = {}
        due: list[K] = []
        for key in asked:
            entry = self._entries.get(key)
            if entry is None:
                continue
            if self._timed:
                age = self._shelf.age(entry)
                if age == OUT:
                    continue
                if age == DUE:
                    due.append(key)
            if entry.freq < FREQ_MAX:
                entry.freq += 1
            found[key] = entry.value
        self._hits += len(found)
        self._counters.misses += len(asked) - len(found)
        self._refresh(due, load_many, tags)
        missing = [key for key in asked if key not in found]
        if missing and self._disabled:
            found.update(await self._fetched(lambda: load_many(missing), missing[0]))
        elif missing:
            flights = {key: flight for key in missing if (flight := self._to_join(key)) is not None}
            unasked = [key for key in missing if key not in flights]
            if unasked:
                flights |= dict.fromkeys(unasked, self._start(unasked, lambda: load_many(unasked), tags))
            await self._wait(tuple(dict.fromkeys(flights.values())))
            found.update((key, flight.values.get(key)) for key, flight in flights.items())
        return {key: value for key in asked if (value := found.get(key)) is not None}

    def held(self, prefix: tuple[Hashable, ...] = ()) -> list[tuple[K, V]]:
        """The entries whose keys begin so, whatever their age; no request is counted."""
        entries = self._entries
        keys = self._shelf.prefixed(prefix) if prefix else list(entries)
        return [(key, entries[key].value) for key in keys]

    # --- writing ---------------------------------------------------------------------

    def put(self, key: K, value: V, *, tags: Sequence[Hashable] = ()) -> bool:
        """Makes the value what readers get from now on; no load under way replaces it.

        False when it is not held: an older version than what is, too heavy, heavy and not
        worth the entries that would go for it, or the cache is disabled.
        """
        if self._disabled or self._shelf.is_older(key, value):
            return False
        self._flights.pop(key, None)
        return self._shelf.store(key, value, tags, self._steady())

    def invalidate(self, key: K) -> int:
        """Drops the key's entry; says how many that were."""
        self._flights.pop(key, None)
        return self._shelf.drop((key,))

    def invalidate_tag(self, tag: Hashable) -> int:
        """Drops every entry that carries the tag; says how many."""
        # A load whose tags are known from its value alone may turn out to carry this one.
        unknown = self.spec.tags is not None
        self._ground([key for key, flight in self._flights.items() if unknown or tag in flight.tags])
        return self._shelf.drop(self._shelf.tagged(tag))

    def invalidate_prefix(self, prefix: tuple[Hashable, ...]) -> int:
        """Drops every entry whose key, a tuple, begins with these elements; says how many."""
        self._ground([key for key in self._flights if begins_with(key, prefix)])
        return self._shelf.drop(self._shelf.prefixed(prefix))

    def invalidate_all(self) -> int:
        """Drops everything; says how many entries."""
        self._flights.clear()
        return self._shelf.clear()

    def purge_expired(self) -> int:
        """Drops what is too old to be served; says how many entries.

        Reading drops an old entry when it meets one. One that nobody asks for stays until
        its bytes are needed, and a floor keeps them from being needed: a process that
        idles may call this from a timer.
        """
        return self._shelf.expire()

    def stats(self) -> CacheStats:
        """Returns how much the cache holds, and counts of what happened so far."""
        account, spec = self._shelf.account, self.spec
        return CacheStats(
            name=spec.name,
            group=account.group.name,
            enabled=not self._disabled,
            configured=not spec.disabled,
            ttl_s=spec.ttl_s,
            refresh_s=spec.refresh_after_write_s or None,
            oldest_s=self._shelf.oldest_s,
            entries=len(self._entries),
            weight=account.weight,
            max_bytes=account.max_bytes,
            counters=replace(self._counters, hits=self._hits),
        )

    # --- loading ---------------------------------------------------------------------

    def _is_out(self, entry: Any, load: Callable[[K], Awaitable[V | None]], tags: Sequence[Hashable]) -> bool:
        """Whether the entry is too old to be served; starts its refresh when that is due."""
        age = self._shelf.age(entry)
        if age == DUE:
            key = entry.key
            self._refresh((key,), lambda _: _one(key, load)(), tags)
        return age == OUT

    def _refresh(
        self,
        keys: Sequence[K],
        load_many: Callable[[Sequence[K]], Awaitable[Mapping[K, Any]]],
        tags: Sequence[Hashable],
    ) -> None:
        """Loads anew behind the scenes what is not being loaded, as far as refreshes are free."""
        if not keys:
            return
        under_way = self._under_way()
        idle = [key for key in keys if key not in under_way]
        if idle and self._home.here().refreshing < self._settings.refresh_concurrency:
            self._start(idle, lambda: load_many(idle), tags, background=True)

    def _under_way(self) -> dict[K, Flight]:
        """Flights by key; those of a loop that is gone are forgotten."""
        here = self._home.here()
        if self._airspace is not here:
            self._airspace = here
            self._flights.clear()
        return self._flights

    def _to_join(self, key: K) -> Flight | None:
        """The load of the key that a caller may wait for: one that is not too old itself."""
        flight = self._under_way().get(key)
        term = self.spec.expire_after_write_s
        return flight if flight is None or not term or self._steady() < flight.began + term else None

    def _start(
        self, keys: Sequence[K], fetch: _Fetch, tags: Sequence[Hashable], *, background: bool = False
    ) -> Flight:
        load = partial(self._load, fetch)
        flight = Flight(keys, load, tags=tuple(tags), background=background, began=self._steady())
        for key in keys:
            self._flights[key] = flight
        self._home.here().launch(flight)
        return flight

    async def _wait(self, flights: Sequence[Flight]) -> None:
        """Waits for all of them; raises the first error among theirs."""
        waiters = [flight.enter() for flight in flights]
        try:
            for waiter in waiters:
                await waiter
        finally:
            for flight, waiter in zip(flights, waiters, strict=True):
                if flight.leave(waiter):
                    self._ground(flight.keys, flight)
        for flight in flights:
            flight.check()

    async def _load(self, fetch: _Fetch, flight: Flight) -> Mapping[K, V]:
        """The body of a flight: fetches and keeps what may still land."""
        try:
            values = await self._fetched(fetch, flight.keys[0], background=flight.background)
            for key in flight.keys:
                self._land(flight, key, values.get(key))
        except NotFoundError:
            if flight.background:
                self._shelf.drop([key for key in flight.keys if self._flights.get(key) is flight])
            raise
        except Exception as error:
            if flight.background:
                self._counters.refresh_failures += 1
                log.warning(
                    "refresh of a cached value failed, the old one is served on",
                    cache=self.spec.name,
                    key=flight.keys[0],
                    error=repr(error),
                )
            raise
        finally:
            self._ground(flight.keys, flight)
            if flight.background:
                for key in flight.keys:
                    self._shelf.postpone_refresh(key, self._settings.refresh_retry_s)
        self._counters.refreshes += flight.background
        return values

    def _land(self, flight: Flight, key: K, value: V | None) -> None:
        if self._flights.get(key) is not flight:
            self._counters.unlanded += value is not None
        elif value is None:
            self._shelf.drop((key,))
        elif not self._shelf.is_older(key, value):
            self._shelf.store(key, value, flight.tags, flight.began)

    def _ground(self, keys: Iterable[K], flight: Flight | None = None) -> None:
        """Takes keys out of the table, all or those of one flight: their loads do not land."""
        for key in keys:
            if flight is None or self._flights.get(key) is flight:
                del self._flights[key]

    async def _fetched(self, fetch: _Fetch, key: Any, *, background: bool = False) -> Mapping[Any, Any]:
        """Runs a load, of this key first, and counts it."""
        counters = self._counters
        began = self._steady()
        try:
            values = await (fetch() if self._gate is None else self._gate(fetch, background=background))
        except Exception as error:
            counters.load_failures += 1
            counters.last_failure_ms = self._clock.now_ms()
            counters.last_error = repr(error)
            raise
        else:
            counters.loads += 1
            counters.last_load_ms = self._clock.now_ms()
            return values
        finally:
            seconds = self._steady() - began
            counters.load_seconds += seconds
            if seconds > self._settings.slow_load_s:
                log.info(
                    "slow load of a cached value",
                    cache=self.spec.name,
                    key=key,
                    seconds=round(seconds, 3),
                    background=background,
                )


def _one(key: K, load: Callable[[K], Awaitable[V | None]]) -> _Fetch:
    """A load of one key in the shape of a load of many."""

    async def fetch() -> Mapping[K, V | None]:
        return {key: await load(key)}

    return fetch
