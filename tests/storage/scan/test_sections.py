"""Sections of a merge unit: every wanted row in one of them, with all that may hide it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.storage.scan.sections import Chunk, Section, SectionSweep


@dataclass(eq=False)
class Run:
    """A file of one run: keys of its pieces."""

    age: int
    pieces: list[list[int]]
    wanted: list[bool] = field(default_factory=list)

    def chunks(self) -> list[Chunk]:
        """Its pieces."""
        return [
            Chunk(
                reader=self,  # type: ignore[arg-type]
                number=number,
                rows=len(keys),
                low=bytes([keys[0]]),
                high=bytes([keys[-1]]),
                age=self.age,
                wanted=self.wanted[number] if self.wanted else True,
            )
            for number, keys in enumerate(self.pieces)
        ]


def swept(runs: list[Run], target: int) -> list[Section]:
    """The sections of runs that are added by their first keys."""
    sweep = SectionSweep(target)
    files = sorted(runs, key=lambda run: run.pieces[0][0])
    found: list[Section] = []
    for at, run in enumerate(files):
        sweep.add(run.chunks())
        found += sweep.sections(bytes([files[at + 1].pieces[0][0]]) if at + 1 < len(files) else None)
    return found


def keys_in(section: Section, part: Any) -> list[int]:
    """The keys of a part that are in the section."""
    every = [key for number in part.pieces for key in part.reader.pieces[number]]
    low, high = section.low or b"", section.high
    return [key for key in every if low <= bytes([key]) and (high is None or bytes([key]) < high)]


@st.composite
def some_runs(draw: st.DrawFn) -> list[Run]:
    """Runs of a few pieces each."""
    found = []
    for age in range(draw(st.integers(1, 5))):
        keys = sorted(draw(st.sets(st.integers(0, 99), min_size=1, max_size=30)))
        step = draw(st.integers(1, 8))
        pieces = [keys[at : at + step] for at in range(0, len(keys), step)]
        found.append(Run(age, pieces, [draw(st.integers(0, 3)) > 0 for _ in pieces]))
    return found


@given(runs=some_runs(), target=st.integers(1, 60))
@settings(max_examples=300, deadline=None)
def test_every_wanted_row_is_in_one_section_with_what_hides_it(runs: list[Run], target: int) -> None:
    """Sections ascend without overlap; a wanted row is in one, and so is every newer row of its key."""
    sections = swept(runs, target)
    for before, after in itertools.pairwise(sections):
        assert before.high is not None
        assert after.low is not None
        assert before.high <= after.low
    held: dict[tuple[int, int], int] = {}
    for section in sections:
        assert list(section.parts) == sorted(section.parts, key=lambda part: (part.age, part.low))
        for part in section.parts:
            for key in keys_in(section, part):
                assert (part.age, key) not in held, "a row is in two sections"
                held[part.age, key] = id(section)
    for run in runs:
        for keys, wanted in zip(run.pieces, run.wanted, strict=True):
            for key in keys if wanted else ():
                newer = [
                    one.age for one in runs if one.age >= run.age and any(key in some for some in one.pieces)
                ]
                assert {held.get((age, key)) for age in newer} == {held[run.age, key]}


@given(runs=some_runs(), target=st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_what_overlaps_is_merged(runs: list[Run], target: int) -> None:
    """Rows of a section that is not merged are in order when its parts follow each other by first key."""
    for section in swept(runs, target):
        if not section.merges:
            parts = sorted(section.parts, key=lambda part: part.low)
            keys = [key for part in parts for key in keys_in(section, part)]
            assert keys == sorted(set(keys))


def test_a_long_run_is_cut() -> None:
    """Sections of one run have about as many rows as asked for, whatever the run has."""
    run = Run(0, [[at, at + 1] for at in range(0, 100, 2)])
    sections = swept([run], target=10)
    assert [len(section.parts[0].pieces) for section in sections] == [5] * 10
    assert not any(section.merges for section in sections)


def test_a_wide_piece_is_read_once() -> None:
    """A piece that reaches through all sections is one part of them all, fresh in the first."""
    base = Run(0, [[at, at + 1] for at in range(0, 100, 2)])
    wide = Run(1, [[0, 50, 99]])
    sections = swept([base, wide], target=20)
    parts = {part for section in sections for part in section.parts if part.reader is wide}
    assert len(parts) == 1
    assert len(sections) > 3
    assert [parts <= section.fresh for section in sections] == [True] + [False] * (len(sections) - 1)


def test_only_what_overlaps_is_merged() -> None:
    """A small run that overlaps a few pieces leaves the others of a large one as they are."""
    base = Run(0, [[at, at + 1] for at in range(0, 100, 2)])
    small = Run(1, [[40, 43]])
    sections = swept([base, small], target=20)
    merged = [section for section in sections if section.merges]
    assert len(merged) == 1
    assert sum(len(part.pieces) for section in merged for part in section.parts) < 12


def test_pieces_without_a_wanted_row_are_left_out_unless_they_hide_one() -> None:
    """Of pieces that cannot match, those above a piece that can are needed, for their keys."""
    old = Run(0, [[0, 5], [10, 15]], [True, False])
    new = Run(1, [[3, 4], [11, 12]], [False, False])
    (section,) = swept([old, new], target=100)
    assert [(part.age, part.pieces, part.wanted) for part in section.parts] == [
        (0, (0,), True),
        (1, (0,), False),
    ]
