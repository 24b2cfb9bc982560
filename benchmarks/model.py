"""What a benchmark measures and says: sides, samples, spreads, ratios, tables and goals.

Everything here is a value or a pure function of values, so a report that was written as
JSON renders the same later and elsewhere. Samples are kept, not only their median: a
ratio of two sides is taken round by round (both ran within the same second) and has a
spread of its own.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["Goal", "Params", "Report", "Result", "Spread", "Table", "ratio"]

Params = Mapping[str, str | int | float]
"""What a side was asked to do, such as ``{"latency_ms": 20, "concurrency": 64}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Samples in five numbers."""

    median: float
    low: float
    high: float
    mad: float
    """Median of the distances from the median: the spread that one odd sample does not move."""
    count: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Self:
        """The spread of at least one sample."""
        median = statistics.median(samples)
        mad = statistics.median(abs(sample - median) for sample in samples)
        return cls(median=median, low=min(samples), high=max(samples), mad=mad, count=len(samples))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One side under one set of parameters."""

    side: str
    params: Params
    work: float
    """Units done by one sample."""
    unit: str
    """What a unit is: ``reads``, ``commits``, …"""
    seconds: tuple[float, ...]
    """Wall time of each sample, in the order of the rounds."""
    cpu_seconds: tuple[float, ...]
    """CPU time of this process (all threads), per sample; servers are other processes."""
    ideal_s: float | None = None
    """What one sample would take at best, where that can be said."""
    requests: Mapping[str, float] = field(default_factory=dict)
    """Object store requests of one sample, by kind; empty = not counted."""
    bytes_read: float = 0
    bytes_written: float = 0

    @property
    def wall(self) -> Spread:
        """Seconds of a sample."""
        return Spread.of(self.seconds)

    @property
    def cpu(self) -> Spread:
        """CPU seconds of a sample."""
        return Spread.of(self.cpu_seconds)

    @property
    def rate(self) -> float:
        """Units per second, by the median."""
        return self.work / self.wall.median

    @property
    def cpu_per_unit(self) -> float:
        """CPU seconds of this process for one unit, by the median."""
        return self.cpu.median / self.work

    @property
    def to_ideal(self) -> float | None:
        """Wall time as a multiple of the ideal."""
        return None if self.ideal_s is None else self.wall.median / self.ideal_s

    def percentile(self, share: float) -> float:
        """Seconds that the given share of the samples stayed within."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ratio(result: Result, peer: Result) -> Spread:
    """How many times faster than ``peer`` the result is, per unit, taken round by round."""
    scale = result.work / peer.work
    return Spread.of([b / a * scale for a, b in zip(result.seconds, peer.seconds, strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A figure that was promised, and what was measured."""

    text: str
    target: str
    measured: str
    met: bool | None
    """None: this run says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Text in rows, with what stands above it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One benchmark, run once on one machine."""

    name: str
    title: str
    scale: str
    """quick, default or full."""
    results: tuple[Result, ...]
    baseline: str = ""
    """The side that ratios are taken to; empty = none."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """See :mod:`benchmarks.machine`."""
    notes: tuple[str, ...] = ()
    """What a reader must know to judge the figures."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Other figures of the run that tables and goals use."""

    def where(self, **wanted: str | float) -> list[Result]:
        """The results whose side and parameters are the ones given."""
        return [
            result
            for result in self.results
            if all(
                {**result.params, "side": result.side}.get(name) == value for name, value in wanted.items()
            )
        ]

    def one(self, **wanted: str | float) -> Result:
        """The only result of :meth:`where`."""
        (result,) = self.where(**wanted)
        return result

    def values(self, name: str) -> list[Any]:
        """The values a parameter takes (or ``side``), in order of appearance."""
        found = (({**result.params, "side": result.side}).get(name) for result in self.results)
        return list(dict.fromkeys(value for value in found if value is not None))

    def baseline_of(self, result: Result) -> Result | None:
        """The baseline's result under the same parameters."""
        found = [r for r in self.results if r.side == self.baseline and r.params == result.params]
        return found[0] if found and found[0] is not result else None

    def with_machine(self, machine: Mapping[str, Any]) -> Report:
        """The same, said of a machine."""
        return dataclasses.replace(self, machine=machine)

    def to_json(self) -> dict[str, Any]:
        """Plain data; times to the microsecond."""
        plain = dataclasses.asdict(self)
        for result in plain["results"]:
            result["seconds"] = _rounded(result["seconds"])
            result["cpu_seconds"] = _rounded(result["cpu_seconds"])
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` made plain."""
        results = tuple(
            Result(**{**r, "seconds": tuple(r["seconds"]), "cpu_seconds": tuple(r["cpu_seconds"])})
            for r in plain["results"]
        )
        return cls(**{**plain, "results": results, "notes": tuple(plain["notes"])})


def _rounded(samples: Iterable[float]) -> list[float]:
    return [round(sample, 6) for sample in samples]
