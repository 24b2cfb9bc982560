"""Numbers that indexes are built with unless their definition says others."""

from __future__ import annotations

__all__ = ["FALSE_POSITIVE_RATE", "SEGMENT_ROW_COUNT"]

FALSE_POSITIVE_RATE = 0.01
"""Of a filter, unless told otherwise."""


SEGMENT_ROW_COUNT = 1024
"""Rows of a segment unless told otherwise."""
