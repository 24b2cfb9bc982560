"""Large Iceberg tables of the benchmark are what pyiceberg reads them as."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import FileScanTask, StaticTable

from benchmarks.iceberg_manifests import ManyFiles


def _put(objects: Iterable[tuple[str, bytes]], directory: Path) -> None:
    for key, content in objects:
        path = directory / key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def _planned(table: ManyFiles, directory: Path, value: int | None = None) -> list[FileScanTask]:
    opened = StaticTable.from_metadata(str(directory / table.metadata_key))
    scan = opened.scan() if value is None else opened.scan(row_filter=EqualTo("id", value))
    return list(scan.plan_files())


@pytest.mark.parametrize("specs", [1, 3])
def test_every_file_is_found_by_its_ids(tmp_path: Path, specs: int) -> None:
    """Each entry is a file of its own, with its range of ids and a partition of its manifest's spec."""
    table = ManyFiles(location=f"file://{tmp_path}", manifests=5, entries=4, specs=specs)
    _put(table.objects(), tmp_path)
    tasks = _planned(table, tmp_path)
    assert len({task.file.file_path for task in tasks}) == table.files == 20
    assert {len(task.file.file_path) for task in tasks} == {table.path_length}
    assert {task.file.spec_id for task in tasks} == set(range(specs))
    for file in (0, 7, 19):
        least, most = table.ids_of(file)
        (one,), (other,) = _planned(table, tmp_path, least), _planned(table, tmp_path, most)
        assert one.file.file_path == other.file.file_path


def test_a_commit_adds_one_file(tmp_path: Path) -> None:
    """The commit keeps every manifest and adds one of one entry, in the same metadata file."""
    table = ManyFiles(location=f"file://{tmp_path}", manifests=3, entries=4, specs=3)
    _put(table.objects(), tmp_path)
    added = dict(table.added_objects())
    assert len(added) == 3
    _put(added.items(), tmp_path)
    assert len(_planned(table, tmp_path)) == table.files + 1
    assert len(_planned(table, tmp_path, table.ids_of(table.files)[0])) == 1
