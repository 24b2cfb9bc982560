"""Changes of rows between snapshots.

Words: *net changes* (what turns one snapshot into another) · *increment* (what one commit brought) →
*piece* (files of it that are read apart) · *batch* (changes that a follower is given, with a token to
resume by).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.cdc.follow import ChangeBatch, check_kept, token_of, view_behind
    from lakehouse.storage.cdc.increments import (
        Increment,
        Limit,
        added_by,
        appended_in,
        changed_pieces,
        file_pieces,
        read_snapshots,
        state_pieces,
    )
    from lakehouse.storage.cdc.snapshot_diff import CHANGE_COLUMN, net_changes

__all__ = [
    "CHANGE_COLUMN",
    "ChangeBatch",
    "Increment",
    "Limit",
    "added_by",
    "appended_in",
    "changed_pieces",
    "check_kept",
    "file_pieces",
    "net_changes",
    "read_snapshots",
    "state_pieces",
    "token_of",
    "view_behind",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "follow": "ChangeBatch check_kept token_of view_behind",
        "increments": (
            "Increment Limit appended_in added_by changed_pieces file_pieces read_snapshots state_pieces"
        ),
        "snapshot_diff": "CHANGE_COLUMN net_changes",
    },
)
