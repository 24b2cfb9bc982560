"""Files of statements with their answers, as sqllogictest has them, and a runner of them.

Besides ``statement``, ``query``, ``skipif``, ``onlyif``, ``halt`` and ``hash-threshold``, a file makes the
tables that it asks, whose rows are what a SELECT of DuckDB gives::

    table sales.orders key=id bucket=2
    SELECT i AS id, i * 1.5 AS amount FROM range(100) rows(i)

    upsert sales.orders
    SELECT 7 AS id, 0.5 AS amount

    delete sales.orders
    id < 10

    query IR rowsort
    SELECT id, amount FROM sales.orders WHERE id < 12
    ----
    10  15.000
    11  16.500
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from lakehouse.errors import LakehouseError

__all__ = ["Record", "SltWorld", "read_slt", "run_slt"]

ENGINE = "lakehouse"
_MAKING = ("table", "append", "upsert", "delete", "flush")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One entry of a file."""

    kind: str
    """``statement``, ``query``, or what makes a table."""
    words: tuple[str, ...]
    """The words behind it in its first line."""
    text: str
    expected: tuple[str, ...] | None = None
    """Lines below ``----``; None = there is none."""
    place: str
    """File and line."""


class SltWorld(Protocol):
    """Engine that statements are run by."""

    async def rows(self, text: str) -> Sequence[Sequence[Any]]:
        """Runs a text and returns the rows of its last statement."""
        ...

    async def make(self, verb: str, name: str, options: Mapping[str, str], text: str) -> None:
        """Makes a table, or changes its rows."""
        ...


def read_slt(path: Path) -> list[Record]:
    """Reads a file."""
    return list(_records(path))


def _records(path: Path) -> Iterator[Record]:
    lines = path.read_text().splitlines()
    at, is_skipped = 0, False
    while at < len(lines):
        words = lines[at].split()
        begin, at = at, at + 1
        if not words or words[0].startswith("#") or words[0] == "hash-threshold":
            continue
        if words[0] == "halt":
            return
        if words[0] in ("skipif", "onlyif"):
            is_skipped |= (words[1] == ENGINE) == (words[0] == "skipif")
            continue
        body = list[str]()
        while at < len(lines) and lines[at].strip():
            body.append(lines[at])
            at += 1
        cut = body.index("----") if "----" in body else len(body)
        expected = tuple(body[cut + 1 :]) if cut < len(body) else None
        place = f"{path.name}:{begin + 1}"
        if words[0] not in ("statement", "query", *_MAKING):
            raise AssertionError(f"{place}: {words[0]} begins no record")
        if not is_skipped:
            text = "\n".join(body[:cut])
            yield Record(kind=words[0], words=tuple(words[1:]), text=text, expected=expected, place=place)
        is_skipped = False


async def run_slt(records: Sequence[Record], world: SltWorld) -> int:
    """Runs records in order; AssertionError at the first that answers otherwise. Returns their number."""
    runner = _Runner(world)
    for record in records:
        try:
            await runner.run[record.kind](record)
        except AssertionError as error:
            raise AssertionError(f"{record.place}: {error}\n{record.text}") from error
        except Exception as error:
            error.add_note(f"{record.place}: {record.text}")
            raise
    return len(records)


@dataclass(slots=True)
class _Runner:
    world: SltWorld
    labels: dict[str, list[str]] = field(default_factory=dict)

    @property
    def run(self) -> Mapping[str, Callable[[Record], Awaitable[None]]]:
        made = dict.fromkeys(_MAKING, self._make)
        return {"statement": self._statement, "query": self._query, **made}

    async def _make(self, record: Record) -> None:
        name, *options = record.words or ("",)
        pairs = dict(one.split("=", 1) for one in options)
        await self.world.make(record.kind, name, pairs, record.text)

    async def _statement(self, record: Record) -> None:
        if record.words[0] != "error":
            await self.world.rows(record.text)
            return
        with pytest.raises(LakehouseError) as caught:
            await self.world.rows(record.text)
        wanted = "\n".join(record.expected or ()).strip()
        assert wanted.lower() in str(caught.value).lower(), f"another error than {wanted!r}: {caught.value}"

    async def _query(self, record: Record) -> None:
        types, *rest = record.words
        rows = await self.world.rows(record.text)
        assert all(len(row) == len(types) for row in rows), f"{len(types)} columns expected"
        shown = [[_shown(value, kind) for value, kind in zip(row, types, strict=True)] for row in rows]
        sort = rest[0] if rest and rest[0] in ("nosort", "rowsort", "valuesort") else "nosort"
        found = _sorted(shown, sort)
        if len(rest) > 1:
            first = self.labels.setdefault(rest[1], found)
            assert found == first, f"label {rest[1]}: {found} and {first}"
        if record.expected is not None:
            _check(found, record.expected, len(types), sort)


def _sorted(rows: Sequence[Sequence[str]], sort: str) -> list[str]:
    if sort == "rowsort":
        rows = sorted(rows)
    values = [value for row in rows for value in row]
    return sorted(values) if sort == "valuesort" else values


def _check(found: list[str], expected: Sequence[str], width: int, sort: str) -> None:
    hashed = re.fullmatch(r"(\d+) values hashing to ([0-9a-f]{32})", expected[0]) if expected else None
    if hashed is not None:
        digest = hashlib.md5("".join(f"{value}\n" for value in found).encode()).hexdigest()
        assert (len(found), digest) == (int(hashed[1]), hashed[2]), f"{len(found)} values, {digest}"
        return
    rows = [re.split(r"\t|  +", line.strip()) for line in expected]
    by_row = width > 1 and all(len(row) == width for row in rows)
    wanted = [value for row in rows for value in row] if by_row else [line.strip() for line in expected]
    if sort == "rowsort":
        lines = [wanted[at : at + width] for at in range(0, len(wanted), width)]
        wanted = [value for line in sorted(lines) for value in line]
    elif sort == "valuesort":
        wanted = sorted(wanted)
    assert found == wanted, f"{found} instead of {wanted}"


def _shown(value: Any, kind: str) -> str:
    """Returns a value as files write it: I an integer, R a number with three digits, T a text."""
    if value is None:
        return "NULL"
    if kind == "I":
        return str(int(value))
    if kind == "R":
        return f"{float(value):.3f}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) or "(empty)"
