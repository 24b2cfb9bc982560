"""Sharing of queries: one object for each shared query, which other processes of its account read.

A table that is first touched when the query is shared already is pinned for all of them by one create: the
pin of whoever comes first is the query's, and the others read it.

Invariant: nobody joins a query that is damaged, of another account, or over; nothing is deleted that somebody
may still join.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.pins.choices import PinKind, SnapshotPin
from lakehouse.errors import (
    ConflictError,
    CorruptionError,
    FormatError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
)
from lakehouse.format.metadata import SharedPin, SharedQuery, decode_query, encode_query
from lakehouse.io import ObjectStore
from lakehouse.io.work import or_none
from lakehouse.log import get_logger
from lakehouse.storage.metadata import QUERY_PREFIX, query_key, query_key_of, query_pin_key

__all__ = ["Sharing", "shared_pins"]

_log = get_logger(__name__)

_SLACK_MS = 5 * 60 * 1000
"""Milliseconds after its end in which nobody deletes a shared query: clocks differ."""
_SWEPT_MAX = 16
"""Maximum number of shared queries that one share looks at, to delete those that are over."""


class Sharing:
    """Objects of shared queries in one warehouse.

    Args:
        store: its root is the warehouse.
        now_ms: the store's clock.
    """

    def __init__(self, store: ObjectStore, now_ms: Callable[[], int]) -> None:
        self._store, self._now_ms = store, now_ms

    async def put(
        self,
        number: uuid.UUID,
        account: str,
        as_of_ms: int | None,
        pins: Sequence[SnapshotPin],
        remaining_s: float,
    ) -> None:
        """Creates the object of a query or replaces it, and deletes some that are over."""
        query = self._query(number, account, as_of_ms, pins, remaining_s)
        await self._store.put(query_key(str(number)), encode_query(query))
        await self._sweep()

    async def agree(
        self,
        number: uuid.UUID,
        account: str,
        table: ResourceId,
        resolve: Callable[[], Awaitable[SnapshotPin]],
        remaining_s: float,
    ) -> SnapshotPin:
        """Returns the one pin that a table has in a shared query; who comes first resolves it.

        Raises:
            CorruptionError: the pin's object is damaged, or another query's or table's.
        """
        key = query_pin_key(str(number), str(table.uuid))
        # Most who ask come after the first, who pays one request more for it.
        if (agreed := await self._agreed(key, number, account, table)) is not None:
            return agreed
        pin = await resolve()
        query = self._query(number, account, None, (pin,), remaining_s)
        try:
            await self._store.put_if_absent(key, encode_query(query))
        except ConflictError:
            agreed = await self._agreed(key, number, account, table)
            if agreed is None:  # swept in between: the query is over for long
                raise _missing(number) from None
            return agreed
        return pin

    async def _agreed(
        self, key: str, number: uuid.UUID, account: str, table: ResourceId
    ) -> SnapshotPin | None:
        fetched = await or_none(self._store.get(key))
        if fetched is None:
            return None
        query = decode_query(fetched.data, key=key)
        pins = shared_pins(query, account)
        if (query.id, query.account) != (number, account) or [pin.table for pin in pins] != [table]:
            raise CorruptionError(
                f"{key} is no pin of that table in query {number}: it was copied to another key", key=key
            )
        return pins[0]

    def _query(
        self,
        number: uuid.UUID,
        account: str,
        as_of_ms: int | None,
        pins: Sequence[SnapshotPin],
        remaining_s: float,
    ) -> SharedQuery:
        return SharedQuery(
            id=number,
            account=account,
            as_of_ms=as_of_ms,
            expires_ms=self._now_ms() + int(remaining_s * 1000),
            pins=tuple(_shared(pin) for pin in pins),
        )

    async def read(self, number: uuid.UUID, account: str) -> tuple[SharedQuery, float]:
        """Returns a shared query, and the seconds that are left of its lifetime.

        Raises:
            NotFoundError: there is none of that id, for this account.
            InvalidInputError: it is over (kind ``query-ended``).
            CorruptionError: its object is damaged.
        """
        key = query_key(str(number))
        fetched = await or_none(self._store.get(key))
        if fetched is None:
            raise _missing(number)
        query = decode_query(fetched.data, key=key)
        if query.id != number:
            raise CorruptionError(
                f"{key} is the object of query {query.id}: it was copied to another key", key=key
            )
        if query.account != account:
            # As if there were none: whoever may not join learns nothing of it.
            raise _missing(number)
        left_ms = query.expires_ms - self._now_ms()
        if left_ms <= 0:
            if query.expires_ms + _SLACK_MS <= self._now_ms():
                await self._store.delete(key)
            raise InvalidInputError(
                f"query {number} is over for {-left_ms / 1000:,.0f} s: whoever shared it did not renew it",
                kind="query-ended",
                query=str(number),
            )
        return query, left_ms / 1000

    async def _sweep(self) -> None:
        """Deletes shared queries that are over, and their pins; what cannot be read or deleted stays."""
        try:
            now = self._now_ms()
            is_over: dict[str, bool] = {}
            async with aclosing(self._store.list(QUERY_PREFIX)) as listed:
                async for meta in listed:
                    if meta.modified_ms is None or meta.modified_ms + _SLACK_MS > now:
                        continue
                    # A pin lasts as long as its query, which may have been renewed since.
                    key = query_key_of(meta.key)
                    if key not in is_over:
                        if len(is_over) >= _SWEPT_MAX:
                            return
                        is_over[key] = await self._is_over(key)
                    if is_over[key]:
                        await self._store.delete(meta.key)
        except FormatError as error:
            _log.warning("a shared query cannot be read, and stays", error=error)
        except LakehouseError as error:
            _log.info("shared queries that are over are not removed now", error=error)

    async def _is_over(self, key: str) -> bool:
        """Returns whether nobody can join a query any more, by any clock."""
        fetched = await or_none(self._store.get(key))
        if fetched is None:
            return True
        return decode_query(fetched.data, key=key).expires_ms + _SLACK_MS <= self._now_ms()


def _missing(number: uuid.UUID) -> NotFoundError:
    return NotFoundError(
        f"there is no shared query {number}: it was never shared (query.share()), or is over for long",
        query=str(number),
    )


def _shared(pin: SnapshotPin) -> SharedPin:
    return SharedPin(
        table=pin.table.uuid,
        name=pin.name,
        kind=pin.kind.value,
        snapshot=pin.snapshot,
        version=pin.version,
        schema_id=pin.schema_id,
        token=pin.token,
        as_of_ms=pin.as_of_ms,
    )


def shared_pins(query: SharedQuery, account: str) -> tuple[SnapshotPin, ...]:
    """Returns the pins of a shared query, for the account that joins it."""
    kinds = {kind.value: kind for kind in PinKind}
    return tuple(
        SnapshotPin(
            table=ResourceId(account, NodeKind.TABLE, pin.table),
            name=pin.name,
            # A kind of a later release is told to nobody who decides by it.
            kind=kinds.get(pin.kind, PinKind.SNAPSHOT_ID),
            snapshot=pin.snapshot,
            version=pin.version,
            schema_id=pin.schema_id,
            token=pin.token,
            as_of_ms=pin.as_of_ms,
        )
        for pin in query.pins
    )
