"""Output of commands: tables for people at a terminal, tab-separated values and JSON for programs.

Invariant: a cell shows its value as it is; nothing in a value is taken for markup or reaches a terminal as a
control character, and a column is shown whole, wrapped or not at all, which is then said.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakehouse.cli.column_fit import Fit, ShownColumn, fit
from lakehouse.cli.escapes import json_text, separated, visible

__all__ = [
    "brief_json",
    "complain",
    "console",
    "error_console",
    "human_bytes",
    "print_error",
    "print_json",
    "print_table",
    "say",
    "write_bytes",
]

_Cell = Text | str | None
_NULL = Text("NULL", style="dim")
_GAP = "…"


def console() -> Console:
    """Returns a console on standard output."""
    return Console(highlight=False)


def error_console() -> Console:
    """Returns a console on standard error."""
    return Console(stderr=True, highlight=False)


def say(text: str, *, style: str = "") -> None:
    """Prints a sentence to standard output, wrapped by nobody."""
    console().print(Text(visible(text, lines=True), style=style), soft_wrap=True)


def complain(text: str) -> None:
    """Prints a warning to standard error."""
    error_console().print(Text(visible(text, lines=True), style="yellow"), soft_wrap=True)


def print_json(value: Any) -> None:
    """Prints one JSON document to standard output."""
    typer.echo(json_text(value, indent=2))


def write_bytes(data: bytes) -> None:
    """Writes bytes to standard output as they are."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_error(kind: str, message: str, *, as_json: bool) -> None:
    """Prints an error: a line to standard error, or one JSON object to standard output."""
    if as_json:
        typer.echo(json.dumps({"error": kind, "message": message}))
        return
    line = Text.assemble(("error:", "bold red"), " ", visible(message, lines=True))
    error_console().print(line, soft_wrap=True)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    styles: Mapping[str, str] | None = None,
    rest: str = "--json",
) -> None:
    """Prints a table that fits a terminal's width; elsewhere a line of tab-separated values per row.

    Args:
        columns: their names.
        rows: a cell for each: text, text with styles, None for null, or anything that has a text.
        title: what the table is about.
        right: columns of numbers.
        whole: other columns whose cells are not to be wrapped.
        styles: of columns, by name.
        rest: options that show the columns which do not fit.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    target = console()
    if not target.file.isatty():
        _print_separated(columns, cells, title)
        return
    names = [visible(name) for name in columns]
    grid = [[_shown(value) for value in row] for row in cells]
    widths = [
        ShownColumn(
            header=cell_len(name),
            longest=max((text.cell_len for text in column), default=0),
            whole=columns[at] in right or columns[at] in whole,
        )
        for at, (name, column) in enumerate(zip(names, _columns(grid, len(names)), strict=True))
    ]
    layout = fit(widths, target.width)
    # A single row reads better as a list than with columns left out.
    if layout is None or (layout.gap is not None and len(grid) == 1):
        _print_blocks(target, names, grid, title)
        return
    _print_grid(target, names, grid, layout, title, {columns.index(name) for name in right}, styles or {})
    left_out = len(columns) - len(layout.columns)
    if left_out:
        say(f"… {left_out:,} more column{'s' * (left_out > 1)}: {rest}")


def _cell(value: object) -> _Cell:
    return value if value is None or isinstance(value, Text) else str(value)


def _shown(cell: _Cell) -> Text:
    """Returns a cell as a terminal shows it."""
    if cell is None:
        return _NULL
    return cell if isinstance(cell, Text) else Text(visible(cell))


def _columns(grid: Sequence[Sequence[Text]], count: int) -> list[list[Text]]:
    return [[row[at] for row in grid] for at in range(count)]


def _print_separated(columns: Sequence[str], cells: Sequence[Sequence[_Cell]], title: str | None) -> None:
    if title is not None:
        typer.echo(f"# {visible(title)}")
    typer.echo("\t".join(separated(name) for name in columns))
    for row in cells:
        typer.echo("\t".join(separated(cell.plain if isinstance(cell, Text) else cell) for cell in row))


def _print_grid(
    target: Console,
    names: Sequence[str],
    grid: Sequence[Sequence[Text]],
    layout: Fit,
    title: str | None,
    right: Collection[int],
    styles: Mapping[str, str],
) -> None:
    table = Table(
        title=None if title is None else Text(visible(title)), title_justify="left", header_style="bold"
    )
    for place, (at, width) in enumerate(zip(layout.columns, layout.widths, strict=True)):
        if place == layout.gap:
            table.add_column(_GAP, width=1)
        justify: Any = "right" if at in right else "left"
        header, style = Text(names[at]), styles.get(names[at])
        table.add_column(header, justify=justify, style=style, width=width, overflow="fold")
    for row in grid:
        cells: list[Text] = [row[at] for at in layout.columns]
        if layout.gap is not None:
            cells.insert(layout.gap, Text(_GAP))
        table.add_row(*cells)
    target.print(table)


def _print_blocks(
    target: Console, names: Sequence[str], grid: Sequence[Sequence[Text]], title: str | None
) -> None:
    """Prints a line per column and value, and a line between rows: for what fits into no line."""
    if title is not None:
        say(title, style="italic")
    widest = max(map(cell_len, names))
    for number, row in enumerate(grid):
        if len(grid) > 1:
            say(f"── row {number + 1} ──", style="dim")
        for name, cell in zip(names, row, strict=True):
            space = " " * (widest - cell_len(name))
            target.print(Text.assemble((name, "bold"), space, " │ ", cell), soft_wrap=True)


def brief_json(text: str | None) -> str:
    """Writes a JSON object of objects as ``name=value`` words, for a cell; ``?`` where there is none."""
    if text is None:
        return "?"
    parts = json.loads(text).values()
    words = [
        f"{name}={json.dumps(value, ensure_ascii=False) if isinstance(value, str | None) else value}"
        for part in parts
        if isinstance(part, dict)
        for name, value in part.items()
        if value is not None and name != "raw_config"
    ]
    return " ".join(words)


def human_bytes(count: int) -> str:
    """Writes a number of bytes as ``1.5 MiB`` and the like."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
