"""Splices: cuts made in a text, and offsets of the result led back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InternalError
from lakehouse.sql.text import Cut, Splices


@st.composite
def _cut_texts(draw: st.DrawFn) -> tuple[bytes, list[Cut]]:
    pieces = draw(st.lists(st.text(max_size=8), min_size=1, max_size=6))
    cuts, at = [], 0
    for piece in pieces:
        length = len(piece.encode())
        if draw(st.booleans()):
            cuts.append(Cut(start=at, end=at + length, text=draw(st.text(max_size=8))))
        at += length
    return "".join(pieces).encode(), draw(st.permutations(cuts))


@given(_cut_texts())
def test_text_outside_of_cuts_stays_and_leads_back(given_text: tuple[bytes, list[Cut]]) -> None:
    """Each byte of the result is that of its origin, or of a replacement that leads to what it replaced."""
    raw, cuts = given_text
    splices = Splices.of(raw, cuts)
    ends = {cut.start: cut.end for cut in cuts}
    for offset in range(len(splices.result)):
        start, end = splices.origin(offset, 1)
        assert 0 <= start <= end <= len(raw)
        kept = raw[start : start + 1] == splices.result[offset : offset + 1]
        assert kept or start in ends
    kept_bytes = len(raw) - sum(cut.end - cut.start for cut in cuts)
    assert len(splices.result) == kept_bytes + sum(len(cut.text.encode()) for cut in cuts)


@given(_cut_texts())
def test_the_result_is_that_of_cutting_from_the_end(given_text: tuple[bytes, list[Cut]]) -> None:
    """Cuts are made where they stand in the text before, in whichever order they are given."""
    raw, cuts = given_text
    expected = raw
    for cut in sorted(cuts, reverse=True):
        expected = expected[: cut.start] + cut.text.encode() + expected[cut.end :]
    assert Splices.of(raw, cuts).result == expected


def test_a_range_of_a_replacement_is_all_that_it_replaced() -> None:
    """An error inside of a name that we wrote is shown at the name that the user wrote."""
    splices = Splices.of(b"from sales.orders where x", [Cut(start=5, end=17, text='"__r0" AS "orders"')])
    assert splices.text == 'from "__r0" AS "orders" where x'
    assert splices.origin(8, 2) == (5, 17)
    assert splices.origin(splices.text.index("where"), 5) == (18, 23)
    assert splices.origin(0, len(splices.text)) == (0, 25)


def test_an_offset_beyond_the_result_is_the_end_of_the_text() -> None:
    """An error at the end of the result is one at the end of the user's text."""
    splices = Splices.of(b"ab", [Cut(start=1, end=2, text="xyz")])
    assert splices.origin(400) == (2, 2)


@pytest.mark.parametrize(
    "cuts",
    [
        [Cut(start=0, end=2, text=""), Cut(start=1, end=3, text="")],
        [Cut(start=2, end=9, text="")],
        [Cut(start=2, end=1, text="")],
        [Cut(start=-1, end=1, text="")],
    ],
)
def test_cuts_that_overlap_or_leave_the_text_are_bugs(cuts: list[Cut]) -> None:
    """No byte is replaced twice, and none that is not there."""
    with pytest.raises(InternalError, match="cut"):
        Splices.of(b"abcd", cuts)
