"""Default place: ``LAKEHOUSE_WAREHOUSE`` says once which warehouse commands are about.

Invariant: a word is taken for a place where it looks like one, a URL or a path with a slash; so what a
command does never depends on what there is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand
from typer.models import CommandInfo

__all__ = ["PLACE_VARIABLE", "give_default_place", "is_place"]

PLACE_VARIABLE = "LAKEHOUSE_WAREHOUSE"
"""Variable of the environment with the URL of a warehouse."""
_PLACES = ("warehouse", "url")
"""Names of arguments that are a warehouse or a store."""


def is_place(word: object) -> bool:
    """Returns whether a word is a URL or a path, and cannot be a name: no name has a slash."""
    return isinstance(word, str) and ("/" in word or word in (".", ".."))


class _PlacedCommand(TyperCommand):
    """Command whose place may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the default place before the words where none of them is one."""
        place = os.environ.get(PLACE_VARIABLE)
        return super().parse_args(ctx, [place, *args] if place and self._lacks_place(ctx, args) else args)

    def _lacks_place(self, ctx: Any, args: list[str]) -> bool:
        first = next((one.name for one in self.params if one.param_type_name == "argument"), None)
        if first not in _PLACES:
            return False
        values, _, _ = self.make_parser(ctx).parse_args(args=[*args])
        return not is_place(values.get(first))


def give_default_place(app: typer.Typer) -> None:
    """Has every command of an application, and of the groups in it, know the default place."""
    for info in _commands(app):
        if info.cls in (None, TyperCommand):
            info.cls = _PlacedCommand


def _commands(app: typer.Typer) -> Iterator[CommandInfo]:
    yield from app.registered_commands
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from _commands(group.typer_instance)
