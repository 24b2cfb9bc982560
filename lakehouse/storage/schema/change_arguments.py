"""Checks of the arguments of schema changes, since dataclasses accept values of any type.

Invariant: a change that :func:`check_arguments` lets pass has attributes of the kinds that its class
declares. Column types and defaults are not checked here: only the schema can judge them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short

__all__ = ["check_arguments"]


def check_arguments(change: Any) -> None:
    """Refuses a change with an attribute of a wrong kind.

    Raises:
        InvalidInputError: the message names the change and its attribute.
    """
    for attribute in dataclasses.fields(change):
        known = _KINDS.get(attribute.name)
        value = getattr(change, attribute.name)
        if known is not None and not known[1](value):
            raise InvalidInputError(
                f"{attribute.name!r} of {type(change).__name__} must be {known[0]}, not {short(value)}",
                argument=attribute.name,
            )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) or (_are_names(value) and isinstance(value, tuple | list) and bool(value))


def _are_names(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and all(isinstance(name, str) for name in value)
    )


def _are_options(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


_PATH = "a column's name, or the names that lead to a field, such as ('address', 'street')"
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "path": (_PATH, _is_path),
    "name": ("text", _is_text),
    "required": ("true or false", _is_flag),
    "first": ("true or false", _is_flag),
    "after": ("a column's name or None", _is_text_or_none),
    "comment": ("text or None", _is_text_or_none),
    "names": ("a list of names of options", _are_names),
    "options": ("{name: value}", _are_options),
    "kind": ("text or None", _is_text_or_none),
}
"""Checked attributes by name: the words of the error message, and the test a value must pass."""
