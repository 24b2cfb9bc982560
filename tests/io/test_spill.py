"""Rows put aside on disk: what comes back, and that nothing stays."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.errors import UnavailableError
from lakehouse.io.spill import PrivateDirectory, Spill


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


def test_a_private_directory_is_entered_by_its_user_only(tmp_path: Path) -> None:
    """A directory for a library's own files is private, and gone with what is in it when it is closed."""
    directory = PrivateDirectory(str(tmp_path))
    made = Path(directory.path)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    (made / "spilled").write_bytes(b"x")
    directory.close()
    directory.close()
    assert not list(tmp_path.iterdir())


def test_a_private_directory_that_is_dropped_is_gone(tmp_path: Path) -> None:
    """A directory that nothing refers to any more is deleted, though nobody closed it."""
    directory = PrivateDirectory(str(tmp_path))
    assert list(tmp_path.iterdir())
    del directory
    assert not list(tmp_path.iterdir())


def test_a_child_leaves_private_directories_to_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forked process deletes no directory of its parent."""
    directory = PrivateDirectory(str(tmp_path))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    directory.close()
    assert list(tmp_path.iterdir())


def test_a_private_directory_needs_a_place(tmp_path: Path) -> None:
    """A place that is not there is told by its path."""
    with pytest.raises(UnavailableError, match="missing"):
        PrivateDirectory(str(tmp_path / "missing"))
