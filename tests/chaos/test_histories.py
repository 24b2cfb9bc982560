"""The judge of chaos: it knows a table that is right from one that is not."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.chaos.histories import LAYOUTS, SCHEMA, History, How, Layout, Row, by_writer, operation

Rows = dict[int, Row]


def after(layout: Layout, number: int, *, without: int | None = None, twice: int | None = None) -> Rows:
    """The rows of writer 7 after an operation, perhaps without one before it or with one done twice."""
    history, rows = History(layout, 7, streams=True), Rows()
    for at in range(number + 1):
        for _ in range(0 if at == without else 2 if at == twice else 1):
            history._apply(rows, at)
    return rows


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Layout:
    """Every layout."""
    return LAYOUTS[request.param]


def put_that_shows(layout: Layout) -> int:
    """An operation before the sixtieth that puts rows which nothing has touched by then."""
    ops = {at: operation(layout, 7, at, streams=True) for at in range(61)}
    for at in reversed(range(60)):
        later = {slot for one in range(at + 1, 61) for slot in ops[one].slots}
        if ops[at].how is How.PUT and not later & set(ops[at].slots):
            return at
    raise AssertionError("no such operation")


def test_every_beginning_is_found(layout: Layout) -> None:
    """What a beginning of a history leaves is known for one that leaves just that."""
    history = History(layout, 7, streams=True)
    for number in range(-1, 200, 3):
        found = history.find(after(layout, number), number - (number >= 20) * 5 if number >= 20 else -1, 220)
        assert found is not None
        assert after(layout, found) == after(layout, number)


WRONG: dict[str, Callable[[Layout], Rows]] = {
    "an operation is missing": lambda layout: after(layout, 60, without=put_that_shows(layout)),
    "acknowledged ones are missing": lambda layout: after(layout, 20),
    "more than was sent": lambda layout: after(layout, 90),
    "a row that nobody sent": lambda layout: {**after(layout, 60), 1_000_000: (60, 61, "n1")},
    "a row of an older operation": lambda layout: {
        **after(layout, 60),
        operation(layout, 7, put_that_shows(layout), streams=True).slots[0]: (0, 1, "n0"),
    },
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_seen(layout: Layout, what: str) -> None:
    """Rows that no beginning between what was acknowledged and what was sent leaves are not found."""
    history = History(layout, 7, streams=True)
    rows = WRONG[what](layout)
    assert history.find(rows, 55, 65) is None
    assert history.differences(rows, 60)


def test_what_was_added_up_twice_is_seen() -> None:
    """A sum with an operation in it twice is none of its history."""
    layout = LAYOUTS["db.sums"]
    rows = after(layout, 60, twice=put_that_shows(layout))
    assert History(layout, 7, streams=True).find(rows, 55, 65) is None


def test_rows_twice_are_seen() -> None:
    """Two rows of a key are wrong whatever they hold."""
    row = {"who": 7, "part": "a", "slot": 2, "number": 1, "total": 1, "note": "n"}
    assert by_writer(pa.Table.from_pylist([row], SCHEMA)) == ({7: {2: (1, 1, "n")}}, [])
    assert by_writer(pa.Table.from_pylist([row, row], SCHEMA))[1]
