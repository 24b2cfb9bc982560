"""Frame of commands: the words that all of a kind take, what they work on, how they print and end.

A command is a coroutine function. It gets what it works on, opened; then the words of its own, as the command
line has them; and what its keyword-only parameters ask for: ``url`` and ``storage_options`` that something
was opened with, ``as_json``, and ``tell``, which draws progress.

Invariant: what a command returns is printed when everything is closed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from lakehouse.cli.arguments import (
    Command,
    Endpoint,
    IcebergArgument,
    Json,
    Moved,
    ObjectUrl,
    Options,
    Places,
    TableArgument,
    Url,
    WarehouseArgument,
    parse_options,
    split_object,
    with_iceberg,
    with_lake,
    with_store,
    with_table,
    with_words,
    word,
)
from lakehouse.cli.output import print_json, say
from lakehouse.cli.progress import progress_bar

if TYPE_CHECKING:
    from lakehouse.io.work import Report

__all__ = ["Outcome", "finish", "on_iceberg", "on_lake", "on_object", "on_store", "on_table", "told"]

_Work = Callable[..., Awaitable["Outcome | None"]]

_NAMES = dict.fromkeys(("IcebergTable", "Lake", "ObjectStore", "ProgressCallback", "Table"), object)
"""Types that annotations name and no command line has; nothing is loaded for them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a command, for people and for programs."""

    text: str | Callable[[], object]
    """A sentence, or what prints it all."""
    json: Any = None
    """A document, or what prints it all."""
    code: int = 0
    """Exit code."""


def told(report: Report, code: int = 0) -> Outcome:
    """Returns a report as the result of a command."""
    return Outcome(str(report), report.as_dict(), code)


def finish(outcome: Outcome, *, as_json: bool) -> None:
    """Prints what came of a command, and ends it with its exit code."""
    said = outcome.json if as_json else outcome.text
    if callable(said):
        said()
    else:
        (print_json if as_json else say)(said)
    if outcome.code:
        raise typer.Exit(outcome.code)


def _framed(
    opened: Callable[..., Outcome | None], *before: inspect.Parameter, gets: int = 1, json: bool = True
) -> Callable[[_Work], Command]:
    """Makes a decorator that makes commands of coroutine functions.

    Args:
        opened: opens what commands work on, and does the work.
        before: words that say what they work on.
        gets: number of arguments that the work gets from there.
        json: whether there is ``--json``.
    """

    def decorate(work: _Work) -> Command:
        signature = inspect.signature(work, locals=_NAMES, eval_str=True)
        own = [*signature.parameters.values()][gets:]
        asked = {one.name for one in own if one.kind is inspect.Parameter.KEYWORD_ONLY}

        @functools.wraps(work)
        def command(
            *, options: list[str] | None, endpoint_url: str | None, as_json: bool = False, **given: Any
        ) -> None:
            place = [given.pop(one.name) for one in before]
            parsed = parse_options(options, endpoint_url)
            with progress_bar() if "tell" in asked else contextlib.nullcontext() as tell:
                known = {"url": place[0], "as_json": as_json, "storage_options": parsed, "tell": tell}
                asked_for = {name: known[name] for name in asked}
                outcome = opened(*place, parsed, functools.partial(work, **given, **asked_for))
            if outcome is not None:
                finish(outcome, as_json=as_json)

        return with_words(
            command, *before, *(one for one in own if one.name not in asked), *_AFTER[: 2 + json]
        )

    return decorate


_AFTER = (word("options", Options, None), word("endpoint_url", Endpoint, None), word("as_json", Json, False))
_WAREHOUSE = word("warehouse", WarehouseArgument)

on_table = _framed(with_table, _WAREHOUSE, word("table", TableArgument))
"""Makes a command on a table."""
on_lake = _framed(with_lake, _WAREHOUSE)
"""Makes a command on a lake."""
on_iceberg = _framed(
    with_iceberg,
    word("table", IcebergArgument),
    word("locations", Places, None),
    word("moved", Moved, False),
)
"""Makes a command on an Iceberg table that no catalog is asked for."""


def on_store(*, json: bool = True) -> Callable[[_Work], Command]:
    """Makes a command on a store."""
    return _framed(with_store, word("url", Url), json=json)


def on_object(
    split: Callable[[str], tuple[str, str]] = split_object, *, json: bool = True
) -> Callable[[_Work], Command]:
    """Makes a command on an object, which gets the store and the key that ``split`` finds in a URL."""

    def opened(url: str, options: dict[str, Any], work: _Work) -> Outcome | None:
        root, key = split(url)
        return with_store(root, options, lambda store: work(store, key))

    return _framed(opened, word("object_url", ObjectUrl), gets=2, json=json)
