"""Finds the keys under a label (a tag, or the leading elements of a key) without a search.

Invariant: a label exists only while a key is under it.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterator
from typing import Any

from lakehouse.cache.weigh import LABEL_BYTES, LABEL_USE_BYTES

__all__ = ["Labels", "begins_with", "identity_tags"]


def identity_tags(identity: uuid.UUID) -> tuple[Hashable, ...]:
    """Tags of what is kept of one incarnation of a table or view, in whatever cache."""
    return (("identity", identity.bytes),)


def begins_with(key: Hashable, prefix: tuple[Hashable, ...]) -> bool:
    """Whether the key is a tuple whose first elements these are."""
    return isinstance(key, tuple) and key[: len(prefix)] == prefix


class Labels:
    """Keys by label. ``weight`` is what the index itself takes."""

    __slots__ = ("_keys", "weight")

    def __init__(self) -> None:
        self._keys: dict[Hashable, dict[Hashable, None]] = {}
        self.weight = 0

    def add(self, label: Hashable, key: Hashable) -> None:
        """Puts the key under the label, where it is not yet."""
        keys = self._keys.get(label)
        if keys is None:
            keys = self._keys[label] = {}
            self.weight += LABEL_BYTES
        keys[key] = None
        self.weight += LABEL_USE_BYTES

    def discard(self, label: Hashable, key: Hashable) -> None:
        """Takes the key away from the label, where it is."""
        keys = self._keys[label]
        del keys[key]
        self.weight -= LABEL_USE_BYTES
        if not keys:
            del self._keys[label]
            self.weight -= LABEL_BYTES

    def keys(self, label: Hashable) -> tuple[Any, ...]:
        """The keys under the label."""
        return tuple(self._keys.get(label, ()))

    def labels(self) -> Iterator[Any]:
        """All labels there are."""
        return iter(self._keys)
