"""A key that several rows of one write have, where none of them is the newer: found and named.

Invariant: rows that all have different keys pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.storage.key_arrays import KeyColumns
from lakehouse.storage.key_order import by_key

__all__ = ["repeated_key", "same_key"]


def same_key(key: Mapping[str, Any]) -> InvalidInputError:
    """The error that says that a key was given twice."""
    shown = ", ".join(f"{name} = {value!r:.80}" for name, value in key.items())
    return InvalidInputError(
        f"two rows of this write have the key {shown}, and nothing says which is the newer: give each key "
        "once, or write in a way that brings rows of a key together",
        key=dict(key),
    )


def repeated_key(rows: pa.Table, keys: KeyColumns) -> dict[str, Any] | None:
    """A key that several of the rows have; None = there is none."""
    (array,) = keys.arrays([rows])
    found = by_key(array)
    if found is None or found[1].all():
        return None
    order, ends = found
    row = int(order[np.flatnonzero(~ends)[0]])
    return {name: rows.column(name)[row].as_py() for name in keys.names}
