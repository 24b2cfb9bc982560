"""What a table holds after some rows were put, deleted and overwritten: in plain Python, by merge engine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["WORLDS", "Kept", "Layout", "Row", "State"]

Row = dict[str, Any]
Kept = tuple[list[str], list[Row]]
"""Columns, and rows in no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is laid out and merged."""

    name: str
    table: Mapping[str, Any]
    """Arguments of ``create_table``."""
    merge: Callable[[Row, Row], Row] | None = None
    """An older row and a newer one; None = the newer one."""

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of the key; none in an append-only table."""
        return tuple(self.table.get("primary_key", ()))

    def __repr__(self) -> str:
        return self.name


def _newest_values(old: Row, new: Row) -> Row:
    return {name: old[name] if new[name] is None else new[name] for name in new}


def _sums(old: Row, new: Row) -> Row:
    given = [row["v"] for row in (old, new) if row["v"] is not None]
    return {**_newest_values(old, new), "v": sum(given) if given else None}


def _first(old: Row, new: Row) -> Row:
    return old


WORLDS = (
    Layout(name="one bucket", table={"primary_key": ["id"]}),
    Layout(name="three buckets", table={"primary_key": ["id"], "bucket": 3}),
    Layout(
        name="key holds partition",
        table={"primary_key": ["id", "part"], "partition_by": ["part"], "bucket": 2},
    ),
    Layout(
        name="rows move between partitions",
        table={"primary_key": ["id"], "partition_by": ["part"], "bucket": 2},
    ),
    Layout(name="append-only", table={"partition_by": ["part"], "bucket": 2}),
    Layout(
        name="partial update",
        table={"primary_key": ["id"], "bucket": 2, "options": {"merge_engine": "partial-update"}},
        merge=_newest_values,
    ),
    Layout(
        name="sum",
        table={
            "primary_key": ["id", "part"],
            "partition_by": ["part"],
            "options": {"merge_engine": "aggregation", "fields.v.aggregate": "sum"},
        },
        merge=_sums,
    ),
    Layout(
        name="first row",
        table={"primary_key": ["id"], "bucket": 2, "options": {"merge_engine": "first-row"}},
        merge=_first,
    ),
)


@dataclass(slots=True)
class State:
    """What a reader should see."""

    layout: Layout
    columns: list[str] = field(default_factory=lambda: ["id", "part", "v", "s"])
    rows: list[Row] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    """Of columns that were added."""

    def copy(self) -> State:
        """Another one like it."""
        return copy.deepcopy(self)

    def kept(self) -> Kept:
        """Columns and rows, apart from what becomes of this state."""
        return list(self.columns), copy.deepcopy(self.rows)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """What tells rows apart."""
        return tuple(row[name] for name in self.layout.key)

    def find(self, key: tuple[Any, ...]) -> Row | None:
        """The row of a key."""
        return next((row for row in self.rows if self.key_of(row) == key), None)

    def put(self, some: Iterable[Row]) -> None:
        """Rows come, one after the other."""
        for row in some:
            full = {name: row.get(name, self.defaults.get(name)) for name in self.columns}
            if self.layout.key:
                old = self.find(self.key_of(full))
                if old is not None:
                    self.rows = [one for one in self.rows if one is not old]
                    full = full if self.layout.merge is None else self.layout.merge(old, full)
            self.rows.append(full)

    def delete(self, keys: Iterable[Row]) -> None:
        """Rows of these keys go."""
        doomed = [self.key_of(key) for key in keys]
        self.rows = [row for row in self.rows if self.key_of(row) not in doomed]

    def remove(self, holds: Callable[[Row], bool | None]) -> int:
        """Rows that match go; how many."""
        left = [row for row in self.rows if not holds(row)]
        gone = len(self.rows) - len(left)
        self.rows = left
        return gone

    def add_column(self, name: str, default: Any) -> None:
        """Every row has its default."""
        self.columns.append(name)
        self.defaults[name] = default
        for row in self.rows:
            row[name] = default

    def drop_column(self, name: str) -> None:
        """No row has it."""
        self.columns.remove(name)
        for row in self.rows:
            del row[name]

    def rename_column(self, old: str, new: str) -> None:
        """Every row has it under another name."""
        self.columns[self.columns.index(old)] = new
        self.defaults[new] = self.defaults.pop(old)
        self.rows = [{new if one == old else one: value for one, value in row.items()} for row in self.rows]
