"""Scopes: whose credentials reach the files of a table, and so who is given what is kept of them.

Content is kept for each scope apart, in caches of its own. Catalogs that are attached with the same
properties are of one scope, whichever account attached them. A manifest that another scope has read in the
same store is handed on to whoever reads its head with credentials of its own.

Invariant: nothing is handed out in a scope that was not read, in whole or its head, with credentials of that
scope. No key and no name of a cache says anything of a credential.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.cache import CacheBudget
from lakehouse.config import Secret
from lakehouse.ids import new_token
from lakehouse.io.options import StorageOptions

__all__ = ["Scope", "Scopes", "scope_tag", "store_digest"]

_KEY = secrets.token_bytes(32)
"""Digests are made with it, so that one that is seen helps nobody to guess what it was made of."""
_NUMBERS = itertools.count(1)
"""Numbers of scopes: no two of a process are one, whoever made them."""
_WHO = frozenset({"key", "secret", "token"})
"""Storage options of S3 that say who asks; the others say where."""
_AMBIENT = "AWS_"
"""Beginning of the variables of the environment that stores take credentials and endpoints from."""


class Scope:
    """Whose content a table is given; made by :class:`Scopes`, or plain for tables that share nothing.

    Args:
        who: names the caches of the scope; None = those of a budget that nobody shares.
        fingerprint: digest of the credentials.
    """

    __slots__ = ("__weakref__", "fingerprint", "who")

    def __init__(self, who: str | None = None, fingerprint: str = "") -> None:
        self.who, self.fingerprint = who, fingerprint

    def __repr__(self) -> str:
        return f"Scope({self.who!r})"


class Scopes:
    """The scopes of a lake's catalogs, those of all its accounts.

    Args:
        caches: budget of what is kept in the scopes.
    """

    def __init__(self, caches: CacheBudget) -> None:
        self._caches = caches
        self._held: dict[str, tuple[str, int]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def enter(self, properties: Mapping[str, Any]) -> Scope:
        """Returns a scope for a catalog with these properties; to be left by :meth:`leave`."""
        fingerprint = _digest(properties, _ambient())
        return Scope(self._hold(fingerprint), fingerprint)

    def leave(self, scope: Scope) -> None:
        """Gives a scope back; what was kept in it goes with the last catalog."""
        who, holders = self._held[scope.fingerprint]
        if holders > 1:
            self._held[scope.fingerprint] = who, holders - 1
            return
        del self._held[scope.fingerprint]
        self._caches.forget(who)
        self._caches.invalidate_tag(scope_tag(who))

    def move(self, scope: Scope, properties: Mapping[str, Any]) -> None:
        """Gives a scope other credentials: it keeps what it alone has read, and nothing of others."""
        fingerprint = _digest(properties, _ambient())
        if fingerprint == scope.fingerprint:
            return
        who, holders = self._held[scope.fingerprint]
        if holders == 1 and fingerprint not in self._held:
            self._held[fingerprint] = self._held.pop(scope.fingerprint)
        else:
            self.leave(scope)
            who = self._hold(fingerprint)
        scope.who, scope.fingerprint = who, fingerprint

    def _hold(self, fingerprint: str) -> str:
        known = self._held.get(fingerprint)
        if known is None:
            known = f"scope:{next(_NUMBERS)}", 0
        self._held[fingerprint] = known[0], known[1] + 1
        return known[0]


def scope_tag(who: str | None) -> tuple[str, str | None]:
    """Returns the tag of entries that speak of what a scope has."""
    return ("scope", who)


def store_digest(options: Mapping[str, Any] | None) -> str:
    """Returns what stores of S3 have in common that are the same store, whoever asks."""
    given = StorageOptions(options).reveal()
    return _digest({name: value for name, value in given.items() if name not in _WHO})


def _ambient() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_AMBIENT)}


def _digest(*parts: Mapping[str, Any]) -> str:
    digest = hashlib.blake2b(key=_KEY, digest_size=16)
    for part in parts:
        for text in _texts(part):
            encoded = text.encode()
            # Its length first, so that no two lists of texts are one.
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def _texts(value: Any) -> Iterator[str]:
    """Yields a value as texts that no other value has."""
    if isinstance(value, StorageOptions):
        value = value.reveal()
    if isinstance(value, Mapping):
        yield f"mapping {len(value)}"
        for name in sorted(value, key=str):
            yield str(name)
            yield from _texts(value[name])
    elif isinstance(value, list | tuple):
        yield f"list {len(value)}"
        for one in value:
            yield from _texts(one)
    elif value is None or isinstance(value, str | bytes | bool | int | float | Secret):
        shown = value.reveal() if isinstance(value, Secret) else value
        yield f"{type(shown).__name__} {shown!r}"
    else:  # an object may change what it says: it is like no other
        yield new_token()
