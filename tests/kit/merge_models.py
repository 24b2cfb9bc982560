"""Merge engines row by row, in plain Python: the model that kernel, scans and lookups are held to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakehouse.format.metadata.file_entry import RowKind
from lakehouse.format.schema.table_schema import TableSchema, schema_from_arrow

__all__ = ["ENGINES", "Element", "EngineCase", "Row", "folded", "rows_of", "shown"]

Row = dict[str, Any]
Element = tuple[RowKind, Row]
"""What a run says of a key: a kind and a row, of which a deletion says nothing."""

_INTS = st.none() | st.integers(-3, 3)
_TEXTS = st.none() | st.sampled_from(["", "x", "xy", "z"])


@dataclass(frozen=True)
class EngineCase:
    """An engine with the columns of a table."""

    name: str
    columns: Mapping[str, pa.DataType]
    options: Mapping[str, str]
    merge: Callable[[Row, Row], Row]
    """An older row and a newer one, both as they count."""
    own: Callable[[Row], Row] = dict
    """A row as it counts where it stands alone."""
    sequence: tuple[str, ...] = ()

    @property
    def schema(self) -> TableSchema:
        """With a primary key ``id``."""
        return schema_from_arrow(
            pa.schema({"id": pa.int64(), **self.columns}), primary_key="id", options=self.options
        )

    def __str__(self) -> str:
        return self.name


def _coalesced(one: Row, other: Row, names: Sequence[str]) -> Row:
    return {name: one[name] if one[name] is not None else other[name] for name in names}


def _rank(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple((row[name] is not None, 0 if row[name] is None else row[name]) for name in names)


def _newest(*by: str) -> Callable[[Row, Row], Row]:
    def merge(old: Row, new: Row) -> Row:
        return new if _rank(new, by) >= _rank(old, by) else old

    return merge


def _groups(old: Row, new: Row) -> Row:
    """Columns ``a`` and ``b`` go by ``s``, ``c`` by ``t`` and ``u``."""
    out = _coalesced(new, old, ["id", "v"])
    for by, members in ((["s"], ["a", "b"]), (["t", "u"], ["c"])):
        given = any(new[name] is not None for name in by)
        source = new if given and _rank(new, by) >= _rank(old, by) else old
        out |= {name: source[name] for name in (*by, *members)}
    return out


def _groups_own(row: Row) -> Row:
    out = dict(row)
    for by, members in ((["s"], ["a", "b"]), (["t", "u"], ["c"])):
        if all(row[name] is None for name in by):
            out |= dict.fromkeys(members)
    return out


def _skipping(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda old, new: new if old is None else old if new is None else function(old, new)


def _distinct(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _map(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Of each key the last entry, where it stands."""
    last = {key: at for at, (key, _) in enumerate(pairs)}
    return [pair for at, pair in enumerate(pairs) if last[pair[0]] == at]


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": _skipping(lambda old, new: old + new),
    "product": _skipping(lambda old, new: old * new),
    "count": lambda old, new: old + new,
    "min": _skipping(min),
    "max": _skipping(max),
    "bool_and": _skipping(lambda old, new: old and new),
    "bool_or": _skipping(lambda old, new: old or new),
    "first_value": lambda old, new: old,
    "last_value": lambda old, new: new,
    "first_non_null_value": _skipping(lambda old, new: old),
    "last_non_null_value": _skipping(lambda old, new: new),
    "listagg": _skipping(lambda old, new: f"{old};{new}"),
    "collect": _skipping(lambda old, new: old + new),
    "distinct": _skipping(lambda old, new: _distinct(old + new)),
    "merge_map": _skipping(lambda old, new: _map([*old, *new])),
}
_AGGREGATES: dict[str, tuple[str, pa.DataType]] = {
    "total": ("sum", pa.int32()),
    "cents": ("sum", pa.decimal128(20, 2)),
    "ratio": ("product", pa.int64()),
    "hits": ("count", pa.int64()),
    "low": ("min", pa.string()),
    "high": ("max", pa.date32()),
    "every": ("bool_and", pa.bool_()),
    "some": ("bool_or", pa.bool_()),
    "first": ("first_value", pa.int64()),
    "last": ("last_value", pa.string()),
    "given": ("first_non_null_value", pa.int64()),
    "newest": ("last_non_null_value", pa.list_(pa.int64())),
    "notes": ("listagg", pa.string()),
    "items": ("collect", pa.list_(pa.int64())),
    "tags": ("distinct", pa.list_(pa.string())),
    "attrs": ("merge_map", pa.map_(pa.string(), pa.int64())),
}


def _aggregated(old: Row, new: Row) -> Row:
    out = {"id": new["id"]}
    return out | {name: _FUNCTIONS[how](old[name], new[name]) for name, (how, _) in _AGGREGATES.items()}


def _aggregated_own(row: Row) -> Row:
    out = dict(row)
    out["hits"] = int(row["hits"] is not None)
    if row["tags"] is not None:
        out["tags"] = _distinct(row["tags"])
    if row["attrs"] is not None:
        out["attrs"] = _map(row["attrs"])
    return out


def _aggregate_options() -> dict[str, str]:
    options = {"merge_engine": "aggregation", "fields.notes.delimiter": ";", "fields.tags.distinct": "true"}
    for name, (how, _) in _AGGREGATES.items():
        options[f"fields.{name}.aggregate"] = "collect" if how == "distinct" else how
    return options


def _by_sequence(old: Row, new: Row) -> Row:
    newer = _newest("s")(old, new)
    return {
        "id": new["id"],
        "s": newer["s"],
        "v": newer["v"],
        "n": _FUNCTIONS["sum"](old["n"], new["n"]),
    }


ENGINES = [
    EngineCase(
        "deduplicate by sequence",
        {"s": pa.int64(), "v": pa.int64(), "x": pa.string()},
        {"sequence.field": "s"},
        _newest("s"),
    ),
    EngineCase(
        "deduplicate by three columns",
        {"s": pa.string(), "v": pa.int64(), "x": pa.float64()},
        {"sequence.field": "s, x, v"},
        _newest("s", "x", "v"),
    ),
    EngineCase(
        "first-row",
        {"v": pa.int64(), "x": pa.string()},
        {"merge_engine": "first-row"},
        lambda old, new: old,
    ),
    EngineCase(
        "partial-update",
        {"v": pa.int64(), "x": pa.string(), "y": pa.list_(pa.int64())},
        {"merge_engine": "partial-update"},
        lambda old, new: _coalesced(new, old, ["id", "v", "x", "y"]),
    ),
    EngineCase(
        "partial-update in groups",
        {
            "v": pa.int64(),
            "s": pa.int64(),
            "a": pa.int64(),
            "b": pa.string(),
            "t": pa.string(),
            "u": pa.int64(),
            "c": pa.int64(),
        },
        {
            "merge_engine": "partial-update",
            "fields.s.sequence_group": "a, b",
            "fields.t,u.sequence_group": "c",
        },
        _groups,
        _groups_own,
    ),
    EngineCase(
        "aggregation",
        {name: kind for name, (_, kind) in _AGGREGATES.items()},
        _aggregate_options(),
        _aggregated,
        _aggregated_own,
    ),
    EngineCase(
        "aggregation by sequence",
        {"s": pa.timestamp("us"), "v": pa.int64(), "n": pa.int64()},
        {
            "merge_engine": "aggregation",
            "sequence.field": "s",
            "fields.v.aggregate": "last_value",
            "fields.n.aggregate": "sum",
        },
        _by_sequence,
    ),
]


def folded(case: EngineCase, older: Element, newer: Element) -> Element:
    """The algebra of rows: what an older and a newer element of a key come to."""
    kind, row = newer
    if kind is not RowKind.UPDATE:
        return newer
    if older[0] is RowKind.DELETE:
        return RowKind.INSERT, row
    return older[0], case.merge(older[1], row)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(kind):
        return _INTS
    if pa.types.is_boolean(kind):
        return st.none() | st.booleans()
    if pa.types.is_floating(kind):
        return st.none() | st.sampled_from([-1.5, 0.0, 2.5, float("inf")])
    if pa.types.is_decimal(kind):
        return st.none() | st.decimals(-(10**12), 10**12, places=2).map(lambda one: one or Decimal("0.00"))
    if pa.types.is_date(kind):
        return st.none() | st.integers(0, 4).map(lambda day: dt.date(2026, 1, 1 + day))
    if pa.types.is_timestamp(kind):
        return st.none() | st.integers(0, 3).map(lambda day: dt.datetime(2026, 1, 1 + day))
    if pa.types.is_map(kind):
        return st.none() | st.lists(st.tuples(st.sampled_from("abc"), _INTS), max_size=3)
    if pa.types.is_list(kind):
        return st.none() | st.lists(_values(kind.value_type), max_size=3)
    return _TEXTS


def rows_of(case: EngineCase, ids: st.SearchStrategy[int]) -> st.SearchStrategy[Row]:
    """Rows as users write them."""
    return st.fixed_dictionaries({"id": ids, **{name: _values(kind) for name, kind in case.columns.items()}})


def shown(rows: Sequence[Row]) -> list[Row]:
    """Rows in one order, whatever they came in."""
    return sorted(rows, key=lambda row: row["id"])
