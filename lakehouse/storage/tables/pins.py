"""Pins: names that protect a snapshot from expiry while it is read, made and dropped by commits.

Invariant: the end of a pin is a time of the store's clock, which is asked when the pin is made.
"""

from __future__ import annotations

from lakehouse.errors import LakehouseError, NotFoundError
from lakehouse.format.metadata import Ref, RefKind
from lakehouse.log import get_logger
from lakehouse.storage.commit.changes import ChangeRefs
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["drop_pin", "make_pin"]

_log = get_logger(__name__)


async def make_pin(table: OpenTable, snapshot: int, *, name: str, ttl_s: float) -> None:
    """Protects a snapshot until the pin is dropped or so many seconds have passed by the store's clock.

    Args:
        table: the table.
        snapshot: id of the snapshot.
        name: name of the pin.
        ttl_s: seconds until the pin ends by itself.
    """
    view = await table.known()
    expires = await table.snapshots.store_now_ms(view.snapshot) + int(ttl_s * 1000)
    ref = Ref(snapshot=snapshot, kind=RefKind.PIN, expires_ms=expires)
    await table.commit(ChangeRefs(make={name: ref}), view=view)


async def drop_pin(table: OpenTable, name: str) -> None:
    """Drops a pin; one that cannot be dropped is logged, and ends by itself."""
    try:
        await table.commit(ChangeRefs(drop=(name,)), view=await table.known())
    except NotFoundError:
        pass
    except LakehouseError as error:
        _log.warning("a pin stays until it ends", pin=name, error=error)
