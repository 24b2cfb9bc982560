"""Histories of tables as hypothesis draws them: runs of rows, compacted, overwritten, rolled back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry, Position, RowKind
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive, StringType
from tests.kit.memory_runs import MemoryRuns

__all__ = ["ROW_KEYS", "SCHEMA", "History", "Lineage", "histories", "lineages", "run_table"]

SCHEMA = TableSchema(
    fields=(
        Field(id=1, name="id", type=Primitive("int64"), required=True),
        Field(id=2, name="a", type=Primitive("int64")),
        Field(id=3, name="b", type=StringType()),
    ),
    primary_key=("id",),
    highest_field_id=3,
)
ROW = st.tuples(
    st.sampled_from([RowKind.INSERT, RowKind.INSERT, RowKind.DELETE]),
    st.none() | st.integers(0, 9),
    st.sampled_from(["", "x", "yy", None]),
)
ROW_KEYS = st.integers(0, 40)
RUN = st.dictionaries(ROW_KEYS, ROW, min_size=1, max_size=25)


def run_table(rows: dict[int, tuple[RowKind, int | None, str | None]]) -> pa.Table:
    """The rows as a run."""
    keys = sorted(rows)
    deleted = [rows[key][0] == RowKind.DELETE for key in keys]
    columns: list[Any] = [
        pa.array(keys, pa.int64()),
        pa.array(
            [None if gone else rows[key][1] for key, gone in zip(keys, deleted, strict=True)], pa.int64()
        ),
        pa.array(
            [None if gone else rows[key][2] for key, gone in zip(keys, deleted, strict=True)], pa.string()
        ),
    ]
    table = pa.table(columns, schema=SCHEMA.arrow())
    if any(deleted):
        kinds = pa.array([int(rows[key][0]) for key in keys], pa.int8())
        table = table.append_column(KIND_COLUMN, kinds)
    return table


History = tuple[list[FileEntry], MemoryRuns, list[pa.Table]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Runs as commits left them and adjacent compactions merged them: entries, files, and the commits."""
    runs = MemoryRuns(SCHEMA, piece_rows=draw(st.integers(1, 6)))
    commits = draw(st.lists(RUN, min_size=1, max_size=6))
    shapes = [((at, 1, 0), (at, 1, 0), rows) for at, rows in enumerate(commits, start=2)]
    for _ in range(draw(st.integers(0, 2))):
        first = draw(st.integers(0, len(shapes) - 1))
        last = draw(st.integers(first, len(shapes) - 1))
        folded: dict[int, Any] = {}
        for _, _, rows in shapes[first : last + 1]:
            folded.update(rows)
        if first == 0:
            folded = {key: row for key, row in folded.items() if row[0] != RowKind.DELETE}
        shapes[first : last + 1] = [(shapes[first][0], shapes[last][1], folded)]
    entries = []
    for lo, hi, rows in shapes:
        keys = sorted(rows)
        if draw(st.booleans()):  # as a commit to several partitions: files of one run that overlap
            parts = [[key for key in keys if rows[key][2] == text] for text in ("", "x", "yy", None)]
        else:
            cut = draw(st.integers(1, max(1, len(keys))))
            parts = [keys[:cut], keys[cut:]]
        entries += [
            runs.add(run_table({key: rows[key] for key in part}), lo=lo, hi=hi) for part in parts if part
        ]
    return draw(st.permutations(entries)), runs, [run_table(rows) for rows in commits]


@dataclass
class Lineage:
    """Snapshots of one table: the live files of each, and its rows by key."""

    runs: MemoryRuns
    files: list[list[FileEntry]] = field(default_factory=lambda: [[]])
    states: list[dict[int, dict[str, Any]]] = field(default_factory=lambda: [{}])


_Shape = tuple[Position, Position, dict[int, Any]]


def _fold(shapes: list[_Shape]) -> dict[int, Any]:
    folded: dict[int, Any] = {}
    for _, _, rows in shapes:
        folded.update(rows)
    return folded


@st.composite
def lineages(draw: st.DrawFn) -> Lineage:
    """Commits, adjacent compactions, overwrites and rollbacks, one snapshot each."""
    found = Lineage(MemoryRuns(SCHEMA, piece_rows=draw(st.integers(1, 6))))
    shapes: list[list[tuple[_Shape, FileEntry]]] = [[]]
    for number in range(1, draw(st.integers(2, 8))):
        live = list(shapes[-1])
        step = draw(st.sampled_from(["commit", "commit", "compact", "overwrite", "rollback"]))
        own = (number, 1, 0)
        if step == "rollback":
            live = list(draw(st.sampled_from(shapes)))
        elif step == "compact" and live:
            first = draw(st.integers(0, len(live) - 1))
            last = draw(st.integers(first, len(live) - 1))
            inputs = [shape for shape, _ in live[first : last + 1]]
            rows = _fold(inputs)
            if first == 0:
                rows = {key: row for key, row in rows.items() if row[0] != RowKind.DELETE}
            output: _Shape = (inputs[0][0], inputs[-1][1], rows)
            live[first : last + 1] = [(output, _file(found.runs, output))] if rows else []
        else:
            shape: _Shape = (own, own, draw(RUN))
            live = [*([] if step == "overwrite" else live), (shape, _file(found.runs, shape))]
        shapes.append(live)
        state = _fold([shape for shape, _ in live])
        table = run_table({key: row for key, row in state.items() if row[0] != RowKind.DELETE})
        found.files.append([entry for _, entry in live])
        found.states.append({row["id"]: row for row in table.to_pylist()})
    return found


def _file(runs: MemoryRuns, shape: _Shape) -> FileEntry:
    return runs.add(run_table(shape[2]), lo=shape[0], hi=shape[1])
