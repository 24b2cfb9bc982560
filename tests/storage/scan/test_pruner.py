"""Pruning: files and pieces are left out only if that cannot be missed, and are left out where it matters."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from dataclasses import replace
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import Expr, all_of, any_of, bind, col, matching, parse_where
from lakehouse.expr.bounds import Verdict
from lakehouse.expr.nodes import Not
from lakehouse.format.keys.buckets import bucket_of, buckets_of
from lakehouse.format.keys.column_stats import stats_of
from lakehouse.format.keys.order_value import encode_value
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata import live_files
from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry, RowKind
from lakehouse.format.metadata.live_files import ColumnarEntries, LiveFiles
from lakehouse.format.metadata.manifest import decode_manifest, encode_manifest
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import BinaryType, Field, Primitive, StringType
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.scan import pruner as pruner_module
from lakehouse.storage.scan.file_plan import Prunes
from lakehouse.storage.scan.pruner import KeyBounds, Pruner
from tests.kit.table_samples import TABLE

FIELDS = (
    Field(id=1, name="a", type=Primitive("int64"), required=True),
    Field(id=2, name="s", type=StringType(), required=True),
    Field(id=3, name="day", type=Primitive("date"), required=True),
    Field(id=4, name="v", type=Primitive("double")),
    Field(id=5, name="w", type=StringType()),
)
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
POOLS: dict[str, list[Any]] = {
    "a": [-1, 0, 1, 2],
    "s": ["", "a", "ab", "b\x00\uffff"],
    "day": DAYS,
    "v": [math.nan, 0.0, 1.5, None],
    "w": ["x" * 20, "y", None],
}
UNIVERSE = pa.Table.from_pylist(
    [dict(zip(POOLS, values, strict=True)) for values in itertools.product(*POOLS.values())],
    schema=TableSchema(fields=FIELDS, highest_field_id=5).arrow(),
)
"""Every row there can be: what a condition says of a key is found by looking at all rows with that key."""
KEYS = [("a",), ("s",), ("a", "s"), ("s", "a"), ("day", "s", "a"), ("a", "day")]
PARTITIONS: list[tuple[str, ...]] = [(), ("day",), ("w",), ("day", "v"), ("s",)]


def schema_of(key: tuple[str, ...], partition: tuple[str, ...] = (), buckets: int = 1) -> TableSchema:
    """A table with these columns as key and partition; partition columns are required."""
    fields = [replace(field, required=field.required or field.name in partition) for field in FIELDS]
    return TableSchema(
        fields=tuple(fields), primary_key=key, partition_by=partition, buckets=buckets, highest_field_id=5
    )


@st.composite
def leaves(draw: st.DrawFn) -> Expr:
    """A condition on one column."""
    name = draw(st.sampled_from(sorted(POOLS)))
    values = st.sampled_from([value for value in POOLS[name] if value is not None])
    value, column = draw(values), col(name)
    choices: list[Expr] = [
        column == value,
        column == value,
        column != value,
        column < value,
        column <= value,
        column > value,
        column >= value,
        column.is_in(draw(st.lists(values, min_size=1, max_size=3))),
        column.between(value, draw(values)),
        column.is_null(),
        col("a") + 1 > 1,
        col("s") < col("w"),
        col("s").starts_with(draw(st.sampled_from(["", "a", "b", "ab"]))),
        col("s").like(draw(st.sampled_from(["a%", "%b", "ab", "a_"]))),
    ]
    return draw(st.sampled_from(choices))


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(lambda *args: all_of(*args), inner, inner)
        | st.builds(lambda *args: all_of(*args), inner, inner, inner)
        | st.builds(lambda *args: any_of(*args), inner, inner)
    ),
    max_leaves=5,
)


def part_of(table: pa.Table, key: tuple[str, ...]) -> dict[str, bytes | None]:
    """Least and greatest key of rows."""
    if not key:
        return {"min_key": None, "max_key": None}
    codec = RowKeyCodec([field for name in key for field in FIELDS if field.name == name])
    keys = codec.encode([table[name] for name in key]).to_pylist()
    return {"min_key": min(keys), "max_key": max(keys)}


def entry_of(rows: pa.Table, schema: TableSchema) -> FileEntry:
    """The entry of a file with these rows, which are of one partition and bucket."""
    fields = schema.partition_fields
    columns = [rows[name] for name in schema.primary_key]
    kinds = rows[KIND_COLUMN].to_pylist() if KIND_COLUMN in rows.column_names else []
    return FileEntry(
        path="f",
        size=1,
        rows=rows.num_rows,
        deletes=kinds.count(RowKind.DELETE),
        partition=tuple(encode_value(rows[field.name][0], field.type) for field in fields),
        bucket=int(buckets_of(columns, schema.key_fields, schema.buckets)[0]) if columns else 0,
        total_buckets=schema.buckets,
        stats=stats_of(rows, schema.fields),
        **part_of(rows, schema.primary_key),
    )


@st.composite
def files(draw: st.DrawFn) -> tuple[TableSchema, FileEntry, pa.Table]:
    """A table, an entry of it, and the rows with their kinds and ``row``, their number in the universe."""
    schema = draw(schemas())
    return schema, *draw(files_of(schema))


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    """A table with a key or without, with partitions and buckets or without."""
    partition = draw(st.sampled_from(PARTITIONS))
    return schema_of(draw(st.sampled_from([*KEYS, ()])), partition, draw(st.sampled_from([1, 3])))


@st.composite
def files_of(draw: st.DrawFn, schema: TableSchema) -> tuple[FileEntry, pa.Table]:
    """An entry of a table, some of its statistics unknown, and its rows, as :func:`files` has them."""
    numbers = draw(st.lists(st.integers(0, UNIVERSE.num_rows - 1), min_size=1, max_size=6))
    rows = UNIVERSE.take(numbers).append_column("row", pa.array(numbers))
    kinds = st.sampled_from(RowKind if schema.primary_key else [RowKind.INSERT])
    kind = pa.array([draw(kinds) for _ in numbers], pa.int8())
    rows = rows.append_column(KIND_COLUMN, kind)
    for name in schema.partition_by:
        first = next((one for one in rows[name] if one.is_valid), None)
        if first is None:
            rows = rows.set_column(
                rows.column_names.index(name), name, pa.repeat(pa.scalar(POOLS[name][1]), len(rows))
            )
            rows = rows.drop_columns("row").append_column("row", universe_rows(rows))
        else:
            same = [one.is_valid and str(one) == str(first) for one in rows[name]]
            rows = rows.filter(pa.array(same))
    if schema.primary_key and schema.buckets > 1:
        buckets = buckets_of([rows[name] for name in schema.primary_key], schema.key_fields, schema.buckets)
        rows = rows.filter(pa.array(buckets == buckets[0]))
    entry = entry_of(rows, schema)
    unknown = draw(st.sets(st.sampled_from(range(1, 6)), max_size=2))
    known = {field: stats for field, stats in entry.stats.items() if field not in unknown}
    return replace(entry, stats=known), rows


def universe_rows(rows: pa.Table) -> pa.Array:
    """Numbers in the universe of rows that were changed."""
    everything = UNIVERSE.to_pylist()
    return pa.array(
        [[str(one) for one in everything].index(str(row)) for row in rows.select(list(POOLS)).to_pylist()]
    )


def wanted_rows(where: Expr) -> list[bool]:
    """Of every row there can be, whether it matches."""
    found: list[bool] = matching(bind(where, UNIVERSE.schema), UNIVERSE).to_pylist()
    return found


def wanted_keys(where: Expr, key: tuple[str, ...]) -> set[tuple[Any, ...]]:
    """Keys of rows that match, whatever their other columns have."""
    rows = UNIVERSE.select(key).to_pylist()
    return {tuple(row.values()) for row, hit in zip(rows, wanted_rows(where), strict=True) if hit}


def check(verdict: Verdict, rows: pa.Table, hits: list[bool]) -> None:
    """The verdict is true of the rows that are not deleted."""
    live = rows.filter(pc.not_equal(rows[KIND_COLUMN], int(RowKind.DELETE)))
    kept = [hits[row] for row in live["row"].to_pylist()]
    if any(kept):
        assert verdict is not Verdict.NONE
    if not all(kept):
        assert verdict is not Verdict.ALL


@settings(deadline=None, max_examples=300)
@given(CONDITIONS, files())
def test_never_wrong(where: Expr, file: tuple[TableSchema, FileEntry, pa.Table]) -> None:
    """A file is NONE only if no row of it matches, ALL only if every one does; so are its pieces."""
    schema, entry, rows = file
    pruner: Prunes = Pruner(bind(where, schema.arrow()), schema)
    hits = wanted_rows(where)
    check(pruner.judge(entry)[0], rows, hits)
    for begin in range(0, rows.num_rows, 2):
        some = rows.slice(begin, 2)
        piece = piece_of(some, schema, begin)
        check(pruner.judge_piece(entry, piece), some, hits)


@settings(deadline=None, max_examples=300)
@given(CONDITIONS, files())
def test_keys_are_never_excluded_wrongly(where: Expr, file: tuple[TableSchema, FileEntry, pa.Table]) -> None:
    """A file or piece is excluded by its keys only if no row with one of them can match, deleted or not."""
    schema, entry, rows = file
    pruner = Pruner(bind(where, schema.arrow()), schema)
    if not schema.primary_key:
        assert pruner.excludes_keys(entry) is None
        assert pruner.key_range is None
        return
    wanted = wanted_keys(where, schema.primary_key)
    for begin in range(0, rows.num_rows, 2):
        some = rows.slice(begin, 2)
        if any(tuple(row.values()) in wanted for row in some.select(schema.primary_key).to_pylist()):
            assert pruner.excludes_keys(entry) is None
            assert not pruner.excludes_piece(entry, piece_of(some, schema, begin))
    codec = RowKeyCodec(schema.key_fields)
    for key in wanted:
        encoded = codec.encode_one(key)
        assert pruner.key_range is None or pruner.key_range.overlaps(encoded, encoded)
        assert pruner.keys is None or encoded in pruner.keys
        buckets = pruner.bucket_set(3)
        assert buckets is None or bucket_of(key, schema.key_fields, 3) in buckets


def piece_of(rows: pa.Table, schema: TableSchema, first_row: int) -> Piece:
    """A piece of a file with these rows."""
    keys = part_of(rows, schema.primary_key)
    return Piece(rows=rows.num_rows, first_row=first_row, size=1, stats=stats_of(rows, schema.fields), **keys)


def pruner(where: str, schema: TableSchema) -> Pruner:
    """The condition made ready."""
    return Pruner(bind(parse_where(where), schema.arrow()), schema)


def rows_of(*values: tuple[Any, ...], kinds: list[RowKind] | None = None) -> pa.Table:
    """Rows of all five columns."""
    found = pa.Table.from_pylist(
        [dict(zip(POOLS, row, strict=True)) for row in values], schema=UNIVERSE.schema
    )
    return found if kinds is None else found.append_column(KIND_COLUMN, pa.array(kinds, pa.int8()))


def key(schema: TableSchema, *values: object) -> bytes:
    """What keys with these leading values begin with."""
    codec = RowKeyCodec(schema.key_fields)
    return codec.join([encode_value(v, f.type) for v, f in zip(values, schema.key_fields, strict=False)])


ONE = rows_of((1, "a", DAYS[0], 1.5, "y"), (2, "b", DAYS[0], 2.5, "z"))


@pytest.mark.parametrize(
    ("where", "verdict", "told"),
    [
        ("v > 3", "none", "stats"),
        ("v > 1", "all", "stats"),
        ("v > 2", "some", "stats"),
        ("day = date '2026-01-02'", "none", "partition"),
        ("day = date '2026-01-01'", "all", "partition"),
        ("day = date '2026-01-01' and v > 3", "none", "stats"),
        ("day = date '2026-01-01' or v > 3", "all", "partition"),
        ("w is null", "none", "stats"),
        ("v + 1 > 9", "some", "stats"),
    ],
)
def test_what_is_said_of_a_file(where: str, verdict: str, told: str) -> None:
    """A verdict comes with what tells it: the partition if that suffices, else the bounds."""
    schema = schema_of(("a",), ("day",))
    found = pruner(where, schema).judge(entry_of(ONE, schema))
    assert (found[0].value, found[1]) == (verdict, told)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("day = date '2026-01-02' and v > 0", "partition"),
        ("a = 7 and day = date '2026-01-01'", "bucket"),
        ("a = 7 and day >= date '2026-01-01'", "key range"),
        ("a > 2", "key range"),
        ("a < 1 or (a = 3 and v = 1)", "key range"),
        ("v > 100", None),
        ("a = 1", None),
    ],
)
def test_by_what_keys_are_excluded(where: str, told: str | None) -> None:
    """Keys are excluded by partition, bucket or range; conditions on other columns never exclude keys."""
    schema = schema_of(("a", "day"), ("day",), buckets=1)
    entry = entry_of(ONE, schema)
    if told == "bucket":
        keys = (7, DAYS[0])
        entry = replace(entry, total_buckets=16, bucket=(bucket_of(keys, schema.key_fields, 16) + 1) % 16)
    assert pruner(where, schema).excludes_keys(entry) == told


def test_a_partition_outside_the_key_does_not_exclude_keys() -> None:
    """Where a row may move between partitions, a file of another one may hide it."""
    schema = schema_of(("a",), ("day",))
    ready = pruner("day = date '2026-01-02'", schema)
    assert ready.excludes_keys(entry_of(ONE, schema)) is None
    assert ready.judge(entry_of(ONE, schema)) == (Verdict.NONE, "partition")


def test_deletions_are_not_excluded_by_bounds() -> None:
    """A file that deletes a key is kept for it, though no bound of its columns knows of the key."""
    schema = schema_of(("a", "s"))
    rows = rows_of(
        (1, "a", DAYS[0], None, None), (2, "q", DAYS[0], 1.0, "z"), kinds=[RowKind.DELETE, RowKind.INSERT]
    )
    entry = entry_of(rows, schema)
    for where in ("s = 'a'", "a = 1", "s = 'a' and a < 2"):
        ready = pruner(where, schema)
        assert ready.excludes_keys(entry) is None
        assert ready.judge(entry)[0] is Verdict.NONE
    without = replace(entry, deletes=0)
    assert pruner("s = 'a'", schema).excludes_keys(without) == "key range"


def test_only_deletions_match_nothing() -> None:
    """A file that only deletes has no row that matches."""
    schema = schema_of(("a",))
    entry = entry_of(rows_of((1, "a", DAYS[0], None, None), kinds=[RowKind.DELETE]), schema)
    assert pruner("v > 1", schema).judge(entry) == (Verdict.NONE, "stats")
    assert pruner("a = 1", schema).excludes_keys(entry) is None


def test_a_file_that_does_not_tell_its_partition() -> None:
    """A file without partition values is not judged by them."""
    schema = schema_of(("a",), ("day",))
    entry = replace(entry_of(ONE, schema), partition=())
    assert pruner("day = date '2026-01-02'", schema).judge(entry)[0] is Verdict.SOME


@pytest.mark.parametrize("partition", [(), ("v",)])
def test_a_nan_is_no_bound(partition: tuple[str, ...]) -> None:
    """Whether a NaN is above a number differs between engines, so a file of them may match or not."""
    schema = schema_of(("a",), partition)
    entry = entry_of(rows_of((1, "a", DAYS[0], math.nan, "y")), schema)
    for where in ("v > 1", "not (v <= 1)", "v = double 'nan'"):
        assert pruner(where, schema).judge(entry)[0] is Verdict.SOME
    assert pruner("v < 1 and v > 1", schema).judge(entry)[0] is not Verdict.ALL


def test_fields_a_file_does_not_have() -> None:
    """A file older than a column may match or not."""
    schema = schema_of(("a",))
    entry = replace(entry_of(ONE, schema), stats={})
    assert pruner("v > 100", schema).judge(entry)[0] is Verdict.SOME


@st.composite
def many_files(draw: st.DrawFn) -> tuple[TableSchema, list[FileEntry]]:
    """Entries of one table: some with statistics of their own, some of manifests, in any order."""
    schema = draw(schemas())
    entries: list[FileEntry] = []
    for _ in range(draw(st.integers(0, 3))):
        some = [entry for entry, _ in draw(st.lists(files_of(schema), min_size=1, max_size=3))]
        entries += some if draw(st.booleans()) else in_manifest(some)
    return schema, draw(st.permutations(entries))


def in_manifest(entries: list[FileEntry]) -> list[FileEntry]:
    """The entries as a manifest gives them back."""
    data = encode_manifest(entries, table=TABLE)
    return list(decode_manifest(data, key="m", table=TABLE, checksum=google_crc32c.value(data)))


@settings(deadline=None)
@given(CONDITIONS, many_files())
def test_many_files_are_judged_as_each_alone(where: Expr, many: tuple[TableSchema, list[FileEntry]]) -> None:
    """Judging files at once gives each the verdict and the reason that it gets alone."""
    schema, entries = many
    pruner = Pruner(bind(where, schema.arrow()), schema)
    alone = [pruner.judge(entry) for entry in entries]
    assert list(pruner.judge_all(entries)) == alone
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruner_module, "_COLUMNAR_MIN", 1)
        assert list(pruner.judge_all(entries)) == alone


@settings(deadline=None)
@given(CONDITIONS, many_files(), st.data())
def test_files_of_manifests_are_judged_by_their_columns(
    where: Expr, many: tuple[TableSchema, list[FileEntry]], data: st.DataObject
) -> None:
    """Verdicts, and how many files are left out why, are the same where manifests keep columns of entries."""
    schema, entries = many
    pruner = Pruner(bind(where, schema.arrow()), schema)
    cut = data.draw(st.integers(0, len(entries)))
    parts = [ColumnarEntries(entries[:cut]), ColumnarEntries(entries[cut:])]
    sizes = [st.lists(st.booleans(), min_size=len(one), max_size=len(one)) for one in parts]
    kept = [data.draw(st.none() | flags) for flags in sizes]
    masks = [None if mask is None else np.array(mask, np.bool_) for mask in kept]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruner_module, "_COLUMNAR_MIN", 1)
        patch.setattr(live_files, "_PART_MIN", data.draw(st.integers(0, 2)))
        files = LiveFiles(list(zip(parts, masks, strict=True))).with_more(entries[:1])
        expected = [pruner.judge(entry) for entry in files]
        for _ in range(2):  # columns are made, then used again
            judged = pruner.judge_all(files)
            assert list(judged) == expected
        reasons = [reason for verdict, reason in expected if verdict is Verdict.NONE]
        assert judged.pruned() == {reason: reasons.count(reason) for reason in set(reasons)}
        assert judged.kept() == [at for at, one in enumerate(expected) if one[0] is not Verdict.NONE]


@pytest.mark.parametrize(
    ("where", "low", "end"),
    [
        ("a = 1", (1,), (2,)),
        ("a = 1 and s > 'b'", (1, "b\0"), (2,)),
        ("a = 1 and s >= 'b' and s < 'c'", (1, "b"), (1, "c")),
        ("a = 1 and starts_with(s, 'ab')", (1, "ab"), (1, "ac")),
        ("a = 1 and s like 'ab%x'", (1, "ab"), (1, "ac")),
        ("a > 1 and a <= 4 and v = 3", (2,), (5,)),
        ("a >= 1 and s = 'x'", (1,), None),
        ("a in (1, 3)", (1,), (4,)),
        ("a = 1 or a = 4", (1,), (5,)),
        ("a < 5 or (a = 7 and v > 1)", (), (8,)),
        ("a between 2 and 3", (2,), (4,)),
    ],
)
def test_ranges_of_keys(where: str, low: tuple[Any, ...], end: tuple[Any, ...] | None) -> None:
    """Equality of leading columns and a range of the next make a range of keys."""
    schema = schema_of(("a", "s"))
    expected = KeyBounds(low=key(schema, *low), end=None if end is None else key(schema, *end))
    assert pruner(where, schema).key_range == expected


@pytest.mark.parametrize("where", ["s = 'x'", "a + 1 = 2", "v = 1 or a = 1", "not (a in (1, 2))", "a <> 1"])
def test_conditions_that_say_nothing_of_keys(where: str) -> None:
    """Without something about the first key column there is no range."""
    assert pruner(where, schema_of(("a", "s"))).key_range is None


def test_keys_that_are_known() -> None:
    """Equality or lists on every key column are keys, in order; with too many it is a range."""
    schema = schema_of(("a", "s"))
    ready = pruner("a in (2, 1) and s in ('y', 'x') and v > 1", schema)
    assert ready.keys == tuple(key(schema, *pair) for pair in [(1, "x"), (1, "y"), (2, "x"), (2, "y")])
    expected = {bucket_of(pair, schema.key_fields, 64) for pair in itertools.product([1, 2], "xy")}
    assert ready.bucket_set(64) == expected
    many = pruner(f"a in ({', '.join(map(str, range(1001)))}) and s = 'x'", schema)
    assert many.keys is None
    assert many.bucket_set(64) is None
    assert many.key_range == KeyBounds(low=key(schema, 0), end=key(schema, 1001))


def test_known_keys_exclude_what_lies_between() -> None:
    """A file whose keys lie between two known ones is excluded."""
    schema = schema_of(("a",))
    entry = replace(entry_of(ONE, schema), stats={})
    assert pruner("a in (0, 9)", schema).excludes_keys(entry) == "key range"
    assert pruner("a in (0, 2)", schema).excludes_keys(entry) is None


@pytest.mark.parametrize(
    "where", ["a = 1 and a = 2", "a > 3 and a in (1, 2)", "a = null", "1 = 0 and a = 1", "a > 5 and a < 3"]
)
def test_what_no_key_can_be(where: str) -> None:
    """Contradictions exclude every file."""
    schema = schema_of(("a",))
    assert pruner(where, schema).excludes_keys(entry_of(ONE, schema)) is not None


def test_prefixes_of_bytes() -> None:
    """Bytes have prefixes as text has."""
    fields = (Field(id=1, name="raw", type=BinaryType(), required=True),)
    schema = TableSchema(fields=fields, primary_key=("raw",), highest_field_id=1)
    ready = Pruner(bind(col("raw").starts_with("ab"), schema.arrow()), schema)
    assert ready.key_range == KeyBounds(low=b"ab", end=b"ac")
