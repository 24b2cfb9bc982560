"""Parquet runs: encoded next to delta-rs and pyarrow, decoded next to pyarrow, single rows looked up.

Writing is rows in memory to a file on a local disk, as far as a table format's own log is not
concerned: delta-rs writes a table of one commit, pyarrow a file, lakehouse a run through its store.
Rows are sorted by an int64 key, beside which stand an integer, a double and a text of few or no
repetitions. Reading is from memory, so that decoding is what is measured.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, ratio_text, seconds_text
from lakehouse.cache import CacheBudget
from lakehouse.config import IoSettings
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive, StringType
from lakehouse.io import ObjectStore, open_store
from lakehouse.storage.files.parquet import ParquetRun, open_parquet
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.testing import memory_store

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Parquet runs: write, read, look up"

_OURS = "lakehouse"
_DELTA = "delta-rs"
_PYARROW = "pyarrow"
_WRITE_GOAL = 1.3
_READ_GOAL = 1.3
_WARM_GOAL_S = 100e-6
_LOOKUPS = 200
_SCHEMA = TableSchema(
    fields=(
        Field(id=1, name="id", type=Primitive("int64"), required=True),
        Field(id=2, name="ver", type=Primitive("int64")),
        Field(id=3, name="amt", type=Primitive("double")),
        Field(id=4, name="note", type=StringType()),
    ),
    primary_key=("id",),
    highest_field_id=4,
)


async def run(plan: Plan) -> Report:
    """Writes, reads, looks up."""
    results: list[Result] = []
    sizes: dict[str, float] = {}
    for count in plan.pick(quick=(100_000,), default=(1_000_000,), full=(1_000_000, 10_000_000)):
        rows = _rows(count)
        say(f"parquet_run: write {count:,} rows")
        results += await _writes(plan, rows, sizes)
        if count <= 1_000_000:
            say(f"parquet_run: read {count:,} rows")
            results += await _reads(plan, rows)
            results += await _lookups(plan, rows)
    return Report(
        name="parquet_run",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            "delta-rs: write_deltalake with its defaults (snappy); pyarrow: write_table with its defaults.",
            "Files are neither flushed to the disk nor waited for, by any side.",
            f"A lookup is the mean of {_LOOKUPS}; cold = the row group is fetched from memory and decoded.",
        ),
        facts={"bytes_per_row": sizes},
    )


def _rows(count: int) -> pa.Table:
    random = np.random.default_rng(5)
    ids = np.sort(random.choice(4 * count, count, replace=False))
    notes = np.char.add("note-", (ids % 100_000).astype("U6"))
    columns = [
        pa.array(ids),
        pa.array(random.integers(0, 1000, count)),
        pa.array(random.random(count)),
        notes,
    ]
    return pa.table([pa.array(column) for column in columns], schema=_SCHEMA.arrow())


# --- writing -------------------------------------------------------------------------


async def _writes(plan: Plan, rows: pa.Table, sizes: dict[str, float]) -> list[Result]:
    home = Path(tempfile.mkdtemp(prefix="lakehouse-bench-"))
    try:
        async with open_store(f"file://{home}/ours", settings=IoSettings(fsync=False)) as store:

            async def ours() -> None:
                await store.put("file.parquet", memoryview(encode_parquet(rows, _SCHEMA, ParquetOptions())))

            writers: dict[str, tuple[Callable[[], Any], Path]] = {
                _OURS: (ours, home / "ours"),
                _PYARROW: (lambda: pq.write_table(rows, home / "plain.parquet"), home / "plain.parquet"),
            }
            if (delta := _delta_writer()) is not None:
                writers[_DELTA] = (lambda: delta(str(home / "delta"), rows), home / "delta")
            cases = [
                Case(side=side, run=write, before=lambda path=path: _remove(path))
                for side, (write, path) in writers.items()
            ]
            results = await compare(
                cases,
                work=rows.num_rows,
                unit="rows",
                params={"what": "write", "rows": rows.num_rows},
                warmup=plan.warmup,
                repeats=plan.repeats + 2,
            )
            for side, (_, path) in writers.items():
                sizes[side] = _size(path) / rows.num_rows
            return results
    finally:
        shutil.rmtree(home)


def _delta_writer() -> Callable[[str, pa.Table], None] | None:
    """What writes rows as a Delta table, where it is installed."""
    try:
        from deltalake import write_deltalake
    except ImportError:
        return None
    return write_deltalake  # type: ignore[no-any-return]


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    """Bytes of the Parquet files there."""
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*.parquet")))


# --- reading -------------------------------------------------------------------------


async def _open(rows: pa.Table, group_rows: int) -> tuple[ParquetRun, ObjectStore, RunCaches, bytes]:
    """The rows as a file in memory, opened."""
    data = encode_parquet(rows, _SCHEMA, ParquetOptions(row_group_rows=group_rows)).to_pybytes()
    low, high = _keys(rows, [0, rows.num_rows - 1])
    entry = FileEntry(path="file.parquet", size=len(data), rows=rows.num_rows, min_key=low, max_key=high)
    store, caches = memory_store(), RunCaches(CacheBudget())
    await store.put(entry.path, data)
    return await open_parquet(store, "", entry, _SCHEMA, caches), store, caches, data


def _keys(rows: pa.Table, places: list[int]) -> list[bytes]:
    return RowKeyCodec(_SCHEMA.key_fields).encode([rows["id"].take(places)]).to_pylist()  # type: ignore[no-any-return]


async def _reads(plan: Plan, rows: pa.Table) -> list[Result]:
    run, _, _, data = await _open(rows, ParquetOptions().row_group_rows)
    results: list[Result] = []
    for names, fields in (("all", _SCHEMA.fields), ("id, ver", _SCHEMA.fields[:2])):
        columns = [field.name for field in fields]
        assert (await run.read(fields)).equals(rows.select(columns))
        results += await compare(
            [
                Case(side=_OURS, run=lambda fields=fields: run.read(fields)),
                Case(
                    side=_PYARROW,
                    run=lambda columns=columns: pq.read_table(pa.BufferReader(data), columns=columns),
                ),
            ],
            work=rows.num_rows,
            unit="rows",
            params={"what": "read", "columns": names},
            warmup=plan.warmup,
            repeats=plan.repeats + 4,
        )
    return results


async def _lookups(plan: Plan, rows: pa.Table) -> list[Result]:
    """The same key again and again, with and without what the last lookup left behind."""
    results: list[Result] = []
    for group_rows in (16_384, 131_072):
        run, _, caches, _ = await _open(rows, group_rows)
        (key,) = _keys(rows, [rows.num_rows // 2])

        async def cold(run: ParquetRun = run, caches: RunCaches = caches, key: bytes = key) -> None:
            for _ in range(_LOOKUPS // 20):
                caches.blocks.invalidate_all()
                await run.get(key, _SCHEMA.fields)

        async def warm(run: ParquetRun = run, key: bytes = key) -> None:
            for _ in range(_LOOKUPS):
                await run.get(key, _SCHEMA.fields)

        for what, look_up, times in (("cold", cold, _LOOKUPS // 20), ("warm", warm, _LOOKUPS)):
            results += await compare(
                [Case(side=_OURS, run=look_up)],
                work=times,
                unit="lookups",
                params={"what": f"lookup, {what}", "row_group_rows": group_rows},
                warmup=plan.warmup,
                repeats=plan.repeats,
            )
    return results


# --- what it says --------------------------------------------------------------------


def goals(report: Report) -> list[Goal]:
    """Writing next to delta-rs, reading (fetch and checks included) next to pyarrow, a warm lookup."""
    found = []
    for ours in report.where(what="write", side=_OURS):
        for theirs in report.where(what="write", side=_DELTA, rows=ours.params["rows"]):
            times = ratio(theirs, ours)
            found.append(
                Goal(
                    text=f"writing {ours.params['rows']:,} rows, time to delta-rs's",
                    target=f"≤ {_WRITE_GOAL}",
                    measured=ratio_text(times),
                    met=times.median <= _WRITE_GOAL,
                )
            )
    for ours in report.where(what="read", side=_OURS):
        times = ratio(report.one(what="read", side=_PYARROW, columns=ours.params["columns"]), ours)
        found.append(
            Goal(
                text=f"reading columns {ours.params['columns']}, time to pyarrow's",
                target=f"≤ {_READ_GOAL}",
                measured=ratio_text(times),
                met=times.median <= _READ_GOAL,
            )
        )
    warm = min(report.where(what="lookup, warm"), key=lambda result: result.wall.median)
    each = warm.wall.median / warm.work
    found.append(
        Goal(
            text="a warm lookup",
            target=f"≤ {seconds_text(_WARM_GOAL_S)}",
            measured=seconds_text(each),
            met=each <= _WARM_GOAL_S,
        )
    )
    return found


def tables(report: Report) -> list[Table]:
    """Rates of writing and reading, bytes a row takes, and lookups."""
    return [
        pivot(
            report.where(what="write"),
            title="Write: million rows per second",
            rows="rows",
            columns="side",
            cell=lambda r: f"{r.rate / 1e6:.2f}",
        ),
        Table(
            title="Bytes per row",
            header=tuple(report.facts["bytes_per_row"]),
            rows=(tuple(f"{size:.2f}" for size in report.facts["bytes_per_row"].values()),),
        ),
        pivot(
            report.where(what="read"),
            title="Read: million rows per second",
            rows="columns",
            columns="side",
            cell=lambda r: f"{r.rate / 1e6:.2f}",
        ),
        pivot(
            [*report.where(what="lookup, cold"), *report.where(what="lookup, warm")],
            title="Lookup of a row",
            rows="row_group_rows",
            columns="what",
            cell=lambda r: seconds_text(r.wall.median / r.work),
        ),
    ]
