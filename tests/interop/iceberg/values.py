"""Values of the column that tables are partitioned by, and conditions on them for three readers.

A condition is a tree of lists: ``[op, column, type, *values]``, or ``["and" | "or" | "not", *conditions]``.
Values are texts, which each reader writes its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["POOLS", "SPARK_TYPES", "Condition", "conditions", "literal", "sql"]

Condition = list[Any]

SPARK_TYPES = {
    "int": "INT",
    "long": "BIGINT",
    "string": "STRING",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "decimal": "DECIMAL(9, 2)",
    "binary": "BINARY",
    "boolean": "BOOLEAN",
    "float": "FLOAT",
    "double": "DOUBLE",
}

_TIMES = (
    "1969-06-15 07:00:00",
    "1969-12-31 23:59:59.999999",
    "1970-01-01 00:00:00",
    "2024-01-15 15:59:59",
    "2024-01-15 16:00:00",
    "2024-01-16 00:00:00",
    "2024-01-16 00:30:00.5",
    "2024-02-29 12:00:00",
    "2024-12-31 15:59:59",
    "2024-12-31 16:00:00",
)
_FLOATS = ("-Infinity", "-1.5", "0.0", "0.25", "1.5", "1024.5", "Infinity", "NaN")

POOLS: dict[str, tuple[str, ...]] = {
    # Truncating the least INT overflows, in Iceberg too.
    "int": ("-2000000000", "-101", "-11", "-10", "-1", "0", "1", "9", "10", "2147483647"),
    "long": (
        "-9000000000000000000",
        "-201",
        "-100",
        "-1",
        "0",
        "1",
        "99",
        "100",
        "4294967296",
        "9000000000000000000",
    ),
    "string": (
        "",
        "a",
        "ab",
        "abc",
        "abd",
        "b",
        "ü",
        "北京",
        "🌍 x",
        "a text of more than sixteen characters",
    ),
    "date": (
        "1900-03-01",
        "1968-02-29",
        "1969-12-31",
        "1970-01-01",
        "1970-01-31",
        "2023-12-31",
        "2024-01-15",
        "2024-01-16",
        "2024-02-29",
        "2024-12-31",
    ),
    "timestamp": tuple(f"{text}+00:00" for text in _TIMES),
    "timestamp_ntz": _TIMES,
    "decimal": (
        "-9999000.00",
        "-10.50",
        "-0.01",
        "0.00",
        "0.01",
        "1.23",
        "9.99",
        "10.00",
        "19.99",
        "9999999.99",
    ),
    "binary": ("", "00", "00ff", "00ff80", "6162", "616263", "7a", "ffff", "ff" * 17),
    "boolean": ("false", "true"),
    "float": _FLOATS,
    "double": _FLOATS,
}
"""Of each type its values in order, nulls left out."""


def literal(kind: str, text: str, *, spark: bool) -> str:
    """A value as SQL has it."""
    if kind in ("int", "long", "boolean"):
        return text
    if kind in ("string", "date", "timestamp"):
        return f"{'' if kind == 'string' else kind.upper() + ' '}'{text}'"
    if kind == "timestamp_ntz":
        return f"{'TIMESTAMP_NTZ' if spark else 'TIMESTAMP'} '{text}'"
    if kind == "binary":
        return f"X'{text}'"
    return f"CAST('{text}' AS {SPARK_TYPES[kind]})"


def sql(condition: Condition, *, spark: bool) -> str:
    """A condition as SQL, Spark's or ours; both have NaN above every number."""
    op, *rest = condition
    if op in ("and", "or"):
        return f" {op.upper()} ".join(f"({sql(part, spark=spark)})" for part in rest)
    if op == "not":
        return f"NOT ({sql(rest[0], spark=spark)})"
    column, kind, *values = rest
    if op in ("null", "not null"):
        return f"{column} IS {op.upper()}"
    texts = [literal(kind, value, spark=spark) for value in values]
    if op in ("in", "not in"):
        return f"{column} {op.upper()} ({', '.join(texts)})"
    if op == "starts":
        return f"{column} LIKE '{values[0]}%'"
    return f"{column} {op} {texts[0]}"


def conditions(number: int, kind: str, column: str, name: str | None) -> list[Condition]:
    """What is asked of a table: other values for each number.

    Args:
        kind: the type of the column that the table is partitioned by.
        column: its name.
        name: the column of texts, None when it was dropped.
    """
    pool = [text for text in POOLS[kind] if text != "NaN"]
    one, other = pool[number % len(pool)], pool[(number * 3 + 1) % len(pool)]
    low, high = sorted((one, other), key=pool.index)
    asked: list[Condition] = [
        ["=", column, kind, one],
        ["<>", column, kind, other],
        [("<", "<=")[number % 2], column, kind, other],
        [(">", ">=")[number % 2], column, kind, one],
        ["and", [">=", column, kind, low], ["<=", column, kind, high]],
        ["in", column, kind, *dict.fromkeys((one, other, pool[-1]))],
        [("null", "not null")[number % 2], column, kind],
        ["or", ["=", column, kind, other], ["<", "amount", "int", "-100"]],
        ["and", ["not in", column, kind, one, other], [">", "id", "int", "150"]],
    ]
    if kind == "string":
        asked.append(["starts", column, kind, "ab"])
    if name is not None:
        asked.append(
            ["and", ["=", name, "string", f"name {number % 23}"], ["not", ["=", "region", "string", "r1"]]]
        )
    return _without_orders(asked) if kind == "boolean" else asked


def _without_orders(asked: Sequence[Condition]) -> list[Condition]:
    """Conditions but for orders, which nobody asks of true and false."""
    return [one for one in asked if one[0] not in ("<", "<=", ">", ">=") and one[1][0] != ">="]
