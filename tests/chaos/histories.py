"""What writers do to a table, one operation after the other, and what a table may show of it.

A writer owns the keys that begin with its number, and its operations follow from their place in its
history alone: whoever knows how far it came knows every row. So a table is right when it holds, for each
writer, what some beginning of its history leaves: one not shorter than what was acknowledged before the
table was read, and not longer than what was sent by then. Nothing lost, twice, out of order or invented.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = ["LAYOUTS", "SCHEMA", "History", "How", "Layout", "Operation", "Row", "by_writer", "operation"]

Row = tuple[int, int, str]
"""Number of the operation that wrote it last, total, and note."""

SCHEMA = pa.schema(
    {
        "who": pa.int64(),
        "part": pa.string(),
        "slot": pa.int64(),
        "number": pa.int64(),
        "total": pa.int64(),
        "note": pa.string(),
    }
)
_SLOTS = 40
_NOTES = 31
_KEPT = 1_000
"""Operations whose rows stay, about, where each has rows of its own."""
_BATCHES = 0.04
"""Share of operations of a streaming writer that it commits as batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is laid out and merged."""

    name: str
    table: Mapping[str, Any]
    """Arguments of ``create_table``."""
    adds: bool = False
    """Whether totals are added up; otherwise the newest row counts."""
    grows: bool = False
    """Whether each operation has rows of its own; otherwise a few are replaced again and again."""


LAYOUTS = {
    one.name: one
    for one in (
        Layout(name="db.newest", table={"primary_key": ["who", "slot"]}),
        Layout(
            name="db.sums",
            table={
                "primary_key": ["who", "slot"],
                "bucket": 2,
                "options": {"merge_engine": "aggregation", "fields.total.aggregate": "sum"},
            },
            adds=True,
        ),
        Layout(
            name="db.events",
            table={
                "primary_key": ["part", "who", "slot"],
                "partition_by": ["part"],
                "bucket": 2,
                "options": {"index.min_rows": "1", "file.format.level0": "sst"},
                "indexes": {"note": "inverted", "number": "bloom"},
            },
            grows=True,
        ),
    )
}


class How(enum.Enum):
    """What an operation does with rows."""

    PUT = "put"
    DELETE = "delete"
    """By their keys."""
    DELETE_WHERE = "delete where"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One step of a history."""

    how: How
    slots: tuple[int, ...] = ()
    note: str = ""
    total: int = 0
    below: int | None = None
    """With ``DELETE_WHERE``: slots below go; None = rows of the note."""
    streams: bool = False
    """Whether a streaming writer puts it; otherwise it is a commit."""

    def rows(self, who: int, number: int) -> list[dict[str, Any]]:
        """What is put."""
        value = {"number": number, "total": self.total, "note": self.note}
        return [{"who": who, "part": "ab"[slot % 2], "slot": slot, **value} for slot in self.slots]

    def keys(self, who: int, layout: Layout) -> list[dict[str, Any]]:
        """What is deleted."""
        return [{name: row[name] for name in layout.table["primary_key"]} for row in self.rows(who, 0)]

    def where(self, who: int) -> str:
        """The condition of what is deleted."""
        what = f"note = '{self.note}'" if self.below is None else f"slot < {self.below}"
        return f"who = {who} AND {what}"


def operation(layout: Layout, who: int, number: int, *, streams: bool) -> Operation:
    """The operation at a place of a writer's history."""
    chance = random.Random(who * 1_000_000_007 + number)
    draw, count = chance.random(), chance.randrange(1, 4)
    streams = streams and chance.random() >= _BATCHES
    note = f"n{number % _NOTES}"
    if draw < 0.04 and not streams:
        if layout.grows and draw < 0.02:
            return Operation(how=How.DELETE_WHERE, below=4 * (number - _KEPT))
        return Operation(how=How.DELETE_WHERE, note=f"n{chance.randrange(_NOTES)}")
    if layout.grows:
        # Four slots to each operation; deletions take those of one not long ago.
        at = number if draw < 0.8 else max(0, number - chance.randrange(1, 50))
        slots = tuple(4 * at + one for one in range(count))
    else:
        slots = tuple(chance.sample(range(_SLOTS), count))
    if draw < 0.8:
        return Operation(how=How.PUT, slots=slots, note=note, total=number + 1, streams=streams)
    return Operation(how=How.DELETE, slots=slots, streams=streams)


class History:
    """How far a table has to be with the operations of a writer.

    Args:
        layout: of the table.
        who: the writer.
        streams: whether it is a streaming one.
    """

    def __init__(self, layout: Layout, who: int, *, streams: bool) -> None:
        self._layout, self.who, self._streams = layout, who, streams
        self._at = -1
        self._rows: dict[int, Row] = {}

    def find(self, seen: Mapping[int, Row], low: int, high: int) -> int | None:
        """The first operation from ``low`` to ``high`` that leaves just these rows; None = there is none.

        From one call to the next ``low`` must not go back. -1 stands for the beginning.
        """
        self._go_to(low)
        rows, number = dict(self._rows), low
        wrong = {slot for slot in seen.keys() | rows.keys() if seen.get(slot) != rows.get(slot)}
        while wrong and number < high:
            number += 1
            for slot in self._apply(rows, number):
                if seen.get(slot) == rows.get(slot):
                    wrong.discard(slot)
                else:
                    wrong.add(slot)
        return None if wrong else number

    def differences(self, seen: Mapping[int, Row], at: int) -> list[str]:
        """For people: what is other than it should be after an operation; not before the last ``find``."""
        rows = dict(self._rows)
        for number in range(self._at + 1, at + 1):
            self._apply(rows, number)
        return [
            f"slot {slot} is {seen.get(slot)}, and {rows.get(slot)} after operation {at}"
            for slot in sorted(seen.keys() | rows.keys())
            if seen.get(slot) != rows.get(slot)
        ]

    def _go_to(self, number: int) -> None:
        while self._at < number:
            self._at += 1
            self._apply(self._rows, self._at)

    def _apply(self, rows: dict[int, Row], number: int) -> Iterable[int]:
        """Does an operation; the slots that it may have changed."""
        done = operation(self._layout, self.who, number, streams=self._streams)
        if done.how is How.PUT:
            for slot in done.slots:
                before = rows[slot][1] if self._layout.adds and slot in rows else 0
                rows[slot] = number, before + done.total, done.note
            return done.slots
        if done.how is How.DELETE:
            gone: Iterable[int] = done.slots
        elif done.below is not None:
            gone = [slot for slot in rows if slot < done.below]
        else:
            gone = [slot for slot, row in rows.items() if row[2] == done.note]
        for slot in gone:
            rows.pop(slot, None)
        return gone


def by_writer(found: pa.Table) -> tuple[dict[int, dict[int, Row]], list[str]]:
    """The rows of each writer by their slots, and what is wrong with them already."""
    rows: dict[int, dict[int, Row]] = {}
    wrong = []
    columns = (found.column(name).to_pylist() for name in SCHEMA.names)
    for who, part, slot, number, total, note in zip(*columns, strict=True):
        mine = rows.setdefault(who, {})
        if slot in mine:
            wrong.append(f"writer {who}, slot {slot} is there twice")
        if part != "ab"[slot % 2]:
            wrong.append(f"writer {who}, slot {slot} has part {part!r}")
        mine[slot] = number, total, note
    return rows, wrong
