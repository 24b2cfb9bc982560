"""Pages over system and user rows: none lost, none twice, whatever the limits."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.system import MergedPage, UserPage, merged_page, plan_page
from lakehouse.errors import InvalidInputError


def _user_page(rows: Sequence[str], after: str | None, limit: int) -> UserPage[str]:
    """A source of user rows whose tokens are names."""
    rest = [row for row in rows if after is None or row > after]
    page = tuple(rest[:limit])
    return UserPage(rows=page, after=page[-1] if len(rest) > limit else None)


def _page(system: Sequence[str], user: Sequence[str], token: str | None, limit: int) -> MergedPage[str]:
    plan = plan_page(system, token, limit=limit, name=str)
    asked = _user_page(user, plan.user_after, plan.user_limit) if plan.user_limit else None
    return merged_page(plan, asked)


def _all(system: Sequence[str], user: Sequence[str], limit: int) -> list[tuple[str, ...]]:
    """The rows of each page."""
    page = _page(system, user, None, limit)
    pages = [page.rows]
    while page.token is not None:
        page = _page(system, user, page.token, limit)
        pages.append(page.rows)
    return pages


def test_list_tables_system_filling_page_does_not_skip_user_rows() -> None:
    """Where system rows fill a page exactly, the next page begins with the first user row."""
    assert _all(["s1", "s2"], ["u1", "u2", "u3"], 2) == [("s1", "s2"), ("u1", "u2"), ("u3",)]


def test_list_tables_system_exactly_fills_page_with_no_user_rows_emits_no_token() -> None:
    """Where system rows fill a page and no user row follows, that page is the last."""
    assert _all(["s1", "s2"], [], 2) == [("s1", "s2")]


def test_list_tables_pages_through_system_overflow_without_loss() -> None:
    """System rows that take several pages come whole, and user rows begin in the page in which they end."""
    assert _all(["s1", "s2", "s3"], ["u1", "u2"], 2) == [("s1", "s2"), ("s3", "u1"), ("u2",)]


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "token",
    ["", "!", "not a token", "s", _encoded("s"), _encoded("x=1"), _encoded("system=1"), "=", "dT1h\n"],
)
def test_list_tables_rejects_malformed_system_token(token: str) -> None:
    """A token that no page gave out is refused, and not taken for the first page."""
    with pytest.raises(InvalidInputError, match="no page token"):
        plan_page(["s1"], token, limit=1, name=str)


@given(
    st.sets(st.text(max_size=4), max_size=12).map(sorted),
    st.sets(st.text(max_size=4), max_size=12).map(sorted),
    st.integers(1, 8),
)
def test_pages_have_every_row_once(system: list[str], user: list[str], limit: int) -> None:
    """All pages together are the system rows and then the user rows; only the last page may be short."""
    pages = _all(system, user, limit)
    assert [row for page in pages for row in page] == [*system, *user]
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1] or len(pages) == 1


@given(st.sets(st.text(max_size=3), min_size=2, max_size=10).map(sorted), st.integers(1, 3), st.data())
def test_rows_that_appear_meanwhile_lose_no_others(names: list[str], limit: int, data: st.DataObject) -> None:
    """Rows that are there from the first page to the last are listed once, whatever else comes and goes."""
    lasting = data.draw(st.sets(st.sampled_from(names), min_size=1))
    page = _page(["s"], sorted(lasting), None, limit)
    rows = [*page.rows]
    while page.token is not None:
        present = sorted(lasting | data.draw(st.sets(st.sampled_from(names))))
        page = _page(["s"], present, page.token, limit)
        rows += page.rows
    assert [row for row in rows[1:] if row in lasting] == sorted(lasting)


def test_a_page_without_rows_cannot_be_asked_for() -> None:
    """A limit below one is refused."""
    with pytest.raises(InvalidInputError, match="limit must be 1 or more"):
        plan_page(["s1"], None, limit=0, name=str)
