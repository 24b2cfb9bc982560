"""Functions with the same arguments: what is done with them is written once, and so are they."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["with_arguments_of"]

P = ParamSpec("P")
M = TypeVar("M")
R = TypeVar("R")


def with_arguments_of(first: Callable[P, M]) -> Callable[[Callable[[M], R]], Callable[P, R]]:
    """Makes a function take the arguments of another, which is called with them, and get its result."""

    def decorate(then: Callable[[M], R]) -> Callable[P, R]:
        @functools.wraps(then)
        def both(*args: P.args, **kwargs: P.kwargs) -> R:
            return then(first(*args, **kwargs))

        result = inspect.signature(then).return_annotation
        both.__signature__ = inspect.signature(first).replace(return_annotation=result)  # type: ignore[attr-defined]
        both.__annotations__ = {**first.__annotations__, "return": result}
        return both

    return decorate
