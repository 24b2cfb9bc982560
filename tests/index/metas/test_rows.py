"""Rows of index metadata: three shapes, to the letter, and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import FormatError, InvalidInputError, UnsupportedVersionError
from lakehouse.format.schema.target_key import ColumnSetTarget, ColumnTarget, ExpressionTarget, JsonPathTarget
from lakehouse.index import (
    COMPACT,
    FLAT,
    GREPTIME,
    SHAPES,
    BloomInfo,
    FulltextInfo,
    IndexEntry,
    IndexType,
    MetaInfo,
    RowShape,
    parse_row,
)
from tests.kit.blob_samples import GREPTIME as SAMPLES
from tests.kit.blob_samples import manifest, spec_block
from tests.kit.index_entries import BLOOM, INVERTED, LOCATOR, entries, entry, sample_entries

PAGE = "index-meta-rows.md"
FULLTEXT = FulltextInfo(
    analyzer="english",
    case_sensitive=False,
    granularity=2,
    false_positive_rate=0.01,
    raw_config='{"analyzer":"English"}',
)
METAS = {
    IndexType.BLOOM_SKIPPING: MetaInfo(bloom=BLOOM),
    IndexType.FULLTEXT_BLOOM: MetaInfo(bloom=BLOOM, fulltext=FULLTEXT),
    IndexType.FULLTEXT_TANTIVY: MetaInfo(fulltext=FulltextInfo(analyzer="chinese", case_sensitive=True)),
    IndexType.INVERTED: MetaInfo(inverted=INVERTED),
}
EXAMPLE = entry(IndexType.INVERTED, "1", METAS[IndexType.INVERTED])


def spec_lines(name: str) -> dict[str, str]:
    """A block of the page as first word: rest of the line."""
    pairs = (line.split(maxsplit=1) for line in spec_block(PAGE, name).splitlines())
    return {word: rest.strip() for word, rest in pairs}


@pytest.mark.parametrize("shape", [COMPACT, GREPTIME], ids=lambda shape: shape.name)
def test_examples_of_the_specification_are_rows(shape: RowShape) -> None:
    """The page shows what is written, column by column in order."""
    shown = json.loads(spec_block(PAGE, shape.name))
    row = shape.to_dict(EXAMPLE)
    assert row == shown
    assert list(row) == list(shown) == shape.schema.names


@pytest.mark.parametrize("kind", IndexType)
def test_metadata_is_written_as_the_specification_says(kind: IndexType) -> None:
    """Each kind's ``meta_json`` is the page's, byte for byte."""
    assert COMPACT.to_dict(entry(kind, "1", METAS[kind]))["meta_json"] == spec_lines("metas")[kind]


@pytest.mark.parametrize(
    "target",
    [
        ColumnTarget(column_id=7),
        ColumnSetTarget(column_ids=(1, 7)),
        JsonPathTarget(column_id=7, pointer="/a/b~1c"),
        ExpressionTarget.of("lower(name)"),
        "?",
    ],
    ids=str,
)
def test_targets_are_written_as_the_specification_says(target: Any) -> None:
    """Each target's type and ``target_json`` are the page's, byte for byte."""
    row = COMPACT.to_dict(entry(IndexType.BLOOM_SKIPPING, target))
    assert spec_lines("targets")[row["target_type"]] == row["target_json"]


def test_flat_columns_are_those_of_the_specification() -> None:
    """A flat row has the core columns, then one for each fact."""
    core = COMPACT.schema.names[:8]
    assert FLAT.schema.names[:8] == core
    assert {name: str(FLAT.schema.field(name).type) for name in FLAT.schema.names[8:]} == spec_lines("flat")


def test_greptime_columns_are_upstreams() -> None:
    """A GreptimeDB row has the 16 columns of ``information_schema.ssts_index_meta``, with types and nulls."""
    types = {
        "UInt64": {"region_id", "index_file_size", "blob_size", "node_id"},
        "UInt32": {"table_id", "region_number", "region_sequence"},
        "UInt8": {"region_group"},
    }
    assert len(GREPTIME.schema) == 16
    for field in GREPTIME.schema:
        wanted = next((word for word, names in types.items() if field.name in names), "String")
        assert str(field.type) == wanted.lower()
        assert field.nullable == (field.name in {"index_file_size", "meta_json", "node_id"})


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_give_upstreams_entries(name: str) -> None:
    """Files that GreptimeDB's own code wrote give the rows that its own enumeration gives."""
    expected = manifest()[f"{name}.puffin"]["upstream_read_back"]["expected_entries"]
    rows = [GREPTIME.to_dict(one) for one in sample_entries(name)]
    assert [{key: row[key] for key in expected[0]} for row in rows] == expected if expected else not rows


@pytest.mark.parametrize(
    ("kind", "meta", "blob_size", "word", "text"),
    [
        (
            IndexType.BLOOM_SKIPPING,
            METAS[IndexType.BLOOM_SKIPPING],
            751,
            "bloom_filter",
            '{"bloom":{"bloom_filter_size":640,"row_count":20,"rows_per_segment":2,"segment_count":10}}',
        ),
        (
            IndexType.FULLTEXT_BLOOM,
            MetaInfo(
                bloom=BloomInfo(rows_per_segment=4, segment_count=5, row_count=20, bloom_filter_size=64),
                fulltext=FULLTEXT,
            ),
            89,
            "fulltext_bloom",
            (
                '{"bloom":{"bloom_filter_size":64,"row_count":20,"rows_per_segment":4,"segment_count":5},'
                '"fulltext":{"analyzer":"English","case_sensitive":false}}'
            ),
        ),
        (
            IndexType.FULLTEXT_TANTIVY,
            METAS[IndexType.FULLTEXT_TANTIVY],
            1109,
            "fulltext_tantivy",
            '{"fulltext":{"analyzer":"Chinese","case_sensitive":true}}',
        ),
        (
            IndexType.INVERTED,
            METAS[IndexType.INVERTED],
            518,
            "inverted",
            (
                '{"inverted":{"base_offset":0,"bitmap_type":"Roaring","fst_size":150,"inverted_index_size":518,'
                '"null_bitmap_size":8,"relative_fst_offset":368,"relative_null_bitmap_offset":0,'
                '"segment_row_count":1024,"total_row_count":20}}'
            ),
        ),
    ],
    ids=str,
)
def test_greptime_rows_are_upstreams(
    kind: IndexType, meta: MetaInfo, blob_size: int, word: str, text: str
) -> None:
    """The rows that GreptimeDB's tests expect come out, JSON to the letter."""
    stored_size = 1033 if kind is IndexType.INVERTED else blob_size
    row = GREPTIME.to_dict(entry(kind, "5", meta, blob_size=stored_size))
    assert (row["index_type"], row["blob_size"], row["meta_json"]) == (word, blob_size, text)
    assert (row["target_type"], row["target_json"]) == ("column", '{"column":5}')


def test_greptime_rows_stay_when_metadata_is_unreadable() -> None:
    """Without metadata ``meta_json`` is null; a fulltext bloom index keeps its configuration."""
    broken = entry(IndexType.BLOOM_SKIPPING, "1", None, error="tail is damaged")
    assert GREPTIME.to_dict(broken)["meta_json"] is None
    half = entry(IndexType.FULLTEXT_BLOOM, "1", MetaInfo(fulltext=FULLTEXT), error="tail is damaged")
    assert GREPTIME.to_dict(half)["meta_json"] == '{"fulltext":{"analyzer":"English","case_sensitive":false}}'


@pytest.mark.parametrize(
    "target",
    [
        "",
        "a b",
        "4294967296",
        ColumnSetTarget(column_ids=(1, 7)),
        JsonPathTarget(column_id=7, pointer="/a"),
        ExpressionTarget.of("a + 1"),
    ],
    ids=str,
)
def test_greptime_knows_columns_only(target: Any) -> None:
    """Every other target is ``unknown`` in a GreptimeDB row, as it is in GreptimeDB."""
    if target == "4294967296":
        one = replace(EXAMPLE, target=None, target_key=target)
    else:
        one = entry(IndexType.BLOOM_SKIPPING, target)
    row = GREPTIME.to_dict(one)
    assert (row["target_type"], row["target_json"]) == ("unknown", '{"error":"failed_to_decode"}')
    assert row["target_key"] == one.target_key


def test_greptime_takes_keys_of_any_length() -> None:
    """A column id behind more zeros than our keys may have is a column to GreptimeDB."""
    key = "0" * 300 + "7"
    one = replace(EXAMPLE, target=None, target_key=key)
    assert GREPTIME.to_dict(one)["target_json"] == '{"column":7}'
    assert COMPACT.to_dict(one)["target_type"] == "unknown"


def test_regions_of_both_groups_are_taken_apart() -> None:
    """The parts of a region id are columns of their own."""
    locator = replace(LOCATOR, region_id=11 << 32 | 1 << 24 | 3)
    row = GREPTIME.to_dict(replace(EXAMPLE, locator=locator))
    parts = ("table_id", "region_number", "region_group", "region_sequence")
    assert [row[part] for part in parts] == [11, 1 << 24 | 3, 1, 3]


def test_a_greptime_row_needs_a_size() -> None:
    """An entry that was read from a row without a size cannot become a row that must have one."""
    with pytest.raises(InvalidInputError, match="no size"):
        GREPTIME.to_dict(entry(IndexType.BLOOM_SKIPPING, "1", None, blob_size=None))


@settings(deadline=None)  # Arrow loads modules when it is first asked for Python values
@given(st.lists(entries(), max_size=5), st.sampled_from(list(SHAPES.values())))
def test_batches_hold_the_rows(found: list[IndexEntry], shape: RowShape) -> None:
    """A batch is the rows of its entries, in order, whether they share a file or not."""
    doubled = [one for each in found for one in (each, replace(each, target_key="x", target=None))]
    batch = shape.to_batch(doubled)
    batch.validate(full=True)
    assert batch.schema == shape.schema
    rows = [shape.to_dict(one) for one in doubled]
    assert batch.to_pylist() == [
        {key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}
        for row in rows
    ]
    assert {column.name for column in shape.schema if not column.nullable}.isdisjoint(
        name for row in rows for name, value in row.items() if value is None
    )


def test_rows_hold_plain_text() -> None:
    """Words in a row are text, which survives any serialiser, and no enumeration members."""
    assert type(COMPACT.to_dict(EXAMPLE)["index_type"]) is str
    assert type(GREPTIME.to_dict(EXAMPLE)["index_type"]) is str


def test_a_batch_of_nothing_has_the_columns() -> None:
    """No entries make a batch without rows."""
    for shape in SHAPES.values():
        assert shape.to_batch([]).equals(pa.RecordBatch.from_pylist([], schema=shape.schema))


@given(entries())
def test_flat_rows_say_what_compact_rows_say(one: IndexEntry) -> None:
    """The keys of a compact row's JSON are the columns of the flat row, and the other columns are null."""
    compact, flat = COMPACT.to_dict(one), FLAT.to_dict(one)
    meta, target = json.loads(compact["meta_json"]), json.loads(compact["target_json"])
    said = {"meta_schema_version": meta.pop("meta_schema_version")}
    for part, values in meta.items():
        said |= {key if key.startswith(part) else f"{part}_{key}": value for key, value in values.items()}
    columns = target.pop("columns", None) or ([target.pop("column")] if "column" in target else None)
    said |= {f"target_{key}": value for key, value in target.items() if key != "error"}
    rest = {key: value for key, value in flat.items() if key not in COMPACT.schema.names}
    assert list(rest.pop("target_columns") or ()) == (columns or [])
    assert {key: value for key, value in rest.items() if value is not None} == {
        key: value for key, value in said.items() if value is not None
    }


def without_file(one: IndexEntry) -> IndexEntry:
    """What a compact row can hold of an entry."""
    return replace(one, locator=replace(one.locator, index_file_path="", index_file_size=None))


@given(entries())
def test_compact_rows_are_read_back(one: IndexEntry) -> None:
    """An entry comes back from its row, and gives the same row again."""
    row = COMPACT.to_dict(one)
    assert parse_row(row) == without_file(one)
    assert COMPACT.to_dict(parse_row(row)) == row


@given(entries())
def test_json_may_be_parsed_already(one: IndexEntry) -> None:
    """Engines with a JSON type hand out values, which read like their text."""
    row = COMPACT.to_dict(one)
    parsed = {**row, "target_json": json.loads(row["target_json"]), "meta_json": json.loads(row["meta_json"])}
    assert parse_row(parsed) == parse_row(row)


def test_rows_without_metadata_are_read() -> None:
    """A null ``meta_json``, and one without any known part, are no metadata."""
    row = COMPACT.to_dict(entry(IndexType.BLOOM_SKIPPING, "1", None))
    assert row["meta_json"] is None
    assert parse_row(row).meta is None
    assert parse_row(row | {"meta_json": '{"meta_schema_version":1}'}).meta is None


def test_rows_of_older_releases_are_read() -> None:
    """Without version, size and keys that came later, what is missing is None."""
    row = COMPACT.to_dict(entry(IndexType.FULLTEXT_BLOOM, "1", METAS[IndexType.FULLTEXT_BLOOM]))
    del row["blob_size"], row["target_json"], row["node_id"]
    row["meta_json"] = '{"bloom":{"rows_per_segment":2},"fulltext":{"analyzer":"english"}}'
    found = parse_row(row)
    assert found.blob_size is None
    assert found.locator.node_id is None
    assert found.target == ColumnTarget(column_id=1)
    assert found.meta == MetaInfo(
        bloom=BloomInfo(rows_per_segment=2, segment_count=None, row_count=None, bloom_filter_size=None),
        fulltext=FulltextInfo(analyzer="english", case_sensitive=None),
    )
    assert json.loads(COMPACT.to_dict(found)["meta_json"])["bloom"]["row_count"] is None
    assert FLAT.to_dict(found)["bloom_row_count"] is None


def test_rows_of_newer_releases_are_read() -> None:
    """Columns, parts and keys that nobody knows yet are passed over, whatever the version."""
    row = COMPACT.to_dict(EXAMPLE) | {"colour": "red"}
    meta = json.loads(row["meta_json"]) | {"meta_schema_version": 9, "vector": {"dimensions": 3}}
    meta["inverted"]["terms"] = [1]
    target = json.loads(row["target_json"]) | {"names": ["host"]}
    row |= {"meta_json": json.dumps(meta), "target_json": json.dumps(target)}
    assert parse_row(row) == without_file(EXAMPLE)


def test_a_target_of_a_newer_kind_is_unknown() -> None:
    """A key that this release cannot decode leaves the row readable."""
    row = COMPACT.to_dict(EXAMPLE) | {"target_type": "vector", "target_key": "vec:7", "target_json": "{}"}
    found = parse_row(row)
    assert found.target is None
    assert found.target_key == "vec:7"


def test_an_index_of_a_newer_kind_is_refused() -> None:
    """A kind that this release does not know is an error that says to upgrade."""
    with pytest.raises(UnsupportedVersionError, match=r"vector_hnsw.*upgrade"):
        parse_row(COMPACT.to_dict(EXAMPLE) | {"index_type": "vector_hnsw"})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"table_dir": None}, "'table_dir'"),
        ({"region_id": "1"}, "'region_id'"),
        ({"target_key": 1}, "'target_key'"),
        ({"meta_json": "{"}, "meta_json is not JSON"),
        ({"meta_json": "[" * 100_000}, "meta_json is not JSON"),
        ({"meta_json": "[]"}, "no JSON object"),
        ({"meta_json": '{"inverted":7}'}, "'inverted' of meta_json is no JSON object"),
        ({"meta_json": '{"bloom":{"row_count":"7"}}'}, "'row_count' in 'bloom'"),
        ({"meta_json": '{"bloom":{"row_count":true}}'}, "'row_count' in 'bloom'"),
        ({"meta_json": '{"fulltext":{"case_sensitive":1}}'}, "'case_sensitive'"),
        ({"target_json": "7"}, "target_json is no JSON object"),
    ],
)
def test_rows_that_are_none_are_refused_by_name(change: dict[str, Any], problem: str) -> None:
    """A column or key of the wrong type is an error that names it."""
    with pytest.raises(FormatError, match=problem):
        parse_row(COMPACT.to_dict(EXAMPLE) | change)


def test_text_cannot_break_out_of_its_json() -> None:
    """Quotes and backslashes in text stay text."""
    meta = MetaInfo(inverted=replace(INVERTED, bitmap_type='"},{"'), fulltext=replace(FULLTEXT, analyzer='"'))
    one = entry(IndexType.INVERTED, "1", meta)
    assert json.loads(COMPACT.to_dict(one)["meta_json"])["inverted"]["bitmap_type"] == '"},{"'
    assert json.loads(GREPTIME.to_dict(one)["meta_json"])["fulltext"]["analyzer"] == "English"
