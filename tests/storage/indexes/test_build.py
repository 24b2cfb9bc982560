"""Index files of data files: what they hold, when there is one, and what a snapshot says of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

from lakehouse.format.puffin.footer import PuffinFooter
from lakehouse.format.schema import TableOptions, TableSchema, schema_from_arrow
from lakehouse.index.models import IndexType
from lakehouse.storage.indexes.build import (
    build_index,
    definitions_for,
    index_type,
    indexed_rows,
    rows_at_hand,
)
from lakehouse.testing import memory_store
from tests.kit.indexed_tables import SCHEMA, rows, table_with, value


def schema_with(indexes: Any) -> TableSchema:
    """A table with these indexes."""
    return schema_from_arrow(SCHEMA, primary_key="id", indexes=indexes)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ("bloom", IndexType.BLOOM_SKIPPING),
        ("inverted", IndexType.INVERTED),
        ("fulltext", IndexType.FULLTEXT_BLOOM),
        ({"fulltext": {"backend": "tantivy"}}, IndexType.FULLTEXT_TANTIVY),
    ],
)
def test_a_definition_has_one_type_of_index(wish: Any, expected: IndexType) -> None:
    """Kind and backend of a definition tell the type that its index has in files."""
    (definition,) = schema_with({"host": wish}).indexes
    assert index_type(definition) is expected


@pytest.mark.parametrize(
    ("count", "deletes", "is_indexed"), [(9, 0, False), (10, 0, True), (10, 9, True), (10, 10, False)]
)
def test_small_files_and_deletes_get_no_index(count: int, deletes: int, is_indexed: bool) -> None:
    """A file is indexed from ``index.min_rows`` on, unless all its rows delete."""
    schema = schema_with({"host": "bloom"})
    options = TableOptions.parse({"index.min_rows": "10"})
    found = definitions_for(schema, options, rows=count, deletes=deletes)
    assert found == (schema.indexes if is_indexed else ())


def test_rows_are_indexed_by_field_id() -> None:
    """The columns that definitions read are there once each, in the order of their ids, and no others."""
    schema = schema_with({"n": "inverted", "lower(host)": "bloom", "host, n": "bloom"})
    found = indexed_rows(pa.Table.from_pylist(rows(2), SCHEMA), schema, schema.indexes)
    assert found.column_names == ["#2", "#3"]
    assert found.column("#3").to_pylist() == [value(0), value(1)]


async def test_a_reference_describes_its_file() -> None:
    """It has the file's size, the length and checksum of its footer, and how far back each index begins."""
    schema = schema_with({"n": "inverted", "host": "bloom", "message": "fulltext"})
    table = pa.Table.from_pylist(rows(100), SCHEMA)
    built = await build_index(
        partial(rows_at_hand, table), schema, schema.indexes[::-1], path="index/x.puffin", of="data/x"
    )
    assert built is not None
    data, ref = built.data, built.ref
    footer = PuffinFooter.parse(data, len(data))
    assert isinstance(footer, PuffinFooter)
    begins = {blob.type: blob.offset for blob in footer.blobs}
    assert (ref.path, ref.size, ref.ids) == ("index/x.puffin", len(data), (1, 2, 3))
    assert ref.checksum == google_crc32c.value(data[-ref.footer_bytes :])
    assert [ref.size - reach for reach in ref.reach] == [
        begins["greptime-inverted-index-v1"],
        begins["greptime-bloom-filter-v1-2"],
        begins["greptime-fulltext-index-bloom-4"],
    ]


async def test_nothing_to_index_is_no_file() -> None:
    """Without a definition, and where the only one fails on a row, there is no index file."""
    table = pa.Table.from_pylist(rows(100), SCHEMA)
    for indexes in ({}, {"n * n * n * n * n * n * n * n": "inverted"}):
        schema = schema_with(indexes)
        source = partial(rows_at_hand, table)
        assert await build_index(source, schema, schema.indexes, path="index/x", of="data/x") is None


async def test_files_below_the_least_rows_get_none() -> None:
    """A data file of fewer rows than index.min_rows has no index file, one of as many has."""
    table = await table_with({"host": "bloom"}, files=0, options={"index.min_rows": 500})
    await table.append(rows(499))
    await table.append(rows(500))
    files = (await table.files()).sort_by("stored_rows").to_pylist()
    assert [(one["stored_rows"], one["indexes"], one["index_path"] is None) for one in files] == [
        (499, [], True),
        (500, [1], False),
    ]


async def test_any_reader_of_puffin_reads_the_files() -> None:
    """An index file is a puffin file whose blobs are named after field ids."""
    store = memory_store()
    table = await table_with(
        {"host": "bloom", "n": "inverted", "message": "fulltext", "payload#/user/id": "bloom"},
        store=store,
        files=1,
    )
    (file,) = (await table.files()).to_pylist()
    data = (await store.get(f"{table.location.removeprefix(store.url).strip('/')}/{file['index_path']}")).data
    footer = PuffinFooter.parse(data, len(data))
    assert isinstance(footer, PuffinFooter)
    assert [blob.type for blob in footer.blobs] == [
        "greptime-inverted-index-v1",
        "greptime-fulltext-index-bloom-4",
        "greptime-bloom-filter-v1-2",
        "greptime-bloom-filter-v1-5#%2Fuser%2Fid",
    ]
    assert footer.properties["lakehouse.indexes"] == "1,2,3,4"
    assert footer.properties["lakehouse.file"] == file["path"]


async def test_a_row_that_an_expression_fails_on_fails_no_write() -> None:
    """Where an expression cannot be computed the file goes without that index, and keeps the others."""
    table = await table_with({"n * n * n * n * n * n * n * n": "inverted", "host": "bloom"}, files=0)
    await table.append(rows(500))
    (file,) = (await table.files()).to_pylist()
    assert file["indexes"] == [2]
    assert await table.scan(f"host = 'Host-{value(7)}'").count() == 1
