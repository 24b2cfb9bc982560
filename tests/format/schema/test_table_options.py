"""Options of tables: names, values, bounds."""

from __future__ import annotations

import re

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.table_options import ColumnOptions, OptionInfo, TableOptions, option_texts

INFOS = list(TableOptions.describe())


def test_defaults() -> None:
    """A table without options has the documented defaults."""
    options = TableOptions.parse({})
    assert options == TableOptions()
    assert (options.file_format, options.file_format_level0) == ("parquet", "parquet")
    assert (options.file_target_bytes, options.write_buffer_bytes) == (128 * 1024**2, 256 * 1024**2)
    assert (options.parquet_compression, options.parquet_compression_level) == ("zstd", 1)
    assert (options.parquet_row_group_rows, options.point_reads) == (131_072, False)
    assert (options.sst_block_bytes, options.sst_codec, options.sst_bloom_bits_per_key) == (16_384, "lz4", 10)
    assert (options.commit_max_retries, options.commit_deadline_s) == (30, 300)
    assert (options.delete_grace_s, options.merge_engine, options.stats_text_bytes) == (
        3600,
        "deduplicate",
        16,
    )


def test_point_reads_make_row_groups_small() -> None:
    """A table with point reads has small row groups unless it says how large they are."""
    assert TableOptions.parse({"point_reads": "true"}).parquet_row_group_rows == 16_384
    both = {"parquet.row_group_rows": "1000", "point_reads": "true"}
    assert TableOptions.parse(both).parquet_row_group_rows == 1000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("134217728", 128 * 1024**2),
        ("128MB", 128 * 1024**2),
        ("128 mib", 128 * 1024**2),
        ("128m", 128 * 1024**2),
        ("2048b", 2048),
        ("64 KB", 64 * 1024),
        ("1g", 1024**3),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """A size is a number of bytes, or has a unit that counts in steps of 1,024."""
    assert TableOptions.parse({"file.target_bytes": text}).file_target_bytes == size


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("file.format", "orc", "one of parquet, sst"),
        ("parquet.compression", "gzip", "one of none, snappy, lz4, zstd"),
        ("parquet.compression_level", "0", "at least 1"),
        ("parquet.compression_level", "23", "at most 22"),
        ("parquet.compression_level", "fast", "a whole number"),
        ("parquet.row_group_rows", "1k", "a whole number"),
        ("file.target_bytes", "-1", "a number of bytes, such as 128MB"),
        ("file.target_bytes", "1 TB", "a number of bytes, such as 128MB"),
        ("file.target_bytes", "1.5MB", "a number of bytes, such as 128MB"),
        ("file.target_bytes", "1", "at least 1024"),
        ("delete_grace_s", "60", "at least 1800"),
        ("delete_grace_s", "nan", "a number"),
        ("commit.deadline_s", "1e3", "a number"),
        ("commit.deadline_s", "901", "at most 900"),
        ("point_reads", "maybe", "true or false"),
        ("merge_engine", "newest", "one of deduplicate, partial-update, aggregation, first-row"),
        ("fields.a.b.distinct", "2", "true or false"),
    ],
)
def test_values_out_of_bounds(name: str, text: str, says: str) -> None:
    """A value that is not accepted is refused with the option's name and what it should be."""
    with pytest.raises(InvalidInputError) as caught:
        TableOptions.parse({name: text})
    assert caught.value.message == f"table option {name!r} must be {says}, not {text!r}"
    assert caught.value.context == {"option": name, "value": text}


def test_an_unknown_option_is_refused() -> None:
    """An option nobody knows is refused, and the nearest one is named."""
    with pytest.raises(InvalidInputError, match=r"'file\.formatt'; did you mean 'file\.format'\?") as caught:
        TableOptions.parse({"file.formatt": "parquet"})
    assert caught.value.context["nearest"] == "file.format"


def test_values_need_not_be_text() -> None:
    """Options are given as Python values too, and kept as text."""
    given = {"point_reads": True, "commit.max_retries": 3, "delete_grace_s": 1800.5, "sst.codec": "zstd"}
    texts = {
        "point_reads": "true",
        "commit.max_retries": "3",
        "delete_grace_s": "1800.5",
        "sst.codec": "zstd",
    }
    assert option_texts(given) == texts
    assert TableOptions.parse(given) == TableOptions.parse(texts)


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_every_option_explains_itself(info: OptionInfo) -> None:
    """Each option has a sentence and a default that it accepts itself."""
    assert info.doc.endswith(".")
    assert info.parse(option_texts({"x": info.default})["x"]) == info.default


def test_options_of_columns_name_the_column() -> None:
    """What stands between ``fields.`` and the last point is the column, dots and all."""
    texts = {"fields.a.b.aggregate": "SUM", "fields.a.b.delimiter": ", ", "fields.s,t.sequence_group": "c, D"}
    columns = TableOptions.parse(texts).columns
    assert columns == {
        "a.b": ColumnOptions(aggregate="sum", delimiter=", "),
        "s,t": ColumnOptions(sequence_group="c, D"),
    }


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fields.x.agregate", "no option 'agregate' of columns, as in 'fields.x.agregate'; did you mean"),
        ("fields.x", "no table option 'fields.x'; there is file.format"),
        ("fields..aggregate", "no table option 'fields..aggregate'; did you mean 'fields.<column>"),
    ],
)
def test_an_unknown_option_of_a_column_is_refused(name: str, says: str) -> None:
    """An option that columns do not have, or without a column, is refused by name."""
    with pytest.raises(InvalidInputError, match=re.escape(says)) as caught:
        TableOptions.parse({name: "1"})
    assert (caught.value.kind, caught.value.context["option"]) == ("unknown-setting", name)


def test_what_rows_were_merged_by_is_fixed() -> None:
    """How rows are merged is said once and for all; when they are hidden may change."""
    assert [info.name for info in INFOS if info.fixed] == [
        "merge_engine",
        "sequence.field",
        "ignore_delete",
        "fields.<column>.aggregate",
        "fields.<column>.delimiter",
        "fields.<column>.distinct",
        "fields.<column>.sequence_group",
    ]
