"""Joins of a large table with a small side, of which the large one is read in part only.

Spark reads all of a Python source before it joins, whatever the other side holds. Here the driver collects
the keys of the small side first, and makes a condition on the large table of them: its values while they are
few, ranges when they are many. That leaves out partitions, buckets, files by statistics and indexes, pieces
of files, and rows. Where there are ranges, tasks still hand on only rows that have one of the values. Then
Spark joins what is left.

The condition is made for columns of whole numbers, text, bytes, dates, times, decimals and truth values,
of one family on both sides. For floating-point keys there is none, since Spark takes NaN and NaN, 0.0 and
-0.0 for equal.

Files of an Iceberg table are asked for all keys that were collected, through the transforms of their
partitions and by their bounds; rows are asked as those of our own tables.

Invariant: the rows are those of the join without any of this, of one snapshot of the large table.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, col
from lakehouse.expr.column_names import written
from lakehouse.expr.runtime_filter import RuntimeFilter, among, fitting
from lakehouse.format.schema import TableSchema, arrow_type
from lakehouse.io.work import Report
from lakehouse.log import get_logger
from lakehouse.spark.reading.frames import column
from lakehouse.spark.reading.iceberg_reader import state_of
from lakehouse.spark.reading.join_facts import Fact, IcebergFact, OwnFact, Partners
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.reading.reader import view_of
from lakehouse.spark.reading.table_frame import applied_filters, iceberg_named, table
from lakehouse.spark.runtime.arguments import with_arguments_of
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.runtime.session_connection import connection_of
from lakehouse.spark.runtime.types import spark_type
from lakehouse.storage.scan import to_expr
from lakehouse.storage.schema import fields_named
from lakehouse.storage.tables import time_ms_of

__all__ = ["JoinPlan", "JoinReport", "join", "plan_join"]

_log = get_logger(__name__)
_KEYS_MAX = 10_000
"""Maximum values of a condition; planning with more takes longer than what they leave out is worth."""
_COMPARED_MAX = 200_000
"""Maximum values that rows are compared with before they go to the JVM, where the condition is ranges."""
_COLLECTED_MAX = 2_000_000
"""Maximum keys that the driver holds to make ranges of them; of more it asks the least and the greatest."""
_BROADCAST_ROWS = 500_000
"""Maximum rows of a small side that is sent to every executor."""
_KINDS = {
    "inner": "inner",
    "left_semi": "left_semi",
    "leftsemi": "left_semi",
    "semi": "left_semi",
    "right": "right_outer",
    "right_outer": "right_outer",
    "rightouter": "right_outer",
}
"""Joins that keep no row of the large side which has no partner."""
_FAMILIES: tuple[tuple[type[st.DataType], ...], ...] = (
    (st.ByteType, st.ShortType, st.IntegerType, st.LongType),
    (st.StringType, st.VarcharType, st.CharType),
    (st.BinaryType,),
    (st.DateType,),
    (st.TimestampType,),
    (st.TimestampNTZType,),
    (st.BooleanType,),
    (st.DecimalType,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReport(Report):
    """Report of what the keys of the small side left out of the large one."""

    snapshot: int
    """Id of the snapshot of the large table."""
    keys: int | None
    """Number of different keys of the small side; None = too many to collect."""
    filters: Mapping[str, str] = field(default_factory=dict)
    """Condition by column of the large table: ``values``, ``ranges``, ``a range``, or why there is none."""
    files: int
    """Number of files of the large table."""
    files_pruned: Mapping[str, int]
    """Files left out, counted by reason: partition, bucket, key range, stats, index; of an Iceberg table
    ``plan``."""
    indexes_read: int = 0
    bytes: int
    """Bytes of all its files."""
    bytes_left: int
    """Bytes of the files, or parts of files, that tasks read, all columns included."""
    tasks: int

    def __str__(self) -> str:
        pruned = ", ".join(f"{count} by {what}" for what, count in sorted(self.files_pruned.items()))
        filters = ", ".join(f"{name}: {what}" for name, what in self.filters.items())
        keys = "too many" if self.keys is None else f"{self.keys:,}"
        return (
            f"{keys} keys ({filters}); of {self.files} files {pruned or 'none'} left out; "
            f"{self.bytes_left:,} of {self.bytes:,} bytes are left for {self.tasks} tasks"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """A join that is planned and not begun."""

    report: JoinReport
    fact: DataFrame
    """Rows of the large table that may have a partner."""
    frame: DataFrame
    """The join."""


def plan_join(
    spark: SparkSession,
    fact: str,
    dim: DataFrame | str,
    on: str | Sequence[str] | Mapping[str, str],
    *,
    how: str = "inner",
    columns: Sequence[str] | None = None,
    where: Expr | str | None = None,
    max_keys: int = _KEYS_MAX,
    version: int | None = None,
    timestamp: dt.datetime | int | str | None = None,
    tag: str | None = None,
    ref: str | None = None,
    connection: Connection | None = None,
    runtime_filters: Sequence[RuntimeFilter] | Literal["off"] = (),
    locations: Sequence[str] = (),
    moved: bool = False,
) -> JoinPlan:
    """Plans what :func:`join` does, with a report of what is left out; takes the same arguments."""
    kind = _KINDS.get(how.lower().replace(" ", "_"))
    if kind is None:
        raise InvalidInputError(
            f"how is inner, left_semi or right_outer, not {how!r}: a join that keeps rows of {fact} without "
            "a partner has to read all of them, so leave it to Spark"
        )
    asked = ReadOptions(version=version, timestamp=_moment(timestamp), tag=tag, ref=ref)
    target = iceberg_named(spark, fact, connection, locations=locations, moved=moved)
    more = applied_filters(runtime_filters)
    large: Fact
    if target is None:
        if more:
            raise InvalidInputError("runtime_filters are for Iceberg tables: of our own say it by where=")
        large = _own(spark, fact, connection, asked)
    else:
        large = IcebergFact(spark, state_of(target, asked), more)
    small = table(spark, dim, connection=connection) if isinstance(dim, str) else dim
    struct = large.struct(columns)
    pairs = _pairs(on, large.schema, small)
    missing = [name for name in pairs if name not in struct.fieldNames()]
    if missing:
        raise InvalidInputError(f"columns must have those that are joined on, and lacks {', '.join(missing)}")
    if runtime_filters == "off":
        keys = _Keys.none(pairs, "no condition: runtime filters are off")
    else:
        with plain_errors():
            keys = _collected(small, pairs, large.schema)
    partners, kinds = _partners(keys, large.schema, max_keys)
    found = large.rows(struct, to_expr(where), partners)
    report = JoinReport(
        snapshot=found.snapshot,
        keys=keys.distinct,
        filters=kinds,
        files=found.files,
        files_pruned=found.files_pruned,
        indexes_read=found.indexes_read,
        bytes=found.bytes,
        bytes_left=found.bytes_left,
        tasks=found.tasks,
    )
    _log.info("planned a join", table=fact, report=str(report))
    return JoinPlan(
        report=report, fact=found.frame, frame=_joined(found.frame, small, pairs, on, kind, keys.rows)
    )


def _own(spark: SparkSession, fact: str, connection: Connection | None, asked: ReadOptions) -> OwnFact:
    chosen = connection_of(spark, connection)
    lake = warehouse(chosen)
    return OwnFact(spark, lake, chosen, fact, lake.call(view_of, lake.table(fact), asked))


def _moment(timestamp: dt.datetime | int | str | None) -> int | None:
    return None if timestamp is None else time_ms_of(timestamp)


@with_arguments_of(plan_join)
def join(plan: JoinPlan) -> DataFrame:
    """Joins a large table with a small side, reading of the large one what can have a partner.

    The small side is evaluated when this is called, for its keys, and again when the result is used: cache
    it when that is dear, or when it may change in between.

    Args:
        spark: the session.
        fact: the large table, ``database.table`` or the URL of an Iceberg table.
        dim: the small side: a data frame, or a table.
        on: names that both sides have, or names of ``fact`` with those of ``dim``. As in Spark, columns
            joined by a common name come once.
        how: ``inner``, ``left_semi`` or ``right_outer``: the large side is the left one, and rows of it
            without a partner cannot be in the result.
        columns: of ``fact``, those of ``on`` among them; None = all.
        where: a condition on ``fact``.
        max_keys: from more values on, ranges take their place.
        version: a snapshot of ``fact`` by its id.
        timestamp: its last snapshot not after it.
        tag: its snapshot of a tag.
        ref: its snapshot of a branch or a tag, of an Iceberg table.
        connection: the warehouse; None = the one that was registered.
        runtime_filters: further filters by which files of an Iceberg table are left out; ``off`` = no
            condition is made of keys, and all of the large table is read.
        locations: further places where files of an Iceberg table may be, as URLs.
        moved: an Iceberg table was copied to where it is read.

    Example::

        vip = spark.table("customers").where("tier = 'gold'")
        join(spark, "sales.orders", vip, {"customer_id": "id"}, columns=["customer_id", "amount"])
    """
    return plan.frame


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """Keys of the small side, or their ends where there are too many."""

    columns: Mapping[str, pa.Array]
    """Different values by column of the large table, or the least and the greatest."""
    are_ends: bool
    distinct: int | None
    rows: int | None
    """Number of rows of the small side that have a key; None = not counted, or too many to send around."""
    unfit: Mapping[str, str]
    """Columns without a condition, and why."""

    @classmethod
    def none(cls, names: Iterable[str], why: str) -> _Keys:
        """Returns no keys of any column."""
        return cls(columns={}, are_ends=False, distinct=None, rows=None, unfit=dict.fromkeys(names, why))


def _pairs(
    on: str | Sequence[str] | Mapping[str, str], schema: TableSchema, dim: DataFrame
) -> dict[str, str]:
    """Returns the columns of the large table with those of the small side that they are joined with."""
    if isinstance(on, Mapping):
        pairs = dict(on)
    else:
        pairs = {name: name for name in ((on,) if isinstance(on, str) else on)}
    if not pairs:
        raise InvalidInputError("on names no column")
    fields_named(schema, tuple(pairs))
    missing = [name for name in pairs.values() if name not in dim.columns]
    if missing:
        raise InvalidInputError(
            f"the small side has no column {', '.join(missing)}; it has {', '.join(dim.columns)}"
        )
    return pairs


def _collected(dim: DataFrame, pairs: Mapping[str, str], schema: TableSchema) -> _Keys:
    """Collects the keys of the small side, each once; where they are too many, their ends."""
    unfit = {}
    for ours, theirs in pairs.items():
        kinds = spark_type(schema.field(ours).type), dim.schema[theirs].dataType
        if not any(all(map(_is_of(family), kinds)) for family in _FAMILIES):
            unfit[ours] = f"no condition: {kinds[0].simpleString()} is joined with {kinds[1].simpleString()}"
    fit = {ours: theirs for ours, theirs in pairs.items() if ours not in unfit}
    if not fit:
        return _Keys(columns={}, are_ends=False, distinct=None, rows=None, unfit=unfit)
    named = dim.select(*(column(theirs).alias(f"k{at}") for at, theirs in enumerate(fit.values())))
    names = named.columns
    # A null has no partner, and would take up room.
    keyed = named.dropna()
    counted = keyed.groupBy(*names).agg(sf.count(sf.lit(1)).alias("n")).limit(_COLLECTED_MAX + 1).toArrow()
    if counted.num_rows <= _COLLECTED_MAX:
        return _Keys(
            columns={
                ours: pc.unique(
                    fitting(_in_one_chunk(counted.column(name)), arrow_type(schema.field(ours).type))
                )
                for ours, name in zip(fit, names, strict=True)
            },
            are_ends=False,
            distinct=counted.num_rows,
            rows=sum(counted.column("n").to_pylist()) if counted.num_rows <= _BROADCAST_ROWS else None,
            unfit=unfit,
        )
    ends = [end(name).alias(f"{name}_{at}") for name in names for at, end in enumerate((sf.min, sf.max))]
    extremes = keyed.agg(*ends).toArrow()
    return _Keys(
        columns={
            ours: pa.concat_arrays([_in_one_chunk(extremes.column(f"{name}_{at}")) for at in (0, 1)])
            for ours, name in zip(fit, names, strict=True)
        },
        are_ends=True,
        distinct=None,
        rows=None,
        unfit=unfit,
    )


def _is_of(family: tuple[type[st.DataType], ...]) -> Callable[[st.DataType], bool]:
    def test(kind: st.DataType) -> bool:
        # A collation makes texts equal whose bytes differ.
        plain = not isinstance(kind, st.StringType) or kind.isUTF8BinaryCollation()
        return plain and isinstance(kind, family)

    return test


def _in_one_chunk(column: pa.ChunkedArray) -> pa.Array:
    values = column.combine_chunks()
    return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values


def _partners(keys: _Keys, schema: TableSchema, max_keys: int) -> tuple[Partners, dict[str, str]]:
    """Makes the conditions on the large table; returns them, and the kind of condition of each column."""
    filters: list[RuntimeFilter] = []
    conditions: list[Expr] = []
    kinds = dict(keys.unfit)
    for name, values in keys.columns.items():
        field = schema.field(name)
        if keys.are_ends:
            try:
                # The small side may have a wider type: its ends need not fit the column.
                low, high = values.cast(arrow_type(field.type)).to_pylist()
            except pa.ArrowInvalid:
                kinds[name] = "no condition: there are too many keys, some of which the column cannot have"
                continue
            conditions.append(col(name).between(low, high))
            filters.append(RuntimeFilter.range(written([field.name]), low, high))
            kinds[name] = "a range"
            continue
        is_exact = len(values) <= max_keys
        # With no value allowed, the condition is made of ranges.
        conditions.append(
            among(field.name, arrow_type(field.type), values, max_values=max_keys if is_exact else 0)
        )
        filters.append(RuntimeFilter.in_(written([field.name]), values))
        kinds[name] = "values" if is_exact else "ranges"
    compared = {
        name: values
        for name, values in keys.columns.items()
        if kinds[name] == "ranges" and len(values) <= _COMPARED_MAX
    }
    return Partners(filters=filters, conditions=conditions, among=compared), kinds


def _joined(
    rows: DataFrame,
    dim: DataFrame,
    pairs: Mapping[str, str],
    on: str | Sequence[str] | Mapping[str, str],
    kind: str,
    dim_rows: int | None,
) -> DataFrame:
    """Joins in Spark, with hints, as it cannot know how large the sides are."""
    # A right outer join keeps the small side, and Spark cannot send around the side that it keeps.
    if kind != "right_outer" and dim_rows is not None and dim_rows <= _BROADCAST_ROWS:
        dim = sf.broadcast(dim)
    else:
        rows = rows.hint("merge")
    if not isinstance(on, Mapping):
        return rows.join(dim, list(pairs), kind)
    conditions = [rows[ours] == dim[theirs] for ours, theirs in pairs.items()]
    return rows.join(dim, conditions, kind)
