"""Progress of long work, reported to callers that asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "ProgressCallback", "ProgressReporter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a piece of long work has got."""

    step: str
    """Name of the step under way, such as ``read snapshots`` or ``delete``."""
    done: int
    total: int | None = None
    """None = not known."""

    def __str__(self) -> str:
        return f"{self.step}: {self.done:,}" + (f" of {self.total:,}" if self.total is not None else "")


ProgressCallback = Callable[[Progress], None]
"""Is called now and then while the work goes on, between two requests; must not wait."""


class ProgressReporter:
    """Tells progress to whoever wants to know.

    Args:
        callback: None = nobody.
    """

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self._done = 0
        self._step = ""

    def step(self, step: str, done: int = 1, total: int | None = None) -> None:
        """So much more of a step is done; a step's first word begins to count anew."""
        self._done = self._done + done if step == self._step else done
        self._step = step
        if self._callback is not None:
            self._callback(Progress(step=step, done=self._done, total=total))
