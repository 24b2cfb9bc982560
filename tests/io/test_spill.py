"""Rows put aside on disk: what comes back, and that nothing stays."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakehouse.io.spill import Spill


def test_tables_come_back_in_batches(tmp_path: Path) -> None:
    """Rows of each table are read again in their order, and the last batch is known as such."""
    spill = Spill(str(tmp_path))
    tables = [pa.table({"a": range(10), "b": ["x"] * 10}), pa.table({"a": range(3), "b": ["y"] * 3})]
    numbers = [spill.put(table, 4) for table in tables]
    for number, table in zip(numbers, tables, strict=True):
        batches = list(spill.batches(number))
        assert pa.concat_tables([rows for rows, _ in batches]).equals(table)
        assert [more for _, more in batches] == [True] * (len(batches) - 1) + [False]
        assert max(rows.num_rows for rows, _ in batches) <= 4
    spill.close()


def test_nothing_stays(tmp_path: Path) -> None:
    """Closing deletes what was put aside; where nothing was, nothing was made."""
    spill = Spill(str(tmp_path))
    assert not list(tmp_path.iterdir())
    spill.put(pa.table({"a": [1]}), 1)
    assert list(tmp_path.iterdir())
    spill.close()
    assert not list(tmp_path.iterdir())
    Spill(str(tmp_path)).close()
