"""Operations over any number of keys, in batches within bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError
from lakehouse.io.protocols import Deletes
from lakehouse.io.work.fanout import map_bounded

__all__ = ["delete_many"]


async def delete_many(store: Deletes, keys: Iterable[str], *, settings: IoSettings) -> int:
    """Deletes all keys, ``io.delete_batch`` to a request; missing ones count as deleted."""
    if isinstance(keys, str):
        raise InvalidInputError(
            f"delete_many takes many keys: to delete {keys!r} alone, use delete", key=keys
        )

    async def delete(batch: tuple[str, ...]) -> int:
        await store.delete_batch(batch)
        return len(batch)

    source = iter(keys)
    batches = iter(lambda: tuple(itertools.islice(source, settings.delete_batch)), ())
    return sum([count async for count in map_bounded(delete, batches, settings.delete_concurrency)])
