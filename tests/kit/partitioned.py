"""Partition transforms with columns they are made of, values near their edges, and conditions on these."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from lakehouse.expr import Expr, all_of, any_of, col, lit
from lakehouse.expr.nodes import Compare, CompareOp, Constant, In, IsNull, Not
from lakehouse.expr.transforms import Transform

__all__ = ["CASES", "KINDS", "NUMBERED", "Case", "condition", "partitioned", "values_of"]

_OPS: list[CompareOp] = ["=", "<>", "<", "<=", ">", ">="]
_DAY = 86_400_000_000
_TIMES = ("year", "month", "day", "hour")
NUMBERED: Mapping[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}
"""Types that are numbers in Arrow, by their names in Iceberg."""
KINDS: Mapping[str, pa.DataType] = {
    **NUMBERED,
    "boolean": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(9, 2)": pa.decimal128(9, 2),
    "decimal(38, 3)": pa.decimal128(38, 3),
    "string": pa.string(),
    "binary": pa.binary(),
}
"""Types by their names in Iceberg."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A transform of a column of some type."""

    transform: Transform
    iceberg: str

    @property
    def kind(self) -> pa.DataType:
        """Arrow type of the column."""
        return KINDS[self.iceberg]

    def __str__(self) -> str:
        return f"{self.transform} of {self.iceberg}"


def _cases() -> list[Case]:
    by_text: dict[str, list[str]] = {"identity": [*KINDS], "void": ["int"], "later[3]": ["int"]}
    by_text |= {text: ["date", *(kind for kind in KINDS if "stamp" in kind)] for text in _TIMES[:3]}
    by_text["hour"] = [kind for kind in KINDS if "stamp" in kind]
    for text in ("bucket[4]", "bucket[1000]"):
        by_text[text] = [kind for kind in KINDS if kind not in ("boolean", "float", "double")]
    for text in ("truncate[1]", "truncate[3]", "truncate[50]"):
        by_text[text] = ["int", "long", "decimal(9, 2)", "decimal(38, 3)", "string", "binary"]
    return [
        Case(transform=Transform.parse(text), iceberg=kind)
        for text, kinds in by_text.items()
        for kind in kinds
    ]


CASES = _cases()
"""Every transform with every type that it takes."""

_LETTERS = "ab\ud7ff\ue000\U0010ffffz~\x7fé"
_WIDEST = 2**63 - 1
_UNITS: Mapping[str, int] = {"timestamp": _DAY, "timestamptz": _DAY}
"""Units of a type in a day, if they are not nanoseconds."""
_FLOATS = [0.0, -0.0, 0.5, -1.5, 3e38, float("inf"), float("-inf"), float("nan"), 2.0]
_WIDE = [2**64, -(2**64) - 1, 10**9 - 1]


def _number(rng: random.Random, iceberg: str) -> int:
    if iceberg == "time":
        return rng.choice([0, 1, _DAY - 1, rng.randrange(_DAY)])
    if iceberg in ("int", "long"):
        widest = 2**31 - 1 if iceberg == "int" else _WIDEST
        near = rng.randrange(-120, 121)
        return rng.choice([near] * 8 + [widest - abs(near), -widest - 1 + abs(near)])
    # Around the beginnings of days, months and years, before 1970 too.
    days = rng.choice([-366, -365, -32, -31, -2, -1, 0, 1, 30, 31, 58, 59, 364, 365, 19_737, 19_783])
    if iceberg == "date":
        return days + rng.choice([0, 0, 1])
    unit = _UNITS.get(iceberg, _DAY * 1000)
    return days * unit + rng.choice([0, -1, 1, unit // 24, unit // 24 - 1, rng.randrange(unit)])


def _small(rng: random.Random, others: Sequence[int]) -> int:
    return rng.choice([rng.randrange(-300, 300), rng.randrange(-300, 300), *others])


def values_of(rng: random.Random, iceberg: str, count: int) -> pa.Array:
    """Makes values without nulls, many of them near an edge."""
    kind = KINDS[iceberg]
    if iceberg in NUMBERED:
        plain = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array([_number(rng, iceberg) for _ in range(count)], plain).view(kind)
    makers: Mapping[str, Callable[[], Any]] = {
        "boolean": lambda: rng.random() < 0.5,
        "float": lambda: rng.choice(_FLOATS),
        "decimal(9, 2)": lambda: decimal.Decimal(_small(rng, [10**9 - 1, -9_999_000])).scaleb(-2),
        "decimal(38, 3)": lambda: decimal.Decimal(_small(rng, _WIDE)).scaleb(-3),
        "string": lambda: "".join(rng.choices(_LETTERS, k=rng.randrange(6))),
        "binary": lambda: bytes(rng.choices(b"ab\x00\xff", k=rng.randrange(6))),
    }
    make = makers["float" if iceberg == "double" else iceberg]
    return pa.array([make() for _ in range(count)], kind)


def condition(rng: random.Random, constants: Sequence[pa.Scalar], iceberg: str, depth: int = 2) -> Expr:
    """Makes a condition on the column ``v`` of constants of its type."""
    if depth and rng.random() < 0.4:
        parts = [condition(rng, constants, iceberg, depth - 1) for _ in range(2)]
        return rng.choice([all_of(*parts), any_of(*parts), Not(parts[0])])
    one, other = rng.choice(constants), rng.choice(constants)
    column = col("v")
    choices: list[Callable[[], Expr]] = [
        lambda: Compare(rng.choice(_OPS), column, Constant(one)),
        lambda: In(column, tuple(rng.choices(constants, k=rng.choice([1, 3, 12])))),
        lambda: Not(In(column, tuple(rng.choices(constants, k=3)))),
        lambda: IsNull(column),
        lambda: all_of(Compare(">=", column, Constant(one)), Compare("<", column, Constant(other))),
    ]
    if iceberg == "string":
        text = one.as_py()[: rng.randrange(5)]
        choices += [lambda: column.like(text + "%"), lambda: Not(column.starts_with(text))]
        choices += [lambda: column.like(text + "_%"), lambda: column.like(text)]
    if iceberg in ("int", "long"):
        choices += [lambda: cast(Expr, column % 7 == lit(3))]
    return rng.choice(choices)()


def partitioned(case: Case, values: pa.Array) -> tuple[pa.Array, list[list[int]]]:
    """Returns the different partition values of some values, and of each the places of its values."""
    made = (
        case.transform.apply(values)
        if case.transform.name != "unknown"
        else pa.nulls(len(values), pa.int32())
    )
    places: dict[Any, list[int]] = {}
    for at, value in enumerate(_hashable(made)):
        places.setdefault(value, []).append(at)
    groups = list(places.values())
    return made.take(pa.array([group[0] for group in groups], pa.int64())), groups


def _hashable(values: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(values.type) or pa.types.is_time(values.type):
        return values.cast(pa.int64()).to_pylist()
    # All NaN are one value, the two zeros are two.
    return [repr(value) if isinstance(value, float) else value for value in values.to_pylist()]
