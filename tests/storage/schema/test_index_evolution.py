"""Changes of index definitions: another meaning has another id, and ids are never used again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Primitive, TableSchema, by_id, schema_from_arrow, target_text
from lakehouse.storage.schema.index_evolution import (
    AddIndex,
    AlterIndex,
    DropIndex,
    IndexChange,
    with_index_change,
    with_indexes_following,
)

SCHEMA = schema_from_arrow(
    pa.schema({"id": pa.int64(), "host": pa.string(), "n": pa.int32(), "message": pa.string()}),
    indexes={"host": "bloom", "message": ["inverted", "fulltext"], "n": "inverted", "n + 1": "inverted"},
)


def shown(schema: TableSchema) -> list[tuple[int, str, str]]:
    """Returns id, target and kind of each index."""
    names = by_id(schema.fields)
    return [(one.id, target_text(one.target, names), one.kind.value) for one in schema.indexes]


BEFORE = shown(SCHEMA)


def after(*changes: IndexChange) -> TableSchema:
    """Returns the schema after changes."""
    schema = SCHEMA
    for change in changes:
        schema = with_index_change(schema, change)
    return schema


def without(name: str) -> TableSchema:
    """Returns the schema without a column, with all its indexes."""
    return replace(SCHEMA, fields=tuple(field for field in SCHEMA.fields if field.name != name))


def changed(column: str, **about: Any) -> TableSchema:
    """Returns the schema with another definition of a column, and the same indexes."""
    fields = tuple(replace(field, **about) if field.name == column else field for field in SCHEMA.fields)
    return replace(SCHEMA, fields=fields)


def test_an_added_index_gets_the_next_id() -> None:
    """A new index stands behind the others with an id that no index ever had."""
    schema = after(AddIndex("host, n", "bloom", {"granularity": 7}))
    assert shown(schema) == [*BEFORE, (6, "host, n", "bloom")]
    assert (schema.indexes[-1].granularity, schema.highest_index_id) == (7, 6)


def test_the_id_of_a_dropped_index_is_not_used_again() -> None:
    """An index that is dropped and added again is another one."""
    schema = after(DropIndex("n + 1"), AddIndex("n + 1", "inverted"))
    assert shown(schema)[-1] == (6, "n + 1", "inverted")
    assert shown(after(DropIndex("n + 1"))) == BEFORE[:-1]


def test_an_altered_index_is_another_one_in_its_place() -> None:
    """Options that change give an index another id; its other options stay."""
    once = after(AlterIndex("host", options={"granularity": 5}))
    twice = with_index_change(once, AlterIndex("host", "bloom", {"false_positive_rate": 0.5}))
    assert shown(twice) == [(7, "host", "bloom"), *BEFORE[1:]]
    assert twice.indexes[0].options == {"granularity": 5, "false_positive_rate": 0.5}


def test_options_that_are_so_already_change_nothing() -> None:
    """An alteration to what an index is leaves the schema as it is."""
    options = SCHEMA.indexes[0].options
    assert after(AlterIndex("host", options=options)) is SCHEMA


def test_options_of_another_backend_are_left_behind() -> None:
    """Where the backend changes the old one's options mean nothing, and those not given have defaults."""
    sensitive = after(AlterIndex("message", "fulltext", {"case_sensitive": True, "granularity": 9}))
    schema = with_index_change(sensitive, AlterIndex("message", "fulltext", {"backend": "tantivy"}))
    assert schema.indexes[2].options == {
        "analyzer": "English",
        "case_sensitive": False,
        "backend": "tantivy",
        "compress": True,
    }


@pytest.mark.parametrize("change", [DropIndex, AlterIndex])
def test_one_of_several_indexes_is_named_by_its_kind(change: Any) -> None:
    """Where a target has several indexes the kind has to be said."""
    with pytest.raises(InvalidInputError, match="has several indexes, inverted and fulltext: say which"):
        after(change("message"))
    assert len(after(change("message", "inverted")).indexes) == {DropIndex: 4, AlterIndex: 5}[change]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (DropIndex("id"), r"'id' has no index; there is host \(bloom\), message \(inverted\)"),
        (DropIndex("host", "inverted"), r"'host' has no inverted index; there is host \(bloom\)"),
        (AlterIndex("host", options={"segment_row_count": 4}), "no option 'segment_row_count'"),
        (AddIndex("host", "bloom"), "two bloom indexes"),
        (AddIndex("hots", "bloom"), "did you mean 'host'"),
    ],
)
def test_changes_that_make_no_sense_are_refused(change: IndexChange, said: str) -> None:
    """An index that is not there, there already, or cannot be so is an error that says why."""
    with pytest.raises(InvalidInputError, match=said):
        after(change)


def test_a_renamed_column_keeps_its_indexes() -> None:
    """Definitions name columns by id, so that a new name changes none of them."""
    schema = with_indexes_following(SCHEMA, changed("n", name="number"))
    assert (schema.indexes, schema.highest_index_id) == (SCHEMA.indexes, SCHEMA.highest_index_id)


def test_a_dropped_column_takes_its_indexes_along() -> None:
    """Every index that reads a dropped column goes, those on expressions of it too."""
    schema = with_indexes_following(SCHEMA, without("n"))
    assert shown(schema) == BEFORE[:3]
    assert schema.highest_index_id == 5


def test_a_widened_column_makes_an_expression_another_one() -> None:
    """An index on a wider column stays as it is; one on an expression of it gets another id."""
    schema = with_indexes_following(SCHEMA, changed("n", type=Primitive("int64")))
    assert shown(schema) == [*BEFORE[:4], (6, "n + 1", "inverted")]
    assert schema.highest_index_id == 6


def test_the_same_columns_have_the_same_indexes() -> None:
    """A change that leaves the columns as they are leaves the schema as it is."""
    schema = replace(SCHEMA, comment="changed")
    assert with_indexes_following(SCHEMA, schema) is schema
