"""Commits of keys of every kind, as hypothesis draws them, and the runs that they make."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakehouse.format.schema.types import (
    BinaryType,
    DataType,
    DecimalType,
    Field,
    Primitive,
    StringType,
    arrow_type,
)
from lakehouse.storage.rows.key_arrays import KeyColumns

__all__ = ["commits_of_keys", "runs_of"]

WORDS = st.sampled_from(
    ["user-0001", "user-00012", "user-", "user-0001\x00", "user-0001\x00\x00", "tenant/a/1"]
)
VALUES: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "int64": (Primitive("int64"), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    "int8": (Primitive("int8"), st.integers(-128, 127)),
    "boolean": (Primitive("boolean"), st.booleans()),
    "date": (Primitive("date"), st.dates()),
    "time": (Primitive("time"), st.times()),
    "timestamp": (Primitive("timestamp"), st.datetimes(timezones=st.just(dt.UTC))),
    "decimal": (DecimalType(30, 2), st.decimals(-(10**25), 10**25, places=2)),
    "string": (StringType(), st.text(max_size=12) | WORDS | st.text("ab", max_size=20)),
    "binary": (BinaryType(), st.binary(max_size=12) | st.binary(max_size=2).map(lambda one: one * 9)),
}


def runs_of(columns: list[str], commits: list[list[tuple[Any, ...]]]) -> tuple[KeyColumns, list[pa.Table]]:
    """Each commit's keys, sorted and without repetition, as a table."""
    fields = [
        Field(id=at, name=f"k{at}", type=VALUES[kind][0], required=True) for at, kind in enumerate(columns, 1)
    ]
    tables = []
    for keys in commits:
        rows = sorted(set(keys))
        tables.append(
            pa.table(
                [
                    pa.array([row[at] for row in rows], arrow_type(field.type))
                    for at, field in enumerate(fields)
                ],
                names=[field.name for field in fields],
            )
        )
    return KeyColumns(fields), tables


@st.composite
def commits_of_keys(draw: st.DrawFn) -> tuple[list[str], list[list[tuple[Any, ...]]]]:
    """Types of one to three key columns, and the keys of some commits."""
    columns = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    key = st.tuples(*(VALUES[kind][1] for kind in columns))
    pool = draw(st.lists(key, min_size=1, max_size=12))
    commit = st.lists(st.sampled_from(pool), max_size=12)
    return columns, draw(st.lists(commit, min_size=1, max_size=5))
