"""Plans of scans: which files are read, which for their keys alone, and which are left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.expr.bounds import Verdict
from lakehouse.format.metadata import FileEntry
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.scan.file_plan import FilePlan, Judged, overlapping, plan_files
from tests.kit.written_files import schema_of

KEYED, KEYLESS = schema_of(), schema_of(primary_key=())


def file(path: str, at: int, low: bytes = b"", high: bytes = b"", **about: Any) -> FileEntry:
    """Returns a file of keys from ``low`` to ``high`` that a commit added."""
    return FileEntry(path=path, size=1, rows=1, at=at, min_key=low, max_key=high, **about)


class Verdicts:
    """A condition that is known of files by their paths; of all others some rows match."""

    def __init__(self, known: Mapping[str, Verdict], excluded: Mapping[str, str] | None = None) -> None:
        self._known, self._excluded = known, excluded or {}

    def excludes_keys(self, entry: FileEntry) -> str | None:
        """Returns why the file has none of the keys."""
        return self._excluded.get(entry.path)

    def excludes_piece(self, entry: FileEntry, piece: Piece) -> bool:
        """Excludes nothing."""
        return False

    def judge(self, entry: FileEntry) -> tuple[Verdict, str]:
        """Returns what is known of the file."""
        return self._known.get(entry.path, Verdict.SOME), "stats"

    def judge_all(self, entries: Sequence[FileEntry]) -> Judged:
        """Returns what is known of the files."""
        return Judged.of([self.judge(entry) for entry in entries])

    def judge_piece(self, entry: FileEntry, piece: Piece) -> Verdict:
        """Returns what is known of the piece's file."""
        return self.judge(entry)[0]


def shown(plan: FilePlan) -> list[list[tuple[str, int, bool]]]:
    """Returns the files of each unit with their ages and whether their rows are wanted."""
    return [[(one.entry.path, one.age, one.wanted) for one in unit.files] for unit in plan.units]


def test_without_a_condition_every_file_is_read() -> None:
    """Files come by unit and first key, with the ages of their runs."""
    files = [file("b", 2, b"a", b"c"), file("c", 1, b"k", b"m", bucket=1), file("a", 1, b"b", b"d")]
    plan = plan_files(files, KEYED)
    assert shown(plan) == [[("b", 1, True), ("a", 0, True)], [("c", 0, True)]]
    assert (plan.considered, plan.pruned, plan.keys_only) == (3, {}, 0)


def test_a_file_without_a_match_is_read_for_its_keys_where_it_may_hide_rows() -> None:
    """A newer file that overlaps an older wanted one is read for its keys; an older one is left out."""
    files = [file("old", 1, b"a", b"c"), file("wanted", 2, b"a", b"m"), file("new", 3, b"k", b"z")]
    plan = plan_files(files, KEYED, Verdicts({"old": Verdict.NONE, "new": Verdict.NONE}))
    assert shown(plan) == [[("wanted", 1, True), ("new", 2, False)]]
    assert (plan.pruned, plan.keys_only) == ({"stats": 1}, 1)


def test_files_without_a_wanted_key_are_left_out_at_once() -> None:
    """A file that has none of the keys hides none of their rows either."""
    files = [file("old", 1, b"a", b"m"), file("new", 2, b"a", b"m")]
    plan = plan_files(files, KEYED, Verdicts({}, {"new": "bucket"}))
    assert shown(plan) == [[("old", 0, True)]]
    assert plan.pruned == {"bucket": 1}


def test_a_file_that_nothing_overlaps_is_answered_by_its_statistics() -> None:
    """Where all rows of a file match and no other file may have its keys, its entry says what it has."""
    files = [file("a", 1, b"a", b"c"), file("b", 1, b"k", b"m"), file("c", 2, b"m", b"z")]
    plan = plan_files(files, KEYED, Verdicts(dict.fromkeys("abc", Verdict.ALL)))
    answers = {one.entry.path: one.answered_by_stats for unit in plan.units for one in unit.files}
    assert answers == {"a": True, "b": False, "c": False}


def test_rows_that_are_folded_decide_for_each_other() -> None:
    """Where rows of a key are folded, a file without a match is left out only if nothing overlaps it."""
    folding = dataclasses.replace(KEYED, options={"merge_engine": "partial-update"})
    files = [file("old", 1, b"a", b"c"), file("new", 2, b"b", b"m"), file("apart", 1, b"x", b"z")]
    plan = plan_files(files, folding, Verdicts(dict.fromkeys(("old", "apart"), Verdict.NONE)))
    assert shown(plan) == [[("old", 0, True), ("new", 1, True)]]
    assert plan.pruned == {"stats": 1}


def test_files_without_keys_hide_nothing() -> None:
    """In a table without a key every file without a match is left out, the others come in order of time."""
    files = [FileEntry(path=path, size=1, rows=1, at=at) for path, at in (("c", 3), ("a", 1), ("b", 2))]
    plan = plan_files(files, KEYLESS, Verdicts({"b": Verdict.NONE}))
    assert shown(plan) == [[("a", 0, True), ("c", 0, True)]]
    assert plan.pruned == {"stats": 1}
    assert plan_files([], KEYLESS).units == ()


def test_verdicts_come_back() -> None:
    """Verdicts of many files are those of each, with the files that are kept and counts of the others."""
    verdicts = [
        (Verdict.SOME, "stats"),
        (Verdict.NONE, "index"),
        (Verdict.ALL, "stats"),
        (Verdict.NONE, "index"),
    ]
    judged = Judged.of(verdicts)
    assert list(judged) == verdicts
    assert (judged.kept(), judged.pruned()) == ([0, 2], {"index": 2})


def test_planned_files_are_grouped_by_overlap() -> None:
    """Files that may share a key are in one group."""
    files = [file("a", 1, b"a", b"c"), file("b", 2, b"c", b"d"), file("c", 3, b"e", b"f")]
    (unit,) = plan_files(files, KEYED).units
    assert [[one.entry.path for one in group] for group in overlapping(unit.files)] == [["a", "b"], ["c"]]
