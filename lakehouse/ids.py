"""Unique names: tokens that prove who wrote an object, and UUIDs that name one."""

from __future__ import annotations

import uuid

__all__ = ["new_token", "new_uuid"]


def new_uuid() -> uuid.UUID:
    """Returns a random UUID (version 4)."""
    return uuid.uuid4()


def new_token() -> str:
    """Returns 32 hex digits that no other write carries; one per logical write, kept over its retries."""
    return uuid.uuid4().hex
