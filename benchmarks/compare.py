"""Two runs of the same bench, before and after a change: ``python -m benchmarks.compare BEFORE AFTER``.

The runs are not interleaved, so a machine that was busier during one of them shows as a
difference. The peers are the control: they did not change, and their ratio says how far
the others can be trusted. A difference within the noise of both runs is marked ``≈``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.model import Report, Result, Spread, Table
from benchmarks.render import load
from benchmarks.tables import markdown, seconds_text

__all__ = ["comparison"]

_NOISE = 3
"""A difference counts when it is larger than so many times the MADs of both runs."""


def comparison(before: Report, after: Report) -> Table:
    """Every result that both reports have: wall and CPU time per unit, and how they changed."""
    pairs = [(old, new) for new in after.results if (old := _counterpart(before, new)) is not None]
    names = list(dict.fromkeys(name for _, new in pairs for name in new.params))
    rows = [
        (
            *(str(new.params.get(name, "")) for name in names),
            new.side,
            *_change(_per_unit(old.wall, old), _per_unit(new.wall, new)),
            *_change(_per_unit(old.cpu, old), _per_unit(new.cpu, new)),
        )
        for old, new in pairs
    ]
    unit = after.results[0].unit.removesuffix("s") if after.results else "unit"
    header = (*names, "side", f"wall per {unit}", "after", "×", f"CPU per {unit}", "after", "×")
    return Table(title=after.title, header=header, rows=tuple(rows))


def _counterpart(before: Report, new: Result) -> Result | None:
    found = [old for old in before.results if (old.side, old.params) == (new.side, new.params)]
    return found[0] if found else None


def _per_unit(spread: Spread, result: Result) -> tuple[float, float]:
    """Median and MAD."""
    return spread.median / result.work, spread.mad / result.work


def _change(before: tuple[float, float], after: tuple[float, float]) -> tuple[str, str, str]:
    noise = _NOISE * (before[1] + after[1])
    verdict = "≈" if abs(after[0] - before[0]) <= noise else f"{after[0] / before[0]:.2f}"
    return seconds_text(before[0]), seconds_text(after[0]), verdict


def main(given: Sequence[str]) -> int:
    """Prints a table for every bench that both directories hold; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("before", type=Path, help="what --out was for the run before")
    parser.add_argument("after", type=Path, help="and for the run after")
    asked = parser.parse_args(given)
    both = sorted(
        {p.stem for p in asked.before.glob("*.json")} & {p.stem for p in asked.after.glob("*.json")}
    )
    for name in both:
        print(markdown(comparison(load(name, asked.before), load(name, asked.after))))
    return 0 if both else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
