"""Reports of scans: what they count, and how they are told."""

from __future__ import annotations

from typing import Any

from lakehouse.io.cost import Cost
from lakehouse.storage.scan.report import ScanReport
from lakehouse.storage.scan.sections import Section, SectionPart


def part(*piece_rows: int) -> SectionPart:
    """Returns a part of pieces with so many rows."""
    reader: Any = None
    return SectionPart(
        reader=reader,
        pieces=tuple(range(len(piece_rows))),
        piece_rows=piece_rows,
        low=b"",
        high=b"",
        age=0,
        wanted=True,
        matches=False,
        spans=False,
    )


def test_sections_are_counted_as_they_are_read() -> None:
    """A section counts with the rows and pieces of its fresh parts; shared ones were counted before."""
    report = ScanReport()
    shared, second = part(5, 3), part(2)
    report.saw(Section(low=None, high=b"k", parts=(shared,), fresh=frozenset([shared]), merges=False))
    report.saw(Section(low=b"k", high=None, parts=(shared, second), fresh=frozenset([second]), merges=True))
    assert (report.sections, report.sections_merged) == (2, 1)
    assert (report.rows_read, report.pieces_read) == (10, 3)


def test_a_report_as_plain_data_says_how_many_files_were_read() -> None:
    """Files read are those that were not pruned; the cost stands among the fields."""
    cost = Cost()
    cost.record("get", 0.5, bytes_read=100)
    plain = ScanReport(files=9, files_pruned={"stats": 4, "index": 2}, rows=7, cost=cost).as_dict()
    assert (plain["files"], plain["files_read"], plain["rows"]) == (9, 3, 7)
    assert plain["files_pruned"] == {"stats": 4, "index": 2}
    assert (plain["requests"], plain["bytes_read"]) == ({"get": 1}, 100)
    assert "cost" not in plain


def test_a_report_is_told_in_a_sentence() -> None:
    """Reasons of pruning are told in the order of their names, and rows with marks between thousands."""
    report = ScanReport(
        files=9,
        files_pruned={"stats": 4, "index": 2},
        files_keys_only=1,
        sections=3,
        sections_merged=2,
        rows_read=12_345,
        rows=1_000,
    )
    assert str(report).startswith(
        "9 files, 2 by index, 4 by stats pruned, 1 for their keys; 3 sections, 2 merged; "
        "12,345 rows read, 1,000 returned; "
    )
    assert str(ScanReport(files=1)).startswith("1 files, none pruned, ")
