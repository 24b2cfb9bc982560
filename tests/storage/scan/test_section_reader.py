"""Sections as they are read: merged first and filtered afterwards, with no column that is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse.expr import Expr, col
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import RowKind
from lakehouse.index.search import RowSelection
from lakehouse.storage.rows.row_size import RowSize
from lakehouse.storage.scan.conditions import bind_where
from lakehouse.storage.scan.report import ScanReport
from lakehouse.storage.scan.section_reader import ScanOutput, SectionReader
from lakehouse.storage.scan.sections import Section, SectionPart
from tests.kit.memory_runs import MemoryRuns
from tests.kit.run_histories import SCHEMA, run_table

Rows = dict[int, tuple[RowKind, int | None, str | None]]


def live(**values: int) -> Rows:
    """Returns rows by key and value: ``k3=7`` has key 3."""
    return {int(name[1:]): (RowKind.INSERT, value, "x") for name, value in values.items()}


def gone(*keys: int) -> Rows:
    """Returns deletes of keys."""
    return dict.fromkeys(keys, (RowKind.DELETE, None, None))


def key(number: int) -> bytes:
    """Returns a row key."""
    return RowKeyCodec(SCHEMA.key_fields).encode_one((number,))


class Files:
    """Runs of one merge unit, and what is read of them."""

    def __init__(self, *runs: Rows) -> None:
        self._runs = MemoryRuns(SCHEMA, piece_rows=3)
        for at, rows in enumerate(runs, start=1):
            self._runs.add(run_table(rows), lo=(at, 1, 0), hi=(at, 1, 0))

    def part(self, age: int, **about: Any) -> SectionPart:
        """Returns a whole file as a part."""
        run = self._runs.files[f"f{age}"]
        facts: dict[str, Any] = {"wanted": True, "matches": False, "spans": False, **about}
        return SectionPart(
            reader=run,
            pieces=tuple(range(len(run.pieces))),
            piece_rows=tuple(piece.rows for piece in run.pieces),
            low=run.entry.min_key or b"",
            high=run.entry.max_key or b"",
            age=age,
            **facts,
        )

    @property
    def pieces_read(self) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
        """Pieces of each read, with the columns that are read of them."""
        return [(pieces, names) for _, pieces, names, _ in self._runs.reads]

    @property
    def columns_read(self) -> list[tuple[str, tuple[str, ...]]]:
        """Columns of each read, with the file that they are of."""
        return [(path, names) for path, _, names, _ in self._runs.reads]


def section_of(*parts: SectionPart, low: bytes | None = None, high: bytes | None = None) -> Section:
    """Returns a section of parts that none before it uses, merged if there are several."""
    return Section(low=low, high=high, parts=parts, fresh=frozenset(parts), merges=len(parts) > 1)


def reader_of(
    columns: Sequence[str] = ("id", "a"),
    where: Expr | None = None,
    *,
    deletions: bool = False,
    selections: dict[str, RowSelection] | None = None,
) -> tuple[SectionReader, ScanReport]:
    """Returns a reader of these columns of rows that pass a condition, and its report."""
    bound = None if where is None else bind_where(where, SCHEMA)
    named = frozenset[str]() if bound is None else bound.columns()
    wanted = ScanOutput(
        fields=tuple(SCHEMA.field(name) for name in columns),
        where=bound,
        where_fields=tuple(field for field in SCHEMA.fields if field.name in named),
        key_fields=SCHEMA.key_fields,
        deletions=deletions,
    )
    report = ScanReport()
    size = RowSize(SCHEMA.fields, SCHEMA.fields, [])
    return SectionReader(wanted, size, report, selections, concurrency=4), report


async def test_the_newest_row_of_each_key_is_read() -> None:
    """Rows come by key, those that are hidden or deleted by newer ones do not."""
    files = Files(live(k1=10, k2=20, k4=40), live(k2=21, k3=31), gone(4))
    reader, _ = reader_of()
    found = await reader.read(section_of(files.part(0), files.part(1), files.part(2)))
    assert found.to_pydict() == {"id": [1, 2, 3], "a": [10, 21, 31]}
    assert found.schema == reader.schema


async def test_deletes_are_read_where_they_are_wanted() -> None:
    """A key whose newest row deletes it is returned as any other where deletions are asked for."""
    files = Files(live(k1=10, k2=20), gone(2))
    reader, _ = reader_of(deletions=True)
    found = await reader.read(section_of(files.part(0), files.part(1)))
    assert found.to_pydict() == {"id": [1, 2], "a": [10, None]}


async def test_deletes_of_one_run_are_left_out() -> None:
    """In a section that is not merged, rows that delete their key are no rows."""
    reader, _ = reader_of()
    found = await reader.read(section_of(Files(live(k1=10) | gone(2) | live(k3=30)).part(0)))
    assert found.to_pydict() == {"id": [1, 3], "a": [10, 30]}


async def test_a_condition_is_about_merged_rows() -> None:
    """An older row that passes is not returned in the place of a newer one that does not."""
    files = Files(live(k1=9, k2=9), live(k1=0))
    reader, _ = reader_of(where=col("a") > 5)
    found = await reader.read(section_of(files.part(0), files.part(1)))
    assert found.to_pydict() == {"id": [2], "a": [9]}


async def test_a_part_that_only_hides_is_read_for_its_keys() -> None:
    """Rows of an unwanted part hide older ones, and none of its other columns is read."""
    files = Files(live(k1=9, k2=9), live(k1=0), live(k3=8))
    reader, _ = reader_of(where=col("a") > 5)
    parts = files.part(0), files.part(1, wanted=False), files.part(2)
    found = await reader.read(section_of(*parts))
    assert found.to_pydict() == {"id": [2, 3], "a": [9, 8]}
    assert dict(files.columns_read)["f1"] == ("id",)


async def test_rows_that_are_known_to_match_are_not_asked() -> None:
    """Where all rows of a section match, the columns of the condition are not read."""
    files = Files(live(k1=9, k2=9))
    reader, _ = reader_of(["b"], col("a") > 5)
    found = await reader.read(section_of(files.part(0, matches=True)))
    assert found.to_pydict() == {"b": ["x", "x"]}
    assert files.columns_read == [("f0", ("b",))]


WIDE = "x" * 600_000
NINE: Rows = {
    at: (RowKind.INSERT, value, f"{at}{WIDE}") for at, value in enumerate([9, 0, 9, 0, 0, 0, 0, 9, 0])
}


async def test_wide_columns_are_read_of_pieces_with_rows_that_pass() -> None:
    """Where it saves much, columns that the condition does not read are fetched of the rows that pass."""
    files = Files(NINE)
    reader, _ = reader_of(["b"], col("a") > 5)
    found = await reader.read(section_of(files.part(0), low=key(1)))
    assert found.to_pydict() == {"b": [f"2{WIDE}", f"7{WIDE}"]}
    assert files.pieces_read == [((0, 1, 2), ("id", "a")), ((0, 2), ("b",))]


async def test_wide_columns_of_a_part_of_two_sections_are_those_of_its_rows() -> None:
    """A later section of a part fetches the columns of its own rows, by their numbers in the whole part."""
    part = Files(NINE).part(0, spans=True)
    reader, _ = reader_of(["b"], col("a") > 5)
    first = section_of(part, high=key(7))
    second = Section(low=key(7), high=None, parts=(part,), fresh=frozenset(), merges=False)
    assert (await reader.read(first)).to_pydict() == {"b": [f"0{WIDE}", f"2{WIDE}"]}
    assert (await reader.read(second)).to_pydict() == {"b": [f"7{WIDE}"]}


async def test_columns_come_as_they_were_asked_for() -> None:
    """Columns are returned in the order of the request, without those that only the condition reads."""
    reader, _ = reader_of(["b", "id"], col("a") > 5)
    found = await reader.read(section_of(Files(live(k1=9, k2=1)).part(0)))
    assert found.column_names == ["b", "id"]
    assert found.to_pylist() == [{"b": "x", "id": 1}]


async def test_no_columns_are_rows_all_the_same() -> None:
    """A scan that only counts gets as many rows as there are."""
    files = Files(live(k1=9, k2=1, k3=7), live(k3=8))
    reader, _ = reader_of([])
    found = await reader.read(section_of(files.part(0), files.part(1)))
    assert (found.num_columns, found.num_rows) == (0, 3)


async def test_rows_outside_the_section_are_cut_off() -> None:
    """Only rows with keys from the lower bound up to below the upper one are returned."""
    part = Files(live(k1=1, k2=2, k3=3, k4=4, k5=5)).part(0)
    reader, _ = reader_of(["a"])
    found = await reader.read(section_of(part, low=key(2), high=key(4)))
    assert found.to_pydict() == {"a": [2, 3]}


async def test_a_part_of_two_sections_is_read_once() -> None:
    """A part whose last piece reaches into the next section gives both their rows out of one read."""
    files = Files(live(k1=1, k2=2, k3=3, k4=4, k5=5, k6=6))
    part = files.part(0, spans=True)
    reader, report = reader_of(["a"])
    first = section_of(part, high=key(5))
    second = Section(low=key(5), high=None, parts=(part,), fresh=frozenset(), merges=False)
    assert (await reader.read(first)).to_pydict() == {"a": [1, 2, 3, 4]}
    assert (await reader.read(second)).to_pydict() == {"a": [5, 6]}
    assert len(files.columns_read) == 1
    assert (report.sections, report.rows_read, report.pieces_read) == (2, 6, 2)


async def test_rows_that_indexes_exclude_are_not_tested() -> None:
    """Indexes leave the rows of a file that may match, by their numbers; the condition decides on these."""
    files = Files(live(k1=9, k2=9, k3=9, k4=0))
    selections = {"f0": RowSelection.of_rows([1, 3], 4)}
    reader, _ = reader_of(where=col("a") > 5, selections=selections)
    found = await reader.read(section_of(files.part(0)))
    assert found.to_pydict() == {"id": [2], "a": [9]}
