"""Signatures in builtins' files: ``(VARCHAR, ANY...) -> VARCHAR``, types as the engine writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Signature", "head_of", "parse_signature"]

_TOKENS = re.compile(r'"(?:[^"]|"")*"|[(\[<]|[)\]>]|,|->|[^"()\[\]<>,-]+|-')
_HEAD = re.compile(r'\s*("(?:[^"]|"")*"|[^(\[<"]*[^(\[<"\s])\s*(.*)', re.DOTALL)
_OPENING, _CLOSING = "([<", ")]>"


class Signature(NamedTuple):
    """Arguments and result of a function."""

    arguments: tuple[str, ...]
    is_variadic: bool
    returns: str | None


def parse_signature(text: str) -> Signature | None:
    """Reads a signature; returns None when it is none."""
    if not text.startswith("("):
        return None
    depth, parts, part = 0, list[str](), ""
    tokens = _TOKENS.finditer(text)
    for token in tokens:
        word = token[0]
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth == 0:
            break
        if depth == 1 and word in (",", "("):
            parts.append(part)
            part = ""
        else:
            part += word
    else:
        return None
    arguments = [each.strip() for each in [*parts[1:], part]]
    return _signature(arguments if arguments != [""] else [], text[token.end() :].strip())


def _signature(arguments: list[str], rest: str) -> Signature | None:
    arrow, returns = rest[:2], rest[2:].strip()
    is_variadic = bool(arguments) and arguments[-1].endswith("...")
    if is_variadic:
        arguments[-1] = arguments[-1].removesuffix("...").rstrip()
    if not all(arguments) or (rest and (arrow != "->" or not returns)) or not _is_even(returns):
        return None
    return Signature(tuple(arguments), is_variadic, returns or None)


def _is_even(text: str) -> bool:
    """Returns whether all brackets of a type are closed, and none but them."""
    depth = 0
    for word in _words(text):
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth < 0 or word == "->" or (word == "," and depth == 0):
            return False
    return depth == 0


def _words(text: str) -> Iterator[str]:
    return (found[0] for found in _TOKENS.finditer(text))


def head_of(type_text: str) -> tuple[str, str]:
    """Cuts a type into its name and what stands behind, such as ``DECIMAL`` and ``(18, 3)``."""
    found = _HEAD.fullmatch(type_text)
    return (found[1], found[2]) if found else (type_text, "")
