"""The blocking lake: the twin of :mod:`lakehouse.lake`, with a module for each subject.

Words: those of :mod:`lakehouse.lake`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sync.lake.lake import Lake, connect

__all__ = ["Lake", "connect"]

__getattr__, __dir__ = door(__name__, {"lake": "Lake connect"})
