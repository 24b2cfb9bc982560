"""A progress bar on a terminal, and nothing where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar

from lakehouse.cli.output import error_console
from lakehouse.io.work import Progress, ProgressCallback

__all__ = ["moving_line", "progress_bar"]


def moving_line(*columns: ProgressColumn) -> Bar:
    """Returns a line on standard error with these columns and the time, which goes when its block ends."""
    terminal = error_console()
    line = Bar(
        *columns, TimeElapsedColumn(), console=terminal, transient=True, disable=not terminal.is_terminal
    )
    line.add_task("", total=None)
    return line


@contextlib.contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """Draws on standard error the progress that its callback gets; clears it at the end of the block."""
    with moving_line(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()) as bar:

        def tell(progress: Progress) -> None:
            bar.update(
                bar.task_ids[0], description=progress.step, completed=progress.done, total=progress.total
            )

        yield tell
