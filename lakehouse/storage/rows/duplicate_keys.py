"""Detection of a key that several rows of one write have, where each may come once.

Invariant: rows that all have different keys pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.key_sort import by_key

__all__ = ["refuse_repeated_keys", "repeated_key", "same_key_error"]


def same_key_error(key: Mapping[str, Any]) -> InvalidInputError:
    """Returns the error for a key that was given twice."""
    return InvalidInputError(
        f"two rows of this write have the key {_shown(key)}, and nothing says which is the newer: give each "
        "key once, or write in a way that brings rows of a key together",
        key=dict(key),
    )


def refuse_repeated_keys(rows: pa.Table, keys: KeyColumns, *, where: str = "on_conflict='error'") -> None:
    """Raises unless each row has another key.

    Args:
        rows: all rows of a write, in their order; their key columns suffice.
        keys: the key columns.
        where: the argument or call in which each key may come once, for the message.

    Raises:
        InvalidInputError: names the first repeated key, and two rows that have it.
    """
    (array,) = keys.arrays([rows])
    ordered = by_key(array)
    if ordered is None or ordered[1].all():
        return
    order, ends = ordered
    firsts = np.flatnonzero(~ends)
    # The pair whose second row comes first: what a reader of the input would meet first.
    at = firsts[np.argmin(order[firsts + 1])]
    first, again = int(order[at]), int(order[at + 1])
    key = {name: rows.column(name)[first].as_py() for name in keys.names}
    raise InvalidInputError(
        f"rows {first:,} and {again:,} of this call have the same key {_shown(key)}, and {where} takes "
        "each key once: leave one of them out, or use upsert with all columns, which keeps the last",
        key=key,
        rows=(first, again),
    )


def repeated_key(rows: pa.Table, keys: KeyColumns) -> dict[str, Any] | None:
    """Returns a key that several of the rows have; None = there is none."""
    (array,) = keys.arrays([rows])
    ordered = by_key(array)
    if ordered is None or ordered[1].all():
        return None
    order, ends = ordered
    row = int(order[np.flatnonzero(~ends)[0]])
    return {name: rows.column(name)[row].as_py() for name in keys.names}


def _shown(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r:.80}" for name, value in key.items())
