"""The kernel of merge engines against a plain model, one key and many, in one go and piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata.file_entry import KIND_COLUMN, RowKind
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.storage.merge.engines import fold, folded_input, merge_engine
from lakehouse.storage.merge.ordering import merge_order
from tests.kit.merge_models import ENGINES, EngineCase, Row, folded, rows_of

Element = tuple[RowKind, Row]
Run = dict[int, Element]

KINDS = st.sampled_from([RowKind.UPDATE, RowKind.UPDATE, RowKind.UPDATE, RowKind.INSERT, RowKind.DELETE])


@st.composite
def runs_of(draw: st.DrawFn, case: EngineCase) -> list[Run]:
    """Runs of a few keys, oldest first; rows as they count."""
    row = rows_of(case, st.integers(0, 3))
    runs = []
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(st.lists(st.tuples(KINDS, row), max_size=5))
        runs.append({row["id"]: (kind, _own(case, kind, row)) for kind, row in rows})
    return runs


def _own(case: EngineCase, kind: RowKind, row: Row) -> Row:
    if kind is RowKind.DELETE:
        return {name: row["id"] if name == "id" else None for name in row}
    return case.own(row)


def table_of(case: EngineCase, run: Run) -> pa.Table:
    """A run as a table."""
    keys = sorted(run)
    fields = [field.with_nullable(True) for field in case.schema.arrow()]
    table = pa.Table.from_pylist([run[key][1] for key in keys], schema=pa.schema(fields))
    kinds = pa.array([int(run[key][0]) for key in keys], pa.int8())
    return table.append_column(pa.field(KIND_COLUMN, pa.int8(), nullable=False), kinds)


def run_of(table: pa.Table) -> Run:
    """A table as a run."""
    rows = table.to_pylist()
    return {row["id"]: (RowKind(row.pop(KIND_COLUMN, 0)), row) for row in rows}


def model(case: EngineCase, runs: Sequence[Run]) -> Run:
    """The fold of every key, element by element."""
    keys = sorted({key for run in runs for key in run})
    return {
        key: reduce(lambda old, new: folded(case, old, new), [run[key] for run in runs if key in run])
        for key in keys
    }


def fold_of(case: EngineCase, tables: Sequence[pa.Table], *, finish: bool) -> pa.Table:
    """The kernel's fold of runs."""
    keys = [table.column("id").to_numpy() for table in tables]
    found = fold(merge_order(keys), tables, merge_engine(case.schema), finish=finish)
    found.validate(full=True)
    return found


@pytest.mark.parametrize("case", ENGINES, ids=str)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bracketing_gives_the_same_fold(case: EngineCase, data: st.DataObject) -> None:
    """Rows come to the same whichever neighbours are merged first, and to what the model says."""
    runs = data.draw(runs_of(case))
    tables = [table_of(case, run) for run in runs]
    expected = model(case, runs)
    assert run_of(fold_of(case, tables, finish=False)) == expected
    while len(tables) > 1:
        begin = data.draw(st.integers(0, len(tables) - 2))
        end = data.draw(st.integers(begin + 2, len(tables)))
        tables[begin:end] = [fold_of(case, tables[begin:end], finish=False)]
    assert run_of(tables[0]) == expected
    finished = {key: row for key, (kind, row) in expected.items() if kind is not RowKind.DELETE}
    last = fold_of(case, tables, finish=True)
    assert KIND_COLUMN not in last.column_names
    assert {row["id"]: row for row in last.to_pylist()} == finished


@pytest.mark.parametrize("case", ENGINES, ids=str)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_rows_count_as_they_are_written(case: EngineCase, data: st.DataObject) -> None:
    """A row that stands alone is written as what it comes to."""
    rows = data.draw(st.lists(rows_of(case, st.just(0)), min_size=1, max_size=4))
    written = merge_engine(case.schema).operands(pa.Table.from_pylist(rows, schema=case.schema.arrow()))
    written.validate(full=True)
    assert [row | {KIND_COLUMN: 1} for row in map(case.own, rows)] == written.to_pylist()


@pytest.mark.parametrize("case", ENGINES, ids=str)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_rows_of_one_input_are_folded_in_its_order(case: EngineCase, data: st.DataObject) -> None:
    """Several rows of a key that are handed in together become one operand, whatever their order."""
    rows = data.draw(st.lists(rows_of(case, st.integers(0, 3)), max_size=8))
    written = merge_engine(case.schema).operands(pa.Table.from_pylist(rows, schema=case.schema.arrow()))
    found = folded_input(written, case.schema)
    expected = model(case, [{row["id"]: (RowKind.UPDATE, case.own(row))} for row in rows])
    assert run_of(found) == expected
    assert found.num_rows == len(expected)


@pytest.mark.parametrize("case", [one for one in ENGINES if merge_engine(one.schema).picks_one_row], ids=str)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_engines_that_pick_rows_say_which(case: EngineCase, data: st.DataObject) -> None:
    """The rows picked, by number, are those of the fold."""
    tables = [table_of(case, run) for run in data.draw(runs_of(case))]
    engine = merge_engine(case.schema)
    order = merge_order([table.column("id").to_numpy() for table in tables])
    by_number = pa.concat_tables(tables).drop_columns([KIND_COLUMN]).take(engine.picked(order, tables))
    assert by_number.to_pylist() == fold_of(case, tables, finish=True).to_pylist()


def case_of(kind: pa.DataType, aggregate: str) -> EngineCase:
    """A table of one aggregated column."""
    options = {"merge_engine": "aggregation", "fields.v.aggregate": aggregate}
    return EngineCase(aggregate, {"v": kind}, options, lambda old, new: new)


def numbers(case: EngineCase, values: Sequence[Any], *, finish: bool = True) -> Any:
    """What values of one key come to."""
    runs = [{7: (RowKind.UPDATE, {"id": 7, "v": value})} for value in values]
    return fold_of(case, [table_of(case, run) for run in runs], finish=finish).column("v")[0].as_py()


BIG = 2**63 - 1


@pytest.mark.parametrize(
    ("kind", "aggregate", "values", "result"),
    [
        (pa.int8(), "sum", [100, 28], "128"),
        (pa.int32(), "sum", [-(2**31), -1], "-2147483649"),
        (pa.int64(), "sum", [BIG, 1], "9223372036854775808"),
        (pa.int64(), "product", [BIG, 2], "18446744073709551614"),
        (pa.int16(), "product", [256, -256], "-65536"),
        (pa.int8(), "count", [127, 1], "128"),
        (pa.decimal128(4, 2), "sum", ["99.99", "0.01"], "100.00"),
        (pa.decimal128(38, 0), "sum", ["9" * 38, "9" * 38], "1" + "9" * 37 + "8"),
    ],
)
def test_results_without_room_are_errors(
    kind: pa.DataType, aggregate: str, values: list[Any], result: str
) -> None:
    """A sum or product that its column has no room for is an error with column, key and value."""
    if pa.types.is_decimal(kind):
        values = pa.array(values).cast(kind).to_pylist()
    with pytest.raises(InvalidInputError, match=r"column 'v', key \{'id': 7\}: the .* has no room") as caught:
        numbers(case_of(kind, aggregate), values)
    assert str(caught.value.context["value"]) == result
    assert caught.value.context["column"] == "v"


@pytest.mark.parametrize("finish", [True, False])
def test_results_that_fit_are_exact(finish: bool) -> None:
    """Sums and products at the very border of a column are right, also where steps lead beyond it."""
    case = case_of(pa.int64(), "sum")
    assert numbers(case, [BIG, 1, -1, -BIG], finish=finish) == 0
    assert numbers(case, [-BIG, -1], finish=finish) == -BIG - 1
    assert numbers(case, [BIG, -BIG - 1, None], finish=finish) == -1
    assert numbers(case_of(pa.int64(), "product"), [2**62, -2], finish=finish) == -(2**63)
    assert numbers(case_of(pa.int64(), "product"), [2**62, 2**62, 0], finish=finish) == 0
    widest = case_of(pa.decimal128(38, 0), "sum")
    values = pa.array(["9" * 38, "-" + "9" * 38, "-1", None]).cast(pa.decimal128(38, 0)).to_pylist()
    assert numbers(widest, values, finish=finish) == -1
    assert numbers(widest, [None, values[1], None], finish=finish) == values[1]


def test_floating_point_numbers() -> None:
    """Doubles are summed as such; least and greatest know NaN and infinity."""
    values = [1.5, None, float("inf"), -2.5]
    assert numbers(case_of(pa.float64(), "sum"), values) == float("inf")
    assert numbers(case_of(pa.float32(), "product"), [1.5, None, -2.0]) == -3.0
    assert numbers(case_of(pa.float64(), "min"), [*values, float("nan")]) == -2.5
    assert np.isnan(numbers(case_of(pa.float64(), "max"), [float("nan"), *values]))


def test_plain_deduplicate_is_an_engine_too() -> None:
    """Without options the newest row hides everything older, and deletions are kept above the bottom."""
    schema = schema_from_arrow(pa.schema({"id": pa.int64(), "v": pa.int64()}), primary_key="id")
    case = EngineCase("plain", {"v": pa.int64()}, {}, lambda old, new: new)
    assert case.schema == schema
    runs = [
        {1: (RowKind.INSERT, {"id": 1, "v": 1}), 2: (RowKind.INSERT, {"id": 2, "v": 2})},
        {1: (RowKind.INSERT, {"id": 1, "v": None}), 2: (RowKind.DELETE, {"id": 2, "v": None})},
    ]
    tables = [table_of(case, run) for run in runs]
    assert run_of(fold_of(case, tables, finish=False)) == runs[1]
    assert fold_of(case, tables, finish=True).to_pylist() == [{"id": 1, "v": None}]


def test_no_rows_are_no_rows() -> None:
    """Runs without rows come to none, whatever columns are there."""
    for case in ENGINES:
        empty = table_of(case, {})
        assert fold_of(case, [empty], finish=True).num_rows == 0
        assert fold_of(case, [empty, empty], finish=False).num_rows == 0


def test_columns_may_be_left_out() -> None:
    """A fold of some columns, with those that they go by, is that of all columns."""
    case = next(one for one in ENGINES if one.name == "partial-update in groups")
    engine, schema = merge_engine(case.schema), case.schema
    assert [one.name for one in engine.needed([schema.field("c")])] == ["c", "t", "u"]
    assert [one.name for one in engine.needed([schema.field("v")])] == ["v"]
    picks = merge_engine(ENGINES[0].schema)
    assert [one.name for one in picks.needed([ENGINES[0].schema.field("v")])] == ["v", "s"]
