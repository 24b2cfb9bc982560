"""Answers of Spark about Iceberg tables, as ``expected.json`` has them, beside tables of ours."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.iceberg.answers import plain

__all__ = ["expected_of", "files_of", "ids_of", "python_value", "relative", "rows_of", "same_rows"]


def expected_of(directory: Path) -> dict[str, Any]:
    """What Spark answered about the table in a directory."""
    found: dict[str, Any] = json.loads((directory / "expected.json").read_text(encoding="utf-8"))
    return found


def rows_of(table: pa.Table) -> list[list[Any]]:
    """Rows by ``id``, as JSON has them."""
    rows = table.sort_by("id").to_pylist(maps_as_pydicts="strict")
    made: list[list[Any]] = json.loads(json.dumps([[plain(value) for value in row.values()] for row in rows]))
    return made


def same_rows(table: pa.Table, answer: Mapping[str, Any]) -> None:
    """Fails unless columns and rows are those of an answer."""
    assert table.column_names == answer["columns"], (table.column_names, answer["columns"])
    # Texts of equal decimals may differ in their zeros.
    decimals = [place for place, field in enumerate(table.schema) if pa.types.is_decimal(field.type)]
    found, said = (_with_decimals(rows, decimals) for rows in (rows_of(table), answer["rows"]))
    wrong = [(ours, theirs) for ours, theirs in zip(found, said, strict=False) if ours != theirs]
    assert not wrong, f"{len(wrong)} rows, ours and Spark's: {wrong[:2]}"
    assert len(found) == len(answer["rows"]), (len(found), len(answer["rows"]))


def _with_decimals(rows: Iterable[Sequence[Any]], places: Collection[int]) -> list[list[Any]]:
    def read(place: int, value: Any) -> Any:
        return Decimal(value) if place in places and value is not None else value

    return [[read(place, value) for place, value in enumerate(row)] for row in rows]


def ids_of(table: pa.Table) -> list[int]:
    """Ids in order."""
    return sorted(table["id"].to_pylist())


def python_value(kind: str, text: str) -> Any:
    """A constant of a condition's tree as Python has it."""
    if kind in ("int", "long"):
        return int(text)
    if kind == "boolean":
        return text == "true"
    if kind.startswith("timestamp"):
        return dt.datetime.fromisoformat(text)
    made: dict[str, Any] = {"float": float, "double": float, "decimal": Decimal, "binary": bytes.fromhex}
    return dt.date.fromisoformat(text) if kind == "date" else made.get(kind, str)(text)


def relative(path: str) -> str:
    """A data file's path from its table's directory on."""
    return "data/" + path.partition("/data/")[2]


def files_of(answer: Mapping[str, Any], ids: Iterable[int]) -> set[str]:
    """Data files that rows with these ids are in."""
    place = answer["columns"].index("id")
    numbers = {row[place]: file for row, file in zip(answer["rows"], answer["file_of"], strict=True)}
    return {answer["files"][numbers[one]] for one in ids}
