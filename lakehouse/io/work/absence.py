"""Reads of objects that may be absent."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from lakehouse.errors import NotFoundError

__all__ = ["or_none"]

R = TypeVar("R")


async def or_none(reading: Awaitable[R]) -> R | None:
    """Returns what a read returns, or None when its object is absent.

    Raises:
        NotFoundError: the bucket itself is missing, which says nothing about the object.
    """
    try:
        return await reading
    except NotFoundError as missing:
        if missing.kind == "missing-bucket":
            raise
        return None
