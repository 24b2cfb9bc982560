"""``lakehouse table rebuild-indexes``, and indexes as words of a command line."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import Partitions, PlanOnly
from lakehouse.cli.frame import Outcome, on_table
from lakehouse.cli.output import human_bytes
from lakehouse.errors import InvalidInputError
from lakehouse.format import schema, text

if TYPE_CHECKING:
    from lakehouse.io.work import ProgressCallback
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


@on_table
async def rebuild_indexes(
    table: Table,
    where: Partitions = None,
    every: Annotated[
        bool, typer.Option("--every", help="Also files whose indexes are as they should be.")
    ] = False,
    dry_run: PlanOnly = False,
    *,
    tell: ProgressCallback,
) -> Outcome:
    """Index the data files that are not indexed as the table says."""
    done = await table.rebuild_indexes(where, every=every, dry_run=dry_run, progress=tell)
    return Outcome(f"{table.name}: {_said(done)}", done.as_dict())


def _said(done: RebuildResult) -> str:
    if not done.changed and not done.passed_over:
        return "every file is indexed as it should be"
    if done.dry_run:
        return f"{done.files} files ({done.rows:,} rows) to index, {done.dropped} index files to drop"
    said = f"{done.files} files ({done.rows:,} rows) indexed, {human_bytes(done.bytes)}"
    more = f", {done.dropped} index files dropped" if done.dropped else ""
    over = f", {done.passed_over} passed over: others took them away" if done.passed_over else ""
    return f"{said}{more}{over}; snapshot {done.snapshot}"
