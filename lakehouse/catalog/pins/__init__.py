"""Pins and queries: which snapshot of each table a query reads, decided once.

Words: *query* (an id, a lifetime and one set of pins) → *pin set* → *pin* (the snapshot that one table has in
a query). A *choice* is the snapshot that a caller asks for; the first *touch* of a table resolves it. A
*hold* is a commit that keeps the snapshot of a pin from expiry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.pins.choices import PinKind, SnapshotChoice, SnapshotPin
    from lakehouse.catalog.pins.pin_set import PinnedNodes, PinSet, snapshot_pin

__all__ = ["PinKind", "PinSet", "PinnedNodes", "SnapshotChoice", "SnapshotPin", "snapshot_pin"]

__getattr__, __dir__ = door(
    __name__,
    {"choices": "PinKind SnapshotChoice SnapshotPin", "pin_set": "PinSet PinnedNodes snapshot_pin"},
)
