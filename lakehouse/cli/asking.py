"""Confirmation of commands that take something away: they ask first.

Invariant: such a command does nothing until somebody said yes, with ``--yes`` or at a terminal. Where there
is no terminal nobody can answer, and it is refused: exit code 2. A dry run takes nothing away, and is not
asked about.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from lakehouse.cli.arguments import Command, with_words, word
from lakehouse.cli.output import print_error

__all__ = ["asks", "is_asking"]

_WRONG_USAGE = 2

_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal.")]


def asks(question: Callable[[Mapping[str, Any]], str]) -> Callable[[Command], Command]:
    """Gives a command the option ``--yes``, and lets it begin only when that or an answer says so.

    Args:
        question: the words to ask with, given the command's arguments by name; empty = these take nothing
            away.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def asking(*, yes: bool, **given: Any) -> None:
            words = "" if yes or given.get("dry_run", False) else question(given)
            if words:
                _confirm(words, as_json=given.get("as_json", False))
            command(**given)

        _ASKING.add(asking)
        return with_words(asking, *inspect.signature(command).parameters.values(), word("yes", _Yes, False))

    return decorate


_ASKING: set[Command] = set()
"""Commands that ask first."""


def is_asking(command: Command) -> bool:
    """Returns whether a command asks first."""
    return command in _ASKING


def _confirm(question: str, *, as_json: bool) -> None:
    """Asks at the terminal; ends the command on anything but yes, and where there is no terminal."""
    if not sys.stdin.isatty():
        print_error("unconfirmed", f"add --yes: there is no terminal to ask on. {question}", as_json=as_json)
        raise typer.Exit(_WRONG_USAGE)
    typer.confirm(question, abort=True, err=True)
