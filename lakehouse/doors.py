"""Doors: names that a package gives out, loaded from its modules when they are first used.

A package says which of its modules has which names, and reaching one loads that module alone. Type
checkers read the imports under ``TYPE_CHECKING`` beside it; a test compares the two.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["door"]


def door(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its full name.
        names: by module the names it has, with spaces between them. A module is one of the package,
            or any other where its name has a dot.
    """
    homes = {name: module for module, text in names.items() for name in text.split()}

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        module = importlib.import_module(home if "." in home else f"{package}.{home}")
        value = getattr(module, name)
        # Found without this function from now on.
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return load, listed
