"""Layout of a table's columns: which fit into a line, and how wide they are. Pure.

Invariant: no column is narrower than its header and than four characters (or all it has); a column that is
to stay whole has the width of its longest cell. Where not all fit, some are left out from the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Fit", "ShownColumn", "fit"]

_LEAST = 4
_TEXT = 24
"""Width that a column of text keeps, if it has as much."""
_BETWEEN = 3
"""Width between cells: a line, and a space on either side."""
_GAP = 1
"""Width of the column that marks those left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownColumn:
    """Widths of one column, in cells of the terminal."""

    header: int
    longest: int
    """Width of its longest cell."""
    whole: bool = False
    """True: its cells are not to be wrapped."""

    @property
    def natural(self) -> int:
        """The width at which nothing is wrapped."""
        return max(self.header, self.longest)

    @property
    def floor(self) -> int:
        """The width below which it is left out."""
        return self.natural if self.whole else min(self.natural, max(self.header, _LEAST, _TEXT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Columns that are shown, by number, with their widths; there may be a gap before one of them."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    gap: int | None = None
    """Place among the shown before which others are left out; None = none are."""


def fit(columns: Sequence[ShownColumn], width: int) -> Fit | None:
    """Chooses the columns to show in lines of a width; None when less than two of several would be left."""
    kept = list(range(len(columns)))
    while _taken([columns[at].floor for at in kept], len(columns)) > width:
        if len(kept) <= min(2, len(columns)):
            return None
        del kept[len(kept) // 2]
    room = width - _taken([0] * len(kept), len(columns))
    shown = [columns[at] for at in kept]
    # The greatest cap at which all fit: wide columns of text give, narrow ones do not.
    low, high = 0, max((column.natural for column in shown), default=0)
    while low < high:
        cap = (low + high + 1) // 2
        if sum(_capped(column, cap) for column in shown) <= room:
            low = cap
        else:
            high = cap - 1
    return Fit(
        columns=tuple(kept),
        widths=tuple(_capped(column, low) for column in shown),
        gap=next((place for place, at in enumerate(kept) if at != place), None),
    )


def _capped(column: ShownColumn, cap: int) -> int:
    return max(column.floor, min(column.natural, cap))


def _taken(widths: Sequence[int], columns: int) -> int:
    """Returns the width of a table that shows columns of these widths, of ``columns`` in all."""
    gap = _GAP + _BETWEEN if len(widths) < columns else 0
    return sum(widths) + _BETWEEN * len(widths) + 1 + gap
