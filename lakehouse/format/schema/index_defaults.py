"""Default numbers with which indexes are built."""

from __future__ import annotations

__all__ = ["FALSE_POSITIVE_RATE", "SEGMENT_ROW_COUNT"]

FALSE_POSITIVE_RATE = 0.01
"""Default false positive rate of a filter."""


SEGMENT_ROW_COUNT = 1024
"""Default number of rows of a segment of an inverted index."""
