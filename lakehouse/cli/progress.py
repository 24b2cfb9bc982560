"""A progress bar on a terminal, and nothing where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from lakehouse.cli.output import error_console
from lakehouse.io.work import Progress, ProgressCallback

__all__ = ["progress_bar"]


@contextlib.contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """Draws on standard error the progress that its callback gets; clears it at the end of the block."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    terminal = error_console()
    with Bar(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        line = bar.add_task("", total=None)

        def tell(progress: Progress) -> None:
            bar.update(line, description=progress.step, completed=progress.done, total=progress.total)

        yield tell
