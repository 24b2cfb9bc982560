"""Storage options: what the user tells fsspec, kept so that secrets never show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.config import Secret

__all__ = ["StorageOptions"]

_SECRET_WORDS = (
    "account",
    "auth",
    "connection_string",
    "credential",
    "key",
    "pass",
    "sas",
    "secret",
    "session",
    "token",
)
_PLAIN = {"key_prefix"}
_USER_IN_URL = re.compile(r"://[^/@\s]*@")


class StorageOptions(Mapping[str, Any]):
    """An immutable mapping whose values that look secret print as ``***``.

    Holds fsspec's own names (``key``, ``secret``, ``token``, ``endpoint_url``,
    ``client_kwargs``, …). Iterating and indexing give the hidden form;
    :meth:`reveal` gives the real one to the backend.
    """

    __slots__ = ("_values",)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = _revealed(options or {})

    def reveal(self) -> dict[str, Any]:
        """The real values, in mappings of their own, for the one place that connects."""
        values: dict[str, Any] = _revealed(self._values)
        return values

    def __getitem__(self, name: str) -> Any:
        return _hidden(name, self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values)))

    def __repr__(self) -> str:
        return f"StorageOptions({ {name: self[name] for name in self} })"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._values,)


def _revealed(value: Any) -> Any:
    """The value as it is, with mappings copied and nothing hidden, however deep."""
    if isinstance(value, Mapping):
        return {name: _revealed(inner) for name, inner in value.items()}
    return value.reveal() if isinstance(value, Secret) else value


def _hidden(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {inner: _hidden(inner, it) for inner, it in value.items()}
    if value is None or isinstance(value, bool | int | float):
        return value
    looks_secret = name not in _PLAIN and any(word in name.lower() for word in _SECRET_WORDS)
    if looks_secret or (isinstance(value, str) and _USER_IN_URL.search(value)):
        return Secret(value)
    return value
