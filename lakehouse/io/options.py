"""Storage options: what the user tells fsspec, kept so that secrets never show."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lakehouse.config import Secret
from lakehouse.errors import InvalidInputError, LakehouseError

__all__ = ["StorageOptions", "options_of_words"]

_SECRET_WORDS = (
    "account",
    "auth",
    "connection_string",
    "cookie",
    "credential",
    "header",
    "key",
    "params",
    "pass",
    "sas",
    "secret",
    "session",
    "token",
)
_PLAIN = {"key_prefix"}
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]*(?=@)")
_QUERY_IN_URL = re.compile(r"(://[^\s?'\"<>]*\?)[^\s'\"<>)]+")
_NAMES_OF_WHO = {"account_name", "aws_access_key_id", "key", "username"}
"""Options that say who asks: such a name may be a word that messages use."""
_SECRET_LONG, _NAME_LONG = 8, 16


class StorageOptions(Mapping[str, Any]):
    """An immutable mapping whose values that look secret print as ``***``.

    Holds fsspec's own names (``key``, ``secret``, ``token``, ``endpoint_url``,
    ``client_kwargs``, …). Iterating and indexing give the hidden form;
    :meth:`reveal` gives the real one to the backend.
    """

    __slots__ = ("_secrets", "_values")

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = _revealed(options or {})
        # Looked for once: that an object is absent is an error too, and one that reads of tables wait for.
        self._secrets = tuple(sorted(set(_secrets_in(self._values)), key=len, reverse=True))

    def reveal(self) -> dict[str, Any]:
        """The real values, in mappings of their own, for the one place that connects."""
        values: dict[str, Any] = _revealed(self._values)
        return values

    def masked(self, text: str) -> str:
        """Somebody else's text with ``***`` for each secret in it: of these options, and in URLs."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        if "://" not in text:
            return text
        return _QUERY_IN_URL.sub(r"\1***", _USER_IN_URL.sub("***", text))

    @contextlib.contextmanager
    def hiding(self) -> Iterator[None]:
        """Takes secrets out of the errors of a block: of messages and facts, with causes that repeat one."""
        try:
            yield
        except LakehouseError as error:
            error.message = self.masked(error.message)
            error.args = (error.message,)
            facts = error.context.items()
            error.context = {name: self.masked(it) if isinstance(it, str) else it for name, it in facts}
            raise error from self._harmless(error.__cause__)

    def _harmless(self, cause: BaseException | None) -> BaseException | None:
        """The cause, or None when it, or what led to it, repeats a secret: tracebacks show causes."""
        one = cause
        while one is not None:
            text = f"{one} {one!r} {one.args!r}"
            if self.masked(text) != text:
                return None
            one = one.__cause__ or one.__context__
        return cause

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


def options_of_words(words: Iterable[tuple[str, str]], endpoint: str | None = None) -> dict[str, Any]:
    """Storage options as a command line says them: truth values and JSON objects as such, all else as text.

    Args:
        words: names and values; a name may stand there twice only with the same value.
        endpoint: what ``--endpoint-url`` says.
    """
    found: dict[str, Any] = {}
    for name, text in [*words, *([("endpoint_url", endpoint)] if endpoint else [])]:
        value = _value_of_word(name, text)
        if found.setdefault(name, value) != value:
            raise InvalidInputError(
                f"storage option {name!r} is given twice, with different values", option=name
            )
    return found


def _value_of_word(name: str, text: str) -> Any:
    if not text.startswith("{"):
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return json.loads(text)
    except ValueError:
        # Neither the text nor the cause, which quotes it: there may be a key in it.
        raise InvalidInputError(
            f"storage option {name!r} begins with {{ and is no JSON", option=name
        ) from None


def _revealed(value: Any) -> Any:
    """The value as it is, with mappings copied and nothing hidden, however deep."""
    if isinstance(value, Mapping):
        return {name: _revealed(inner) for name, inner in value.items()}
    return value.reveal() if isinstance(value, Secret) else value


def _hidden(name: str, value: Any) -> Any:
    """The value as it may be shown; what stands in something secret is secret."""
    if isinstance(value, Mapping):
        outer = f"{name}." if _looks_secret(name) else ""
        return {inner: _hidden(f"{outer}{inner}", it) for inner, it in value.items()}
    if value is None or isinstance(value, bool | int | float):
        return value
    if _looks_secret(name) or (isinstance(value, str) and _is_signed(value)):
        return Secret(value)
    if isinstance(value, list | tuple):
        return [_hidden(name, one) for one in value]
    return value


def _looks_secret(name: str) -> bool:
    return name not in _PLAIN and any(word in name.lower() for word in _SECRET_WORDS)


def _is_signed(text: str) -> bool:
    """Whether a URL holds a user, or a query in which a signature may be."""
    return bool(_USER_IN_URL.search(text) or _QUERY_IN_URL.search(text))


def _secrets_in(value: Any, name: str = "") -> Iterator[str]:
    """Texts of the options that are secret and long enough to be nothing else."""
    if isinstance(value, Mapping):
        for inner, it in value.items():
            yield from _secrets_in(it, f"{name}.{inner}" if _looks_secret(name) else inner)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _secrets_in(one, name)
    elif isinstance(value, str) and _looks_secret(name):
        least = _NAME_LONG if name in _NAMES_OF_WHO else _SECRET_LONG
        yield from [value] if len(value) >= least else []
