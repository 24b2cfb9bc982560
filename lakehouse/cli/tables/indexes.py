"""``lakehouse table rebuild-indexes``, and indexes as words of a command line."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    Options,
    TableArgument,
    WarehouseArgument,
    parse_options,
    with_table,
)
from lakehouse.cli.output import error_console, human_bytes, print_json, say
from lakehouse.errors import InvalidInputError
from lakehouse.format import schema, text
from lakehouse.io.work import Progress

if TYPE_CHECKING:
    from lakehouse.storage.maintenance import RebuildResult
    from lakehouse.storage.table import Table

__all__ = ["parse_index_words", "rebuild_indexes"]


@functools.cache
def _words() -> re.Pattern[str]:
    return re.compile(rf"(.+?)=({'|'.join(schema.IndexKind)})((?::.*)?)", re.DOTALL)


@functools.cache
def _bare() -> dict[str, tuple[str, Any]]:
    """Options that are a word alone."""
    return {
        **{analyzer.lower(): ("analyzer", analyzer.value) for analyzer in text.Analyzer},
        **{backend.value: ("backend", backend.value) for backend in schema.Backend},
        "case_sensitive": ("case_sensitive", True),
    }


def parse_index_words(words: list[str] | None) -> dict[str, list[dict[str, dict[str, Any]]]]:
    """Reads indexes, as ``create_table`` takes them, from ``TARGET=KIND[:OPTION…]``.

    An option is ``name=value``, or a word that can be one thing alone: an analyzer, a backend.
    """
    indexes: dict[str, list[dict[str, dict[str, Any]]]] = {}
    for word in words or []:
        match = _words().fullmatch(word)
        target, kind, rest = match.groups() if match else (*_halves(word), "")
        options = dict(map(_option, rest.split(":")[1:]))
        indexes.setdefault(target, []).append({kind: options})
    return indexes


def _halves(word: str) -> tuple[str, str]:
    """Returns target and kind of a word whose kind is none, for the message that says so."""
    target, equals, kind = word.partition("=")
    if not equals or not target:
        raise InvalidInputError(
            f"--index takes TARGET=KIND, such as host=inverted or message=fulltext:English, not {word!r}"
        )
    return target, kind.partition(":")[0]


def _option(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    if not equals:
        if word.lower() not in _bare():
            raise InvalidInputError(
                f"{word!r} says nothing about an index; an option is name=value, or one of "
                f"{', '.join(_bare())}"
            )
        return _bare()[word.lower()]
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text


def rebuild_indexes(
    warehouse: WarehouseArgument,
    table: TableArgument,
    where: Annotated[
        str | None, typer.Option(help="Only these partitions, such as \"day = '2026-01-31'\".")
    ] = None,
    every: Annotated[
        bool, typer.Option("--every", help="Also files whose indexes are as they should be.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Index the data files that are not indexed as the table says."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    terminal = error_console()
    with Bar(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        line = bar.add_task("files", total=None)

        def tell(progress: Progress) -> None:
            bar.update(line, completed=progress.done, total=progress.total)

        async def work(opened: Table) -> RebuildResult:
            return await opened.rebuild_indexes(where, every=every, dry_run=dry_run, progress=tell)

        done = with_table(warehouse, table, parse_options(options, endpoint_url), work)
    if as_json:
        print_json(done.as_dict())
    else:
        say(f"{table}: {_said(done)}")


def _said(done: RebuildResult) -> str:
    if not done.changed and not done.passed_over:
        return "every file is indexed as it should be"
    if done.dry_run:
        return f"{done.files} files ({done.rows:,} rows) to index, {done.dropped} index files to drop"
    said = f"{done.files} files ({done.rows:,} rows) indexed, {human_bytes(done.bytes)}"
    more = f", {done.dropped} index files dropped" if done.dropped else ""
    over = f", {done.passed_over} passed over: others took them away" if done.passed_over else ""
    return f"{said}{more}{over}; snapshot {done.snapshot}"
