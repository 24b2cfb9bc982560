"""Everything that commits to a table, with what it does to a model: for tests that put it in every order.

The table has the columns ``id``, ``part`` and ``v``, and the history that :func:`build` gives it: some
rows, rows that replace some of them, a deleted key. A model knows columns by what they were first
called, so that rows written before a rename are still there after it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse.errors import AlreadyExistsError, InvalidInputError
from lakehouse.storage.table import Table
from lakehouse.storage.tables.commit_result import CommitResult
from tests.kit.worlds import NAME, Row, World, process, restored, saved

__all__ = ["LAYOUTS", "OPERATIONS", "Model", "Operation", "build", "operation", "seen"]

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})
LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "key holds partition": {"primary_key": ["part", "id"], "partition_by": ["part"]},
    "rows move between partitions": {"primary_key": ["id"], "partition_by": ["part"]},
    "append-only": {"partition_by": ["part"]},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a table should hold."""

    key: tuple[str, ...]
    """Empty = append-only."""
    rows: tuple[Row, ...] = ()
    columns: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"id": "id", "part": "part", "v": "v"}
    )
    """What each column is called, by what it was first called."""
    tags: Mapping[str, int] = dataclasses.field(default_factory=dict)
    past: Mapping[int, tuple[tuple[Row, ...], Mapping[str, str]]] = dataclasses.field(default_factory=dict)
    """Rows and columns of snapshots."""

    def put(self, *rows: Row) -> Model:
        """With these rows."""
        kept = self.rows
        for row in rows if self.key else ():
            kept = tuple(one for one in kept if self._key(one) != self._key(row))
        full = tuple({name: row.get(name, 9) for name in self.columns} for row in rows)
        return dataclasses.replace(self, rows=kept + full)

    def without(self, doomed: Callable[[Row], bool]) -> Model:
        """Without these rows."""
        return dataclasses.replace(self, rows=tuple(row for row in self.rows if not doomed(row)))

    def has_any(self, *rows: Row) -> bool:
        """Whether a key is there."""
        there = [self._key(row) for row in self.rows]
        return any(self._key(row) in there for row in rows)

    def shown(self) -> Shown:
        """What a reader should see."""
        rows = [{shown: row[name] for name, shown in self.columns.items()} for row in self.rows]
        return list(self.columns.values()), sorted(rows, key=repr)

    def _key(self, row: Row) -> tuple[object, ...]:
        return tuple(row[name] for name in self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call that commits."""

    name: str
    run: Callable[..., Awaitable[CommitResult]]
    """Makes the call on a table, with further arguments such as ``writer=`` where it writes rows."""
    on: Callable[[Model], Model]
    """What it makes of a model; raises what the call raises."""
    needs_key: bool = False
    writes_rows: bool = True

    def __str__(self) -> str:
        return self.name


def _row(number: int, part: str, value: int) -> Row:
    return {"id": number, "part": part, "v": value}


FIRST = [_row(1, "a", 1), _row(2, "a", 2), _row(3, "b", 3)]
SECOND = [_row(1, "a", 10), _row(4, "b", 4)]
ROLLED_BACK_TO = 3
"""The snapshot before the key was deleted."""


async def build(layout: str) -> tuple[World, Model]:
    """A table of four snapshots, and what it holds."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    keys = LAYOUTS[layout].get("primary_key", ())
    table = await lake.create_table(NAME, SCHEMA, **LAYOUTS[layout])
    model, past = Model(key=tuple(keys)), {}
    steps: list[tuple[Awaitable[CommitResult], Callable[[Model], Model]]] = [
        (table.append(FIRST), lambda one: one.put(*FIRST)),
        (table.append(SECOND), lambda one: one.put(*SECOND)),
        (table.delete("id = 3"), lambda one: one.without(lambda row: row["id"] == 3)),
    ]
    for call, change in steps:
        number = (await call).snapshot
        model = change(model)
        past[number] = (model.rows, model.columns)
    return await saved(store), dataclasses.replace(model, past=past)


Shown = tuple[list[str], list[Row]]
"""Columns, and rows in some fixed order."""


async def seen(table: Table, snapshot: int | None = None) -> Shown:
    """What a reader sees."""
    found = await table.scan(snapshot=snapshot).to_arrow()
    return found.column_names, sorted(found.to_pylist(), key=repr)


# --- operations -----------------------------------------------------------------------

NEW = [_row(2, "a", 20), _row(5, "b", 5)]
CHANGED = [_row(1, "a", 100), _row(6, "b", 6)]
INSERTED = [_row(3, "b", 33), _row(7, "a", 70)]
ONLY = [_row(8, "a", 8), _row(9, "b", 9)]
OF_A = [_row(1, "a", -1), _row(10, "a", 10)]
OF_MANY = [_row(4, "b", 40), _row(11, "a", 60)]


def _many(row: Row) -> bool:
    return bool(row["v"] >= 3)


def _needs_v(model: Model) -> None:
    if model.columns.get("v") != "v":
        raise InvalidInputError("there is no column v")


def _delete_many(model: Model) -> Model:
    _needs_v(model)
    return model.without(_many)


def _overwrite_many(model: Model) -> Model:
    return _delete_many(model).put(*OF_MANY)


def _insert(model: Model) -> Model:
    if model.has_any(*INSERTED):
        raise AlreadyExistsError("a key is there")
    return model.put(*INSERTED)


def _delete_keys(model: Model) -> Model:
    return model.without(lambda row: (row["id"], row["part"]) in ((2, "a"), (4, "b")))


def _add_column(model: Model) -> Model:
    if "c" in model.columns:
        raise InvalidInputError("there is a column c")
    rows = tuple({**row, "c": 9} for row in model.rows)
    return dataclasses.replace(model, rows=rows, columns={**model.columns, "c": "c"})


def _rename(model: Model) -> Model:
    _needs_v(model)
    columns = {name: "w" if shown == "v" else shown for name, shown in model.columns.items()}
    return dataclasses.replace(model, columns=columns)


def _tag(model: Model) -> Model:
    if "there" in model.tags:
        raise AlreadyExistsError("there is such a tag")
    return dataclasses.replace(model, tags={**model.tags, "there": 2})


def _roll_back(model: Model) -> Model:
    rows, columns = model.past[ROLLED_BACK_TO]
    return dataclasses.replace(model, rows=rows, columns=columns)


async def _run_delete_keys(table: Table, **how: Any) -> CommitResult:
    names = (await table.schema(snapshot=1)).primary_key
    keys = [{"id": 2, "part": "a"}, {"id": 4, "part": "b"}]
    return await table.delete(keys=[{name: key[name] for name in names} for key in keys], **how)


async def _run_compact(table: Table) -> CommitResult:
    # One merge unit: the requests of several are made beside each other, in no order.
    names = (await table.schema(snapshot=1)).primary_key
    done = await table.compact("part = 'a'" if "part" in names else None, full=True)
    return CommitResult(snapshot=done.snapshot, changed=done.changed)


OPERATIONS = (
    Operation(name="append", run=lambda t, **how: t.append(NEW, **how), on=lambda m: m.put(*NEW)),
    Operation(
        name="upsert",
        run=lambda t, **how: t.upsert(CHANGED, **how),
        on=lambda m: m.put(*CHANGED),
        needs_key=True,
    ),
    Operation(name="delete by keys", run=_run_delete_keys, on=_delete_keys, needs_key=True),
    Operation(name="delete by condition", run=lambda t, **how: t.delete("v >= 3", **how), on=_delete_many),
    Operation(
        name="delete a partition",
        run=lambda t, **how: t.delete("part = 'a'", **how),
        on=lambda m: m.without(lambda row: row["part"] == "a"),
    ),
    Operation(
        name="overwrite all",
        run=lambda t, **how: t.overwrite(ONLY, **how),
        on=lambda m: m.without(lambda _: True).put(*ONLY),
    ),
    Operation(
        name="overwrite a partition",
        run=lambda t, **how: t.overwrite(OF_A, "part = 'a'", **how),
        on=lambda m: m.without(lambda row: row["part"] == "a").put(*OF_A),
    ),
    Operation(
        name="overwrite by condition",
        run=lambda t, **how: t.overwrite(OF_MANY, "v >= 3", **how),
        on=_overwrite_many,
    ),
    Operation(
        name="insert new keys",
        run=lambda t, **how: t.append(INSERTED, on_conflict="error", **how),
        on=_insert,
        needs_key=True,
    ),
    Operation(
        name="add a column",
        run=lambda t: t.add_column("c", "bigint", default=9),
        on=_add_column,
        writes_rows=False,
    ),
    Operation(name="rename a column", run=lambda t: t.rename_column("v", "w"), on=_rename, writes_rows=False),
    Operation(name="tag", run=lambda t: t.create_tag("there", snapshot=2), on=_tag, writes_rows=False),
    Operation(
        name="roll back",
        run=lambda t: t.rollback(snapshot=ROLLED_BACK_TO),
        on=_roll_back,
        writes_rows=False,
    ),
    Operation(name="compact", run=_run_compact, on=lambda m: m, needs_key=True, writes_rows=False),
)


def operation(name: str) -> Operation:
    """The operation of that name."""
    return next(one for one in OPERATIONS if one.name == name)
