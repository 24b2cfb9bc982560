"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

__all__ = ["brief_json", "console", "error_console", "human_bytes", "print_json", "print_table"]


def console() -> Console:
    """Standard output."""
    return Console(highlight=False)


def error_console() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    right: Iterable[str] = (),
    styles: Mapping[str, str] | None = None,
) -> None:
    """A table; ``right`` names the columns of numbers."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in set(right) else "left",
            style=(styles or {}).get(column),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console().print(table)


def brief_json(text: str | None) -> str:
    """A JSON object of objects as ``name=value`` words, for a cell; ``?`` where there is none."""
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
    """``1.5 MiB`` and the like."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
