"""Shuffle of rows before they are written: by bucket, or by ranges of the key.

Where a table has enough buckets for the tasks, a task gets whole buckets. Else, and where a task could not
sort a bucket in memory, each bucket is cut by ranges of the key, whose bounds come from a sample of the
keys. A range has its own partition of the shuffle, so ranges of different tasks are apart, and files of all
tasks form one run. Bucket numbers come from the engine's own hash, of the key columns alone.

Rows to be written go through the shuffle packed (:mod:`lakehouse.spark.writing.exchange`), and the task sorts
them by key (:mod:`lakehouse.spark.writing.key_sort`); small frames are one task's as they are. Where Spark
has to sort, because other steps follow or rows of a key differ in nested columns, which Arrow cannot compare,
they go as rows, and an Arrow UDF computes the bucket.

Rows of a key stand by the sequence field, then by the other columns, nulls first. So the row of a key that
comes last is the same whatever the tasks were. (Maps have no order and take no part.)

Without a key nothing is shuffled, but for partitioned tables: there Spark balances rows by partition.

Invariant: all rows of a key are in one task; where rows go is a function of the key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.spark.reading.frames import column, is_classic
from lakehouse.spark.writing.exchange import PACKED, RANGE, TASK, Exchange, buckets, packed
from lakehouse.spark.writing.key_sort import order_key
from lakehouse.spark.writing.task import together
from lakehouse.storage.rows import value_width

__all__ = ["ShuffledRows", "shuffled", "spread", "tasks_of"]

_PID, _BUCKET = "__lakehouse_task", "__lakehouse_bucket"
_TASK_BYTES = 64 << 20
"""Bytes of rows of one task, about, before more tasks are worth it."""
_SMALL_BYTES = 8 << 20
"""Maximum bytes of rows, which are only read, that one task has done sooner than two steps and a shuffle."""
_READS = frozenset({"Filter", "LocalRelation", "LogicalRDD", "LogicalRelation", "Project", "Range"})
"""Steps of a plan that are quick on few bytes."""
_SAMPLED = 100
"""Keys sampled per range to find its bounds."""
_UNPACKED = 4
"""Bytes that rows may take in memory for each byte of their files."""
_FITTING_MOST = 256
"""Maximum tasks beyond the session's own number, for rows that would not fit into memory: every value of the
shuffle is cut into as many pieces."""
_UNKNOWN_BYTES = 1 << 60
"""Bytes from which on Spark's estimate of a plan means that it does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledRows:
    """Rows in the tasks that write them, and what is left to these."""

    rows: DataFrame
    sorts: bool = False
    """True: the tasks have to sort them by key."""
    packed: bool = False
    """True: they are packed (:mod:`lakehouse.spark.writing.exchange`)."""


def shuffled(
    df: DataFrame, schema: TableSchema, *, tasks: int | None = None, once: bool = False, ties: bool = True
) -> ShuffledRows:
    """Brings rows to the tasks that write them; the arguments are those of :func:`spread`."""
    if not schema.primary_key or (ties and _has_nested(df)):
        return ShuffledRows(rows=spread(df, schema, tasks=tasks, once=once, ties=ties))
    key = order_key(schema)
    holds = TableOptions.parse(schema.options).write_buffer_bytes
    ranges = _ranges(df, schema, key, tasks=tasks, least=1, once=once, holds=holds)
    if ranges.tasks <= 1 and _is_small(df):
        return ShuffledRows(rows=df.coalesce(1), sorts=True)
    if ranges.bounds is None:
        exchange = Exchange(schema=schema, tasks=max(1, min(ranges.tasks, schema.buckets)))
    else:
        parts = len(ranges.bounds) + 1
        exchange = Exchange(schema=schema, ranges=parts, tasks=parts * schema.buckets)
        df = df.withColumn(RANGE, _place(df, key, ranges.bounds))

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from packed(exchange, together(batches))

    rows = df.mapInArrow(each, PACKED).repartitionById(exchange.tasks, TASK)
    return ShuffledRows(rows=rows, sorts=True, packed=True)


def spread(
    df: DataFrame,
    schema: TableSchema,
    *,
    tasks: int | None = None,
    least: int = 1,
    once: bool = False,
    ties: bool = True,
) -> DataFrame:
    """Shuffles and sorts rows as tasks are to write them.

    Args:
        df: rows, columns named as in the schema; the key's are all there.
        schema: of the table.
        tasks: how many at most; None = as the size asks for, at most ``spark.sql.shuffle.partitions``.
        least: how many at least, where there may be so many.
        once: compute the rows once only, for which there are no more tasks than buckets.
        ties: whether rows of a key are to be in order too.
    """
    if not schema.primary_key:
        if not schema.partition_by:
            return df
        return df.hint("rebalance", *(column(name) for name in schema.partition_by))
    key = order_key(schema)
    ranges = _ranges(df, schema, key, tasks=tasks, least=least, once=once)
    by_bucket = schema.buckets > 1
    if by_bucket:
        df = df.withColumn(_BUCKET, _bucket_udf(schema)(*(column(name) for name in schema.primary_key)))
    if ranges.tasks <= 1:
        count, place = 1, sf.lit(0)
    elif ranges.bounds is None:
        count = min(ranges.tasks, schema.buckets)
        place = sf.floor(sf.col(_BUCKET) * count / schema.buckets).cast("int")
    else:
        parts = len(ranges.bounds) + 1
        count = parts * schema.buckets
        place = _place(df, key, ranges.bounds)
        if by_bucket:
            place = sf.col(_BUCKET) * parts + place
    df = df.withColumn(_PID, place).repartitionById(count, _PID).drop(_PID)
    first = [sf.col(_BUCKET)] if by_bucket else []
    df = df.sortWithinPartitions(*first, *_order(df, schema, key, ties=ties))
    return df.drop(_BUCKET)


def tasks_of(size: int) -> int:
    """Returns how many tasks so many bytes of files are worth."""
    return max(1, -(-size // _TASK_BYTES))


def _order(df: DataFrame, schema: TableSchema, key: Sequence[str], *, ties: bool) -> list[Column]:
    """Returns the sort columns: the key; where tasks cannot compare its rows, the sequence and all else."""
    types = {field.name: field.dataType for field in df.schema.fields if field.name != _BUCKET}
    names = dict.fromkeys(key)
    if ties and _has_nested(df):
        sequence = [name for name in _sequence(schema) if name in types]
        names = dict.fromkeys((*key, *sequence, *(name for name, kind in types.items() if _has_order(kind))))
    return [column(name).asc_nulls_first() for name in names]


def _has_nested(df: DataFrame) -> bool:
    """Returns whether rows of a key may differ in what Arrow cannot compare."""
    return any(isinstance(field.dataType, ArrayType | StructType) for field in df.schema.fields)


def _sequence(schema: TableSchema) -> tuple[str, ...]:
    return next((rule.sequence for rule in schema.merging.rules.values() if rule.sequence), ())


def _has_order(kind: DataType) -> bool:
    match kind:
        case MapType() | VariantType():
            return False
        case ArrayType(elementType=element):
            return _has_order(element)
        case StructType(fields=fields):
            return all(_has_order(field.dataType) for field in fields)
    return True


# --- buckets ------------------------------------------------------------------------


def _bucket_udf(schema: TableSchema) -> Callable[..., Column]:
    def numbers(*columns: pa.Array) -> pa.Array:
        return pa.array(buckets(pa.table(list(columns), names=list(schema.primary_key)), schema))

    # Given in full, because annotations that are text tell Spark nothing.
    numbers.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    made: Callable[..., Column] = sf.arrow_udf(numbers, "int")
    return made


# --- ranges -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Number of tasks, and the bounds that cut each bucket into ranges."""

    tasks: int
    bounds: list[tuple[Any, ...]] | None = None
    """Least key of each range but the first; None = buckets are not cut."""


def _ranges(
    df: DataFrame,
    schema: TableSchema,
    key: Sequence[str],
    *,
    tasks: int | None,
    least: int,
    once: bool,
    holds: int | None = None,
) -> _Ranges:
    """Decides how to cut the rows; ``holds`` is the bytes that a task can sort in memory, if tasks sort."""
    most = tasks if tasks is not None else int(df.sparkSession.conf.get("spark.sql.shuffle.partitions"))

    def tasks_for(size: int) -> int:
        return max(1, min(most, max(least, tasks_of(size))))

    size = _plan_bytes(df)
    wanted = most if size is None else tasks_for(size)
    # More tasks than these where buckets do not fit into memory: rows would go by way of a disk.
    room = schema.buckets * holds if holds is not None and tasks is None else None
    is_large = room is not None and size is not None and size > room / _UNPACKED
    # Bounds come from a sample, and to sample is to compute the rows twice.
    if once or (wanted <= schema.buckets and not is_large):
        return _Ranges(min(wanted, schema.buckets))
    sample, rows = _sampled(df, key, _SAMPLED * (_FITTING_MOST if is_large else wanted))
    width = sum(value_width(field) for field in schema.fields)
    weight = max(size or 0, rows * width)
    wanted = tasks_for(weight)
    if room is not None and weight > room:
        wanted = max(wanted, min(-(-weight // room) * schema.buckets, _FITTING_MOST))
    parts = -(-wanted // schema.buckets)
    if parts <= 1 or not sample:
        return _Ranges(wanted)
    cuts = {sample[len(sample) * number // parts] for number in range(1, parts)}
    return _Ranges(wanted, sorted(cuts))


def _plan_bytes(df: DataFrame) -> int | None:
    """Returns Spark's estimate of the bytes of the rows; None = it does not know."""
    if not is_classic(df):
        return None
    size = int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    return size if size < _UNKNOWN_BYTES else None


def _is_small(df: DataFrame) -> bool:
    """Returns whether the frame is few bytes, which Spark only has to read."""
    size = _plan_bytes(df)
    if size is None or size > _SMALL_BYTES:
        return False
    steps = [df._jdf.queryExecution().optimizedPlan()]
    while steps:
        step = steps.pop()
        if step.nodeName() not in _READS:
            return False
        inputs = step.children()
        steps += [inputs.apply(at) for at in range(inputs.size())]
    return True


def _sampled(df: DataFrame, key: Sequence[str], count: int) -> tuple[list[tuple[Any, ...]], int]:
    """Returns some keys, in order, and about how many rows there are; reads the key's columns once.

    Of N uniform numbers in [0, 1) the count-th least is about count / N, and that gives N.
    """
    chance = "__lakehouse_chance"
    sample = (
        df.select(*(column(name) for name in key))
        .dropna()
        .withColumn(chance, sf.rand(seed=1))
        .orderBy(chance)
        .limit(count)
        .collect()
    )
    if not sample:
        return [], 0
    rows = len(sample) if len(sample) < count else math.ceil(count / max(sample[-1][chance], 1e-12))
    return sorted(tuple(_plain(value) for value in row[:-1]) for row in sample), rows


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _place(df: DataFrame, key: Sequence[str], bounds: list[tuple[Any, ...]]) -> Column:
    """Returns the number of the range that holds a row's key, which is found by halving."""
    types = [df.schema[name].dataType for name in key]

    def at_least(bound: tuple[Any, ...]) -> Column:
        values = [
            sf.lit(bytearray(value) if isinstance(value, bytes) else value).cast(kind)
            for value, kind in zip(bound, types, strict=True)
        ]
        if len(key) == 1:
            return column(key[0]) >= values[0]
        names = [f"k{place}" for place in range(len(key))]
        mine = sf.struct(*(column(name).alias(short) for name, short in zip(key, names, strict=True)))
        return mine >= sf.struct(*(value.alias(short) for value, short in zip(values, names, strict=True)))

    def place(low: int, high: int) -> Column:
        if low == high:
            return sf.lit(low)
        middle = (low + high + 1) // 2
        return sf.when(at_least(bounds[middle - 1]), place(middle, high)).otherwise(place(low, middle - 1))

    return place(0, len(bounds))
