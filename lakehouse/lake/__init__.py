"""The facade: ``connect()`` and the lake that it returns, with a module for each subject of its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.lake.accounts import AccountLake
    from lakehouse.lake.lake import Lake, connect

__all__ = ["AccountLake", "Lake", "connect"]

__getattr__, __dir__ = door(__name__, {"accounts": "AccountLake", "lake": "Lake connect"})
