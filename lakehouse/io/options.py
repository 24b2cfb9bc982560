"""Storage options: what the user tells fsspec, kept so that secrets never show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.config import Secret

__all__ = ["StorageOptions"]

_SECRET_WORDS = ("secret", "token", "password", "credential", "key", "sas", "account", "auth", "session")
_PLAIN = {"key_prefix"}


class StorageOptions(Mapping[str, Any]):
    """An immutable mapping whose secret-looking values print as ``***``.

    Holds fsspec's own names (``key``, ``secret``, ``token``, ``endpoint_url``,
    ``client_kwargs``, …). Iterating and indexing give the hidden form;
    :meth:`reveal` gives the real one to the backend.
    """

    __slots__ = ("_values",)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(
            options.reveal() if isinstance(options, StorageOptions) else options or {}
        )

    def reveal(self) -> dict[str, Any]:
        """The real values, nested mappings copied, for the one place that connects."""
        return {
            name: dict(value)
            if isinstance(value, Mapping)
            else value.reveal()
            if isinstance(value, Secret)
            else value
            for name, value in self._values.items()
        }

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


def _hidden(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {inner: _hidden(inner, it) for inner, it in value.items()}
    if isinstance(value, str) and name not in _PLAIN and any(word in name.lower() for word in _SECRET_WORDS):
        return Secret(value)
    return value
