"""What options say of merging: which combinations there are, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.merge_rules import PLAIN, Aggregate, ColumnRule, Engine, MergeSpec
from lakehouse.format.schema.table_schema import TableSchema, schema_from_arrow

COLUMNS = {
    "id": pa.int64(),
    "n": pa.int32(),
    "x": pa.float64(),
    "d": pa.decimal128(8, 2),
    "t": pa.string(),
    "b": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "l": pa.list_(pa.int64()),
    "ll": pa.list_(pa.list_(pa.int64())),
    "m": pa.map_(pa.string(), pa.int64()),
}
AGGREGATION = {"merge_engine": "aggregation"}
PARTIAL = {"merge_engine": "partial-update"}


def schema_of(options: dict[str, Any], *, key: str | tuple[()] = "id") -> TableSchema:
    """A table with a column of every kind."""
    return schema_from_arrow(pa.schema(COLUMNS), primary_key=key, options=options)


def test_a_table_without_options_is_plain() -> None:
    """Without options the newest row of a key stays, and nothing folds."""
    assert schema_of({}).merging is PLAIN
    assert schema_of({"merge_engine": "deduplicate"}).merging == PLAIN
    assert not PLAIN.is_mergeable
    assert PLAIN.picks_one_row


def test_columns_have_rules() -> None:
    """Every column outside the key has a rule: the one it is given, or the engine's."""
    merging = schema_of({**AGGREGATION, "fields.n.aggregate": "sum", "fields.t.delimiter": ","}).merging
    assert merging.engine is Engine.AGGREGATION
    assert merging.is_mergeable
    assert not merging.picks_one_row
    assert list(merging.rules) == list(COLUMNS)[1:]
    assert merging.rules["n"] == ColumnRule(aggregate=Aggregate.SUM)
    assert merging.rules["x"] == ColumnRule(aggregate=Aggregate.LAST_NON_NULL_VALUE)


def test_sequence_groups() -> None:
    """Columns of a group go by its sequence columns, and these go with them."""
    rules = schema_of({**PARTIAL, "fields.n , at.sequence_group": "x, t"}).merging.rules
    group = ColumnRule(aggregate=Aggregate.LAST_VALUE, sequence=("n", "at"), only_given=True)
    assert {name for name, rule in rules.items() if rule == group} == {"n", "at", "x", "t"}


def test_sequence_field() -> None:
    """Rows go by sequence.field as wholes; aggregates to which order matters do too."""
    by = schema_of({"sequence.field": "at"}).merging
    assert (by.is_mergeable, by.picks_one_row) == (True, True)
    assert by.rules["n"] == ColumnRule(aggregate=Aggregate.LAST_VALUE, sequence=("at",))
    said = {f"fields.{name}.aggregate": "last_value" for name in ("x", "d", "t", "b", "l", "ll", "m")}
    said["fields.n.aggregate"] = "sum"
    rules = schema_of({**AGGREGATION, "sequence.field": "at", **said}).merging.rules
    assert rules["x"].sequence == rules["at"].sequence == ("at",)
    assert rules["n"] == ColumnRule(aggregate=Aggregate.SUM)


def test_time_to_live() -> None:
    """Seconds count from a column; deletes may be dropped; neither makes rows operands."""
    merging = schema_of({"record.ttl_s": 1.5, "record.time_field": "at", "ignore_delete": True}).merging
    assert merging == MergeSpec(ttl_ms=1500, time_column="at", ignores_deletes=True)
    assert not merging.is_mergeable


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sequence.field": "att"}, "'sequence.field': 'att' is no column of the table outside"),
        ({"sequence.field": "id"}, "'sequence.field': 'id' is no column of the table outside"),
        ({"sequence.field": "n, l"}, "'sequence.field': column 'l' is array<bigint>: nested types"),
        ({**PARTIAL, "sequence.field": "at"}, "say fields.at.sequence_group"),
        ({"merge_engine": "first-row", "sequence.field": "at"}, "first-row goes by the order of commits"),
        ({"fields.n.aggregate": "sum"}, "'fields.n': engine deduplicate keeps rows whole"),
        ({"merge_engine": "first-row", "fields.n.aggregate": "sum"}, "engine first-row keeps rows whole"),
        ({**AGGREGATION, "fields.nn.aggregate": "sum"}, "'nn' is no column of the table outside"),
        ({**AGGREGATION, "fields.id.aggregate": "sum"}, "'id' is no column of the table outside"),
        ({**AGGREGATION, "fields.t.aggregate": "sum"}, "sum needs numbers, and column 't' is string"),
        ({**AGGREGATION, "fields.d.aggregate": "product"}, "product needs whole or floating-point numbers"),
        ({**AGGREGATION, "fields.x.aggregate": "count"}, "count needs a column of whole numbers"),
        ({**AGGREGATION, "fields.l.aggregate": "min"}, "min needs values that have an order"),
        ({**AGGREGATION, "fields.n.aggregate": "bool_or"}, "bool_or needs booleans, and column 'n' is int"),
        ({**AGGREGATION, "fields.n.aggregate": "listagg"}, "listagg needs text without a greatest length"),
        ({**AGGREGATION, "fields.m.aggregate": "collect"}, "collect needs an array"),
        (
            {**AGGREGATION, "fields.ll.aggregate": "collect", "fields.ll.distinct": True},
            "collect needs an array of values that are not nested",
        ),
        ({**AGGREGATION, "fields.l.aggregate": "merge_map"}, "merge_map needs a map"),
        ({**AGGREGATION, "fields.n.distinct": True}, "'fields.n.distinct': last_non_null_value has none"),
        ({**AGGREGATION, "fields.n.delimiter": ";"}, "'fields.n.delimiter': last_non_null_value has none"),
        ({**AGGREGATION, "fields.at.sequence_group": "n"}, "engine aggregation has no sequence groups"),
        (
            {**AGGREGATION, "sequence.field": "at"},
            "column 'n' is aggregated by last_non_null_value, which goes",
        ),
        ({**AGGREGATION, "sequence.field": "n", "fields.n.aggregate": "sum"}, "keeps its greatest value"),
        ({**PARTIAL, "fields.at.sequence_group": "id"}, "'id' is no column of the table outside"),
        ({**PARTIAL, "fields.at.sequence_group": "n, at"}, "column 'at' is named twice"),
        (
            {**PARTIAL, "fields.at.sequence_group": "n", "fields.x.sequence_group": "n"},
            "column 'n' is named twice",
        ),
        ({**PARTIAL, "fields.l.sequence_group": "n"}, "column 'l' is array<bigint>: nested types"),
        (
            {**PARTIAL, "fields.at.sequence_group": "n", "fields.n.aggregate": "sum"},
            "column 'n' goes by a sequence group",
        ),
        ({"record.ttl_s": 60}, "record.time_field must say from when it counts"),
        ({"record.time_field": "n"}, "column 'n' is int; it must be a timestamp, a date, or a bigint"),
        ({"record.time_field": "when"}, "'when' is no column of the table"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], says: str) -> None:
    """An option that does not fit the columns, or another option, is refused with both named."""
    with pytest.raises(InvalidInputError) as caught:
        schema_of(options)
    assert says in caught.value.message
    assert caught.value.context["option"] in caught.value.message


@pytest.mark.parametrize(
    "options",
    [PARTIAL, AGGREGATION, {"merge_engine": "first-row"}, {"sequence.field": "at"}, {"ignore_delete": True}],
)
def test_engines_need_a_key(options: dict[str, Any]) -> None:
    """A table without a primary key has no merge engine."""
    with pytest.raises(InvalidInputError, match="the table has no primary key"):
        schema_of(options, key=())


def test_columns_of_groups_may_be_null() -> None:
    """A column that is null until its sequence is given cannot be required."""
    columns = pa.schema([("id", pa.int64()), ("s", pa.int64()), pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(InvalidInputError, match="column 'a' must not be null") as caught:
        schema_from_arrow(columns, primary_key="id", options={**PARTIAL, "fields.s.sequence_group": "a"})
    assert caught.value.context["column"] == "a"
