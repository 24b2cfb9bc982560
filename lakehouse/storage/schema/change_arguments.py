"""Arguments of changes of a schema: dataclasses take anything, and this is where it is looked at.

Invariant: a change that :func:`check_arguments` lets pass has attributes of the kinds that its class
says. Types and defaults, which only the schema can judge, are left to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short

__all__ = ["check_arguments"]


def check_arguments(change: Any) -> None:
    """Nothing when the attributes of a change are of their kinds.

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
        and all(isinstance(one, str) for one in value)
    )


def _are_options(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for one in value)


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
"""By the name of an attribute what it must be, and whether a value is that."""
