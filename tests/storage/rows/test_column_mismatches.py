"""What is said of columns that are not those of a table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.storage.rows.column_mismatches import column_differences

TABLE = schema_from_arrow(
    pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("amount", pa.float64()),
            pa.field("place", pa.struct([pa.field("city", pa.string()), pa.field("zip", pa.int32())])),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("facts", pa.map_(pa.string(), pa.int64())),
        ]
    ),
    primary_key=["id"],
)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"id": pa.int32(), "AMOUNT": pa.int64(), "tags": pa.null()}, []),
        ({"amount": pa.float64()}, ["missing: 'id' (bigint, which must not be null)"]),
        ({"id": pa.int64(), "amuont": pa.float64()}, ["extra: 'amuont' (double); the table has 'amount'"]),
        (
            {"id": pa.string()},
            ["wrong type: 'id' is string, and bigint in the table: cast it"],
        ),
        (
            {"id": pa.int64(), "place": pa.struct([("city", pa.int32()), ("street", pa.string())])},
            [
                "extra: 'place.street' (string)",
                "wrong type: 'place.city' is int, and string in the table: cast it",
            ],
        ),
        (
            {"id": pa.int64(), "tags": pa.list_(pa.int64()), "facts": pa.map_(pa.string(), pa.string())},
            [
                "wrong type: 'tags.element' is bigint, and string in the table: cast it",
                "wrong type: 'facts.value' is string, and bigint in the table: cast it",
            ],
        ),
        ({"id": pa.int64(), "tags": pa.string()}, None),
    ],
)
def test_every_column_is_judged_at_once(columns: dict[str, pa.DataType], told: list[str] | None) -> None:
    """Missing, unknown and wrongly typed columns are all named; what may be null may be missing."""
    found = column_differences(pa.schema(list(columns.items())), TABLE.fields)
    if told is None:
        assert len(found) == 1
        assert "'tags' is string, and array" in found[0]
    else:
        assert found == told


def test_case_counts_when_asked() -> None:
    """Names that differ in case are the same column, or different ones in a session that says so."""
    columns = pa.schema([("ID", pa.int64())])
    assert column_differences(columns, TABLE.fields) == []
    assert [one.split(":")[0] for one in column_differences(columns, TABLE.fields, case_matters=True)] == [
        "missing",
        "extra",
    ]
    twice = pa.schema([("ID", pa.int64()), ("id", pa.int64())])
    assert column_differences(twice, TABLE.fields) == ["ambiguous: 'ID' and 'id' are both 'id' of the table"]
