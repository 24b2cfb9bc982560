"""Storage options of file systems that fsspec knows, checked against what their classes take.

Invariant: a name that would have no effect is an error before anything is contacted. What a class hands
on to another library is checked against that library's names where they can be had.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final

import fsspec

from lakehouse.errors import InvalidInputError
from lakehouse.io.location import Location
from lakehouse.suggest import nearest, suggestion

__all__ = ["class_options", "fixed", "parameters", "unknown"]

_OF_EVERY: Final = frozenset({"batch_size", "listings_expiry_time", "max_paths", "use_listings_cache"})
"""Options that file systems take without saying so."""
_OWN: Final[Mapping[str, tuple[object, ...]]] = {
    "asynchronous": (True, False),
    "loop": (None,),
    "skip_instance_cache": (True,),
}
"""Options that the engine decides for every file system, with the values that agree."""
_HOLDS: Final[Mapping[str, Mapping[str, tuple[object, ...]]]] = {
    "file": {"auto_mkdir": (True,)},
    "memory": {"global_store": (True,)},
}
"""Options of our own backends' file systems whose effect is always the same, with the values that agree."""


def class_options(location: Location, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, once every name is known to the file system of the scheme."""
    scheme = location.scheme
    try:
        kind = fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError):
        return dict(options)  # the first request says which package is missing
    holds = {**_OWN, **_HOLDS.get(scheme, {})}
    known = {*parameters(kind), *_passed_on(kind)} - holds.keys()
    known = known | _OF_EVERY if scheme not in _HOLDS else known
    kept: dict[str, Any] = {}
    for name, value in options.items():
        if name in holds:
            fixed(name, value, holds[name], "the engine decides this itself")
        elif name in known or (_takes_anything(kind) and nearest(name, known) is None):
            kept[name] = value
        else:
            raise unknown(name, scheme, known)
    return kept


def fixed(name: str, value: Any, agreeing: Iterable[object], why: str) -> None:
    """Refuses a value other than the one that holds anyway."""
    if not any(value is one or value == one for one in agreeing):
        raise InvalidInputError(
            f"storage option {name!r} would have no effect: {why}. Leave it out.", option=name
        )


def unknown(name: str, scheme: str, known: Iterable[str], *, near: str | None = None) -> InvalidInputError:
    """The error for a name that no file system of the scheme takes."""
    names = sorted(known)
    hint = f"did you mean {near!r}?" if near else suggestion(name, names)
    return InvalidInputError(
        f"there is no storage option {name!r} for {scheme}://; {hint}",
        option=name,
        nearest=near or nearest(name, names),
    )


def parameters(kind: type) -> set[str]:
    """The names that the constructors of a class and of its bases take."""
    found: set[str] = set()
    for one in kind.__mro__:
        if "__init__" in vars(one) and one is not object:
            found |= {
                name
                for name, parameter in inspect.signature(vars(one)["__init__"]).parameters.items()
                if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            }
    return found - {"self"}


def _passed_on(kind: type) -> set[str]:
    """Names that a class of fsspec's takes by handing them to another library."""
    if any(one.__name__ == "HTTPFileSystem" for one in kind.__mro__):
        import aiohttp

        request = inspect.signature(aiohttp.ClientSession._request).parameters
        return set(request) - {"self", "method", "str_or_url", "data", "json"}
    return set()


def _takes_anything(kind: type) -> bool:
    """Whether a class from elsewhere takes names that nobody can look up."""
    if kind.__module__.startswith("fsspec.") and "sftp" not in kind.__module__:
        return False
    taken = inspect.signature(kind).parameters.values()
    return any(one.kind is one.VAR_KEYWORD for one in taken)
