"""Changes of schemas whose columns are merged by rules: names follow, rules stay, by name or not at all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.table_schema import TableSchema, schema_from_arrow
from lakehouse.storage.schema.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetDefault,
    SetOptions,
    UnsetOptions,
    WidenColumn,
    evolve,
)

COLUMNS = {"id": pa.int64(), "n": pa.int32(), "s": pa.int64(), "t": pa.string(), "at": pa.timestamp("us")}
SUM = {"merge_engine": "aggregation", "fields.n.aggregate": "sum"}
GROUPS = {"merge_engine": "partial-update", "fields.s, at.sequence_group": "n, t"}


def made(options: dict[str, Any]) -> TableSchema:
    """A table with these options."""
    return schema_from_arrow(pa.schema(COLUMNS), primary_key="id", options=options)


def test_new_names_stand_in_options() -> None:
    """A column that is renamed has its new name wherever options name it."""
    changed = evolve(
        made({**SUM, "record.time_field": "at"}), [RenameColumn("n", "m"), RenameColumn("at", "w")]
    )
    assert changed.options == {
        "merge_engine": "aggregation",
        "fields.m.aggregate": "sum",
        "record.time_field": "w",
    }
    changed = evolve(made(GROUPS), [RenameColumn("n", "m"), RenameColumn("at", "w")])
    assert changed.options == {"merge_engine": "partial-update", "fields.s, w.sequence_group": "m, t"}
    changed = evolve(made({"sequence.field": "s,at"}), [RenameColumn("s", "q")])
    assert changed.options == {"sequence.field": "q, at"}


def test_a_column_takes_its_options_along() -> None:
    """Options of a column go when it does, and a group goes on without it."""
    assert evolve(made(SUM), [DropColumn("n")]).options == {"merge_engine": "aggregation"}
    changed = evolve(made(GROUPS), [DropColumn("t")])
    assert changed.options == {"merge_engine": "partial-update", "fields.s, at.sequence_group": "n"}


def test_a_new_column_may_say_how_it_is_merged() -> None:
    """What becomes of its values is said in the change that adds a column."""
    changed = evolve(made(SUM), [AddColumn("hits", "bigint"), SetOptions({"fields.hits.aggregate": "count"})])
    assert changed.merging.rules["hits"].aggregate == "count"
    assert evolve(made(SUM), [WidenColumn("n", "bigint")]).merging.rules["n"].aggregate == "sum"


@pytest.mark.parametrize(
    ("options", "change", "says"),
    [
        ({"sequence.field": "s"}, DropColumn("s"), "column 's' cannot be dropped: rows go by it"),
        (GROUPS, DropColumn("at"), "column 'at' cannot be dropped: columns n, t go by it"),
        (
            {"merge_engine": "partial-update", "fields.s.sequence_group": "n"},
            DropColumn("n"),
            "column 'n' cannot be dropped: it is the last column that goes by s",
        ),
        ({"record.time_field": "at"}, DropColumn("at"), "column 'at' cannot be dropped: rows go by it"),
        (SUM, SetOptions({"fields.n.aggregate": "max"}), "column 'n': how its values are merged"),
        (SUM, SetOptions({"fields.s.aggregate": "sum"}), "column 's': how its values are merged"),
        (SUM, UnsetOptions(["fields.n.aggregate"]), "column 'n': how its values are merged"),
        (GROUPS, SetOptions({"fields.s, at.sequence_group": "n"}), "column 't': how its values are merged"),
        (
            SUM,
            SetOptions({"merge_engine": "deduplicate"}),
            "'merge_engine': it is said when the table is created",
        ),
        ({}, SetOptions({"sequence.field": "s"}), "'sequence.field': it is said when the table is created"),
        ({}, SetOptions({"ignore_delete": True}), "'ignore_delete': it is said when the table is created"),
        (
            SUM,
            AddColumn("x", "int", default=1),
            "column 'x': in a table of engine aggregation a column is added",
        ),
        (
            GROUPS,
            SetDefault("s", 1),
            "column 's': in a table of engine partial-update a column has no default",
        ),
        (GROUPS, RenameColumn("n", "a,b"), "'a' is no column of the table outside its primary key"),
        ({}, SetOptions({"record.ttl_s": 5}), "record.time_field must say from when it counts"),
    ],
)
def test_what_would_change_values_is_refused(
    options: dict[str, Any], change: SchemaChange, says: str
) -> None:
    """A change after which rows that are there would come to something else is refused by name."""
    with pytest.raises(InvalidInputError) as caught:
        evolve(made(options), [change])
    assert says in caught.value.message


def test_a_column_by_sequence_needs_its_function_at_once() -> None:
    """Where rows go by sequence.field, a new column without a function is refused, and with one taken."""
    options = {f"fields.{name}.aggregate": "last_value" for name in ("n", "t", "at")}
    schema = made({"merge_engine": "aggregation", "sequence.field": "s", **options})
    with pytest.raises(InvalidInputError, match="column 'x' is aggregated by last_non_null_value"):
        evolve(schema, [AddColumn("x", "int")])
    assert evolve(schema, [AddColumn("x", "int"), SetOptions({"fields.x.aggregate": "max"})]).field("x")
