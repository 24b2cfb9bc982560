"""The functions an expression may call: their SQL names, and the kernels that compute them.

Every function is a pyarrow kernel over whole arrays, and null in gives null out. ``matches`` is not
among them: it shares the tokenizer of the fulltext index, so that a scan and an index agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.expr.json_path import json_texts

__all__ = ["FUNCTIONS", "Function", "function"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function: its name, its number of arguments, and the kernel that computes it."""

    name: str
    """Name in a :class:`~lakehouse.expr.nodes.FunctionCall` and in the normal form."""
    arity: int
    compute: Callable[..., Any]
    """Makes an array of one array or scalar per argument."""
    operator: str | None = None
    """Sign that SQL writes between the arguments, if the function is an operator."""
    boolean: bool = False
    """True if the result is a truth value."""
    text: bool = False
    """True if the result is text, whatever the types of the arguments."""


def _text(array: Any) -> str:
    value = array.as_py() if isinstance(array, pa.Scalar) else None
    if not isinstance(value, str):
        raise InvalidInputError("the pattern of a text function must be a constant text")
    return value


def _divide(left: Any, right: Any) -> Any:
    """Divides as SQL does: integers too give a fraction, and division by zero gives null."""
    left, right = pc.cast(left, pa.float64()), pc.cast(right, pa.float64())
    zero = pc.equal(right, 0.0)
    # The kernel computes every row, also those that if_else drops: so zeros are replaced first.
    return pc.if_else(zero, pa.scalar(None, pa.float64()), pc.divide(left, pc.if_else(zero, 1.0, right)))


def _modulo(left: Any, right: Any) -> Any:
    """Returns the remainder, with the sign of the left side; of division by zero it is null."""
    zero = pc.equal(right, 0)
    safe = pc.if_else(zero, pa.scalar(1, right.type), right)
    remainder = pc.subtract(left, pc.multiply(pc.divide(left, safe), safe))
    return pc.if_else(zero, pa.scalar(None, remainder.type), remainder)


_ALL = (
    Function(name="add", arity=2, compute=pc.add_checked, operator="+"),
    Function(name="subtract", arity=2, compute=pc.subtract_checked, operator="-"),
    Function(name="multiply", arity=2, compute=pc.multiply_checked, operator="*"),
    Function(name="divide", arity=2, compute=_divide, operator="/"),
    Function(name="modulo", arity=2, compute=_modulo, operator="%"),
    Function(name="negate", arity=1, compute=pc.negate_checked),
    Function(name="abs", arity=1, compute=pc.abs_checked),
    Function(name="lower", arity=1, compute=pc.utf8_lower),
    Function(name="upper", arity=1, compute=pc.utf8_upper),
    Function(name="length", arity=1, compute=lambda text: pc.cast(pc.utf8_length(text), pa.int64())),
    Function(name="trim", arity=1, compute=pc.utf8_trim_whitespace),
    Function(
        name="starts_with",
        arity=2,
        compute=lambda text, prefix: pc.starts_with(text, pattern=_text(prefix)),
        boolean=True,
    ),
    Function(
        name="ends_with",
        arity=2,
        compute=lambda text, suffix: pc.ends_with(text, pattern=_text(suffix)),
        boolean=True,
    ),
    Function(
        name="contains",
        arity=2,
        compute=lambda text, part: pc.match_substring(text, pattern=_text(part)),
        boolean=True,
    ),
    Function(
        name="like",
        arity=2,
        compute=lambda text, pattern: pc.match_like(text, pattern=_text(pattern)),
        boolean=True,
    ),
    Function(
        name="regexp_matches",
        arity=2,
        compute=lambda text, pattern: pc.match_substring_regex(text, pattern=_text(pattern)),
        boolean=True,
    ),
    Function(
        name="json_extract_string",
        arity=2,
        compute=lambda documents, pointer: json_texts(documents, _text(pointer)),
        text=True,
    ),
    Function(name="year", arity=1, compute=pc.year),
    Function(name="month", arity=1, compute=pc.month),
    Function(name="day", arity=1, compute=pc.day),
    Function(name="hour", arity=1, compute=pc.hour),
)

FUNCTIONS = {entry.name: entry for entry in _ALL}
"""Functions by name. ``matches`` is not here: only a fulltext index knows its analyzer."""


def function(name: str, arity: int) -> Function:
    """Returns the function of that name; refuses unknown names and another number of arguments."""
    known_function = FUNCTIONS.get(name)
    if known_function is None:
        known = ", ".join(sorted(FUNCTIONS))
        raise InvalidInputError(f"there is no function {name!r}; these are there: {known}", function=name)
    if known_function.arity != arity:
        raise InvalidInputError(f"{name} takes {known_function.arity} arguments, not {arity}", function=name)
    return known_function
