"""Pages over system and user rows together: system rows first, then the user's, none lost and none twice.

Pure: :func:`plan_page` says which user rows a page needs, the caller asks its source for them, and
:func:`merged_page` puts the page together. A token says which of the two listings goes on, and behind which
of its rows; so it survives rows that are made or dropped meanwhile.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short

__all__ = ["MergedPage", "PagePlan", "UserPage", "merged_page", "plan_page"]

T = TypeVar("T")

_SYSTEM, _USER = "s", "u"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPage(Generic[T]):
    """A page of user rows as their source gives it."""

    rows: tuple[T, ...]
    after: str | None = None
    """Token of the source's next page; None = this is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlan(Generic[T]):
    """System rows of a page, and the user rows that it needs behind them."""

    rows: tuple[T, ...]
    room: int
    """User rows that the page has room for."""
    user_limit: int
    """User rows to ask for; 0 = none are needed. One is asked for where a full page must know whether it
    is the last."""
    user_after: str | None
    """Token to ask the user's source with; None = from the beginning."""
    next_system: str | None
    """Name behind which system rows go on; None = they are all out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedPage(Generic[T]):
    """A page of both."""

    rows: tuple[T, ...]
    token: str | None = None
    """Token of the next page; None = this is the last."""


def plan_page(system: Sequence[T], token: str | None, *, limit: int, name: Callable[[T], str]) -> PagePlan[T]:
    """Plans a page.

    Args:
        system: all system rows, in order of their names.
        token: of the page before; None = the first page.
        limit: rows of a page at most.
        name: tells the name of a system row.
    """
    if limit < 1:
        raise InvalidInputError(f"a page has at least one row: limit must be 1 or more, not {limit}")
    part, after = _read(token)
    rest = [] if part == _USER else [row for row in system if after is None or name(row) > after]
    rows = tuple(rest[:limit])
    more = len(rest) > limit
    room = limit - len(rows)
    return PagePlan(
        rows=rows,
        room=room,
        user_limit=0 if more else max(room, 1),
        user_after=after if part == _USER else None,
        next_system=name(rows[-1]) if more else None,
    )


def merged_page(plan: PagePlan[T], user: UserPage[T] | None) -> MergedPage[T]:
    """Puts a page together.

    Args:
        plan: its plan.
        user: the page of user rows that the plan asks for; None where it asks for none.
    """
    if plan.next_system is not None or user is None:
        token = None if plan.next_system is None else _written(_SYSTEM, plan.next_system)
        return MergedPage(rows=plan.rows, token=token)
    if len(user.rows) > plan.room:
        # The rows were asked for to know whether there are any: the next page begins with them.
        return MergedPage(rows=plan.rows, token=_written(_USER, plan.user_after))
    token = None if user.after is None else _written(_USER, user.after)
    return MergedPage(rows=(*plan.rows, *user.rows), token=token)


def _written(part: str, after: str | None) -> str:
    text = part + ("" if after is None else f"={after}")
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(token: str | None) -> tuple[str, str | None]:
    """Returns which rows go on, and behind which."""
    if token is None:
        return _SYSTEM, None
    try:
        # Strict, so that no two texts are one token.
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError, AttributeError, TypeError):
        text = ""
    part, equals, after = text.partition("=")
    if part not in (_SYSTEM, _USER) or (part == _SYSTEM and not equals):
        raise InvalidInputError(
            f"{short(token)} is no page token: pass the token of the page before as it came, or none"
        )
    return part, after if equals else None
