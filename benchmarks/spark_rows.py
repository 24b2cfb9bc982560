"""Rows for benchmarks on Spark: ten columns, in local Parquet files that every side reads the same way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CUSTOMERS", "SHOPS", "stage", "stage_changes", "stage_dimensions", "stage_shops"]

CUSTOMERS = 100_000
SHOPS = 1_000_000
"""Shops that rows may name; they come in the order of keys."""
_FILE_ROWS = 1_000_000
_PRIME = 7_368_787
"""No number of rows that is used here is a multiple, so that keys come once each, in no order."""
_CITIES = np.array([f"city-{number:04}" for number in range(1_000)])
_STATES = np.array(["new", "paid", "packed", "sent", "returned"])
_SECOND = 1_767_225_600
"""Begin of 2026, seconds since 1970."""


def _rows(ids: np.ndarray, total: int, seed: int) -> pa.Table:
    random, count = np.random.default_rng(seed), len(ids)
    seconds = _SECOND + ids * (30 * 86_400) // total
    return pa.table(
        {
            "id": ids,
            "customer": random.integers(0, CUSTOMERS, count),
            "shop": ids * SHOPS // total,
            "quantity": pa.array(random.integers(1, 100, count), pa.int32()),
            "city": pa.array(_CITIES[random.integers(0, len(_CITIES), count)]),
            "status": pa.array(_STATES[random.integers(0, len(_STATES), count)]),
            "amount": np.round(random.gamma(2, 50, count), 2),
            "tax": np.round(random.gamma(1, 10, count), 2),
            "at": pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC")),
            "day": pa.array((seconds // 86_400).astype(np.int32), pa.date32()),
        }
    )


def stage(folder: Path, rows: int) -> str:
    """So many rows with the keys 0 … rows - 1 in no order; the folder's path."""
    for at in range(0, rows, _FILE_ROWS):
        numbers = np.arange(at, min(at + _FILE_ROWS, rows))
        _write(_rows(numbers * _PRIME % rows, rows, at), folder / "rows" / f"{at}.parquet")
    return str(folder / "rows")


def stage_changes(folder: Path, number: int, count: int, rows: int) -> str:
    """Rows for keys of a table of so many rows, nine of ten of which it has."""
    random = np.random.default_rng(1_000 + number)
    old = random.choice(rows, count * 9 // 10, replace=False)
    new = rows + number * count + np.arange(count - len(old))
    place = folder / f"changes-{number}"
    _write(_rows(np.concatenate([old, new]), rows, 2_000 + number), place / "0.parquet")
    return str(place)


def stage_dimensions(folder: Path) -> str:
    """All customers, three of them gold, and all days, two of them holidays; the folder's path."""
    customers = np.arange(CUSTOMERS)
    gold = np.isin(customers, (17, 4_242, 77_777))
    tiers = np.where(gold, "gold", "plain")
    _write(pa.table({"customer": customers, "tier": tiers}), folder / "dims" / "customers" / "0.parquet")
    days = _SECOND // 86_400 + np.arange(30)
    calendar = {
        "day": pa.array(days.astype(np.int32), pa.date32()),
        "holiday": np.isin(np.arange(30), (3, 21)),
    }
    _write(pa.table(calendar), folder / "dims" / "calendar" / "0.parquet")
    return str(folder / "dims")


def stage_shops(folder: Path) -> str:
    """A table of shops; one in a thousand, all neighbours, is in the region of that name."""
    numbers = np.arange(SHOPS)
    regions = pa.array(np.char.add("region-", (numbers // 1_000).astype(str)))
    _write(pa.table({"shop": numbers, "region": regions}), folder / "shops" / "0.parquet")
    return str(folder / "shops")


def _write(rows: pa.Table, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    # Spark reads microseconds alone.
    pq.write_table(rows, place, coerce_timestamps="us")
