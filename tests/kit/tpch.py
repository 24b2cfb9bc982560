"""Tables of TPC-H of a few thousand rows, always the same: for the shapes of its queries, not for speed.

Values are drawn from the lists of the benchmark, so that each of its 22 queries has something to find. The
texts of the queries are in ``tests/data/tpch``.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["KEYS", "tpch_tables"]

KEYS: Mapping[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
"""Primary key of each table."""

_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0),
    ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2),
    ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3),
    ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_MODES = ("AIR", "AIR REG", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK")
_INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
_COLORS = ("almond", "forest", "green", "ivory", "lime", "navy", "puff", "red")
_TYPES = tuple(
    f"{size} {finish} {metal}"
    for size in ("ECONOMY", "PROMO", "STANDARD", "MEDIUM")
    for finish in ("ANODIZED", "POLISHED", "BURNISHED")
    for metal in ("STEEL", "BRASS", "TIN")
)
_FORMS = ("CASE", "BOX", "PACK", "BAG", "PKG")
_CONTAINERS = tuple(f"{size} {form}" for size in ("SM", "MED", "LG", "JUMBO") for form in _FORMS)
_COMMENTS = ("carefully final", "special packages requests", "a Customer has Complaints", "ironic deposits")
_PEOPLED = (2, 3, 6, 7, 8, 9, 20, 24)
"""Nations that have suppliers and customers: those that queries ask for, among others."""
_SIZES = (1, 3, 5, 9, 14, 15, 19, 23, 36, 45, 49)
_FIRST = dt.date(1992, 1, 1)
_SUPPLIERS, _CUSTOMERS, _PARTS, _ORDERS = 40, 150, 200, 1000


@functools.cache
def tpch_tables() -> Mapping[str, pa.Table]:
    """The eight tables, by name."""
    random = np.random.default_rng(19)
    orders = _orders(random)
    items = _lineitem(random, orders)
    return {
        "region": pa.table({
            "r_regionkey": pa.array(range(5), pa.int32()),
            "r_name": _REGIONS,
            "r_comment": _some(random, _COMMENTS, 5),
        }),
        "nation": pa.table({
            "n_nationkey": pa.array(range(25), pa.int32()),
            "n_name": [name for name, _ in _NATIONS],
            "n_regionkey": pa.array([region for _, region in _NATIONS], pa.int32()),
            "n_comment": _some(random, _COMMENTS, 25),
        }),
        "supplier": _people(random, "s", "supp", "Supplier", _SUPPLIERS),
        "customer": _people(random, "c", "cust", "Customer", _CUSTOMERS).add_column(
            6, "c_mktsegment", pa.array(_some(random, _SEGMENTS, _CUSTOMERS))
        ),
        "part": _part(random),
        "partsupp": _partsupp(random),
        "orders": orders,
        "lineitem": items,
    }  # fmt: skip


def _some(random: np.random.Generator, values: Sequence[str], count: int) -> list[str]:
    return [values[at] for at in random.integers(0, len(values), count).tolist()]


def _money(random: np.random.Generator, low: int, high: int, count: int) -> pa.Array:
    """Amounts between two numbers of cents."""
    return _decimals(random.integers(low, high, count).tolist())


def _decimals(cents: Sequence[int]) -> pa.Array:
    return pa.array([Decimal(value).scaleb(-2) for value in cents], pa.decimal128(15, 2))


def _people(random: np.random.Generator, letter: str, key: str, what: str, count: int) -> pa.Table:
    nations = random.choice(_PEOPLED, count).tolist()
    return pa.table({
        f"{letter}_{key}key": pa.array(range(1, count + 1), pa.int64()),
        f"{letter}_name": [f"{what}#{number:09}" for number in range(1, count + 1)],
        f"{letter}_address": [f"street {number}" for number in random.integers(1, 99, count).tolist()],
        f"{letter}_nationkey": pa.array(nations, pa.int32()),
        f"{letter}_phone": [f"{10 + nation}-{number}" for number, nation in enumerate(nations)],
        f"{letter}_acctbal": _money(random, -99_999, 999_999, count),
        f"{letter}_comment": _some(random, _COMMENTS, count),
    })  # fmt: skip


def _part(random: np.random.Generator) -> pa.Table:
    colors = zip(_some(random, _COLORS, _PARTS), _some(random, _COLORS, _PARTS), strict=True)
    return pa.table({
        "p_partkey": pa.array(range(1, _PARTS + 1), pa.int64()),
        "p_name": [f"{one} {other}" for one, other in colors],
        "p_mfgr": _some(random, [f"Manufacturer#{number}" for number in range(1, 6)], _PARTS),
        "p_brand": _some(random, ["Brand#12", "Brand#23", "Brand#34", "Brand#45"], _PARTS),
        "p_type": _some(random, _TYPES, _PARTS),
        "p_size": pa.array(random.choice(_SIZES, _PARTS).tolist(), pa.int32()),
        "p_container": _some(random, _CONTAINERS, _PARTS),
        "p_retailprice": _money(random, 90_000, 200_000, _PARTS),
        "p_comment": _some(random, _COMMENTS, _PARTS),
    })  # fmt: skip


def _partsupp(random: np.random.Generator) -> pa.Table:
    pairs = [(part, _supplier(part, number)) for part in range(1, _PARTS + 1) for number in range(4)]
    return pa.table({
        "ps_partkey": pa.array([part for part, _ in pairs], pa.int64()),
        "ps_suppkey": pa.array([supplier for _, supplier in pairs], pa.int64()),
        "ps_availqty": pa.array(random.integers(1, 10_000, len(pairs)).tolist(), pa.int32()),
        "ps_supplycost": _money(random, 100, 100_000, len(pairs)),
        "ps_comment": _some(random, _COMMENTS, len(pairs)),
    })  # fmt: skip


def _supplier(part: int, number: int) -> int:
    """One of the four suppliers of a part."""
    return (part * 7 + number * (_SUPPLIERS // 4)) % _SUPPLIERS + 1


def _orders(random: np.random.Generator) -> pa.Table:
    days = random.integers(0, 2405, _ORDERS).tolist()
    return pa.table({
        "o_orderkey": pa.array([number * 4 for number in range(1, _ORDERS + 1)], pa.int64()),
        # A third of the customers has no orders.
        "o_custkey": pa.array([int(at) // 2 * 3 + 1 for at in random.integers(0, 100, _ORDERS)], pa.int64()),
        "o_orderstatus": _some(random, ("F", "O", "P"), _ORDERS),
        "o_totalprice": _money(random, 100_000, 60_000_000, _ORDERS),
        "o_orderdate": [_FIRST + dt.timedelta(days=day) for day in days],
        "o_orderpriority": _some(random, _PRIORITIES, _ORDERS),
        "o_clerk": [f"Clerk#{number}" for number in random.integers(1, 10, _ORDERS).tolist()],
        "o_shippriority": pa.array([0] * _ORDERS, pa.int32()),
        "o_comment": _some(random, _COMMENTS, _ORDERS),
    })  # fmt: skip


def _lineitem(random: np.random.Generator, orders: pa.Table) -> pa.Table:
    counts = random.integers(1, 8, _ORDERS)
    counts[::100] = 14  # some orders are large
    lines = [(at, line) for at, count in enumerate(counts.tolist()) for line in range(1, count + 1)]
    size = len(lines)
    keys, dates = orders["o_orderkey"].to_pylist(), orders["o_orderdate"].to_pylist()
    parts = random.integers(1, _PARTS + 1, size).tolist()
    whole: dict[str, Any] = {
        "l_orderkey": pa.array([keys[at] for at, _ in lines], pa.int64()),
        "l_partkey": pa.array(parts, pa.int64()),
        "l_suppkey": pa.array(list(map(_supplier, parts, random.integers(0, 4, size).tolist())), pa.int64()),
        "l_linenumber": pa.array([line for _, line in lines], pa.int32()),
        "l_quantity": _decimals((random.integers(1, 51, size) * 100).tolist()),
        "l_extendedprice": _money(random, 90_000, 9_000_000, size),
        "l_discount": _money(random, 0, 11, size),
        "l_tax": _money(random, 0, 9, size),
        "l_returnflag": _some(random, ("A", "N", "R"), size),
        "l_linestatus": _some(random, ("F", "O"), size),
    }  # fmt: skip
    for name, most in (("l_shipdate", 121), ("l_commitdate", 91), ("l_receiptdate", 151)):
        days = random.integers(1, most, size).tolist()
        whole[name] = [dates[at] + dt.timedelta(days=day) for (at, _), day in zip(lines, days, strict=True)]
    whole["l_shipinstruct"] = _some(random, _INSTRUCTIONS, size)
    whole["l_shipmode"] = _some(random, _MODES, size)
    whole["l_comment"] = _some(random, _COMMENTS, size)
    return pa.table(whole)
