"""Data files are opened by what their entry says of their format."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakehouse.errors import CorruptionError
from lakehouse.format.metadata.file_entry import FileFormat
from lakehouse.format.sstable.writer import SstableOptions, encode_sstable
from lakehouse.storage.files.open import open_run
from lakehouse.storage.files.parquet import ParquetRun
from lakehouse.storage.files.sstable import SstableRun
from tests.kit.parquet_files import ROOT, stored
from tests.kit.parquet_samples import FIELDS, KEYED, many_rows


async def test_each_format_has_its_reader() -> None:
    """Parquet files and SSTables give the same rows through the readers of their formats."""
    rows = many_rows(50)
    file = await stored(rows, KEYED)
    run = await open_run(file.store, ROOT, file.entry, KEYED, file.caches)
    assert isinstance(run, ParquetRun)
    assert (await run.read(FIELDS)).equals(rows)
    table = bytes(encode_sstable(rows, KEYED, SstableOptions()))
    entry = replace(file.entry, path="data/b.sst", format=FileFormat.SSTABLE, size=len(table), checksum=None)
    await file.store.put(f"{ROOT}/{entry.path}", table)
    run = await open_run(file.store, ROOT, entry, KEYED, file.caches)
    assert isinstance(run, SstableRun)
    assert (await run.read(FIELDS)).equals(rows)


@pytest.mark.parametrize("root", ["", "a/b"])
async def test_a_table_may_be_the_root_of_the_store(root: str) -> None:
    """Paths are relative to the table's directory, which may be the store itself."""
    file = await stored(many_rows(5), KEYED)
    await file.store.put(f"{root}/{file.entry.path}".lstrip("/"), file.data)
    run = await open_run(file.store, root, file.entry, KEYED, file.caches)
    assert (await run.read(FIELDS)).equals(many_rows(5))


async def test_a_file_of_the_other_format_is_refused() -> None:
    """An SSTable under a Parquet entry is corruption that names the object."""
    file = await stored(many_rows(50), KEYED)
    table = bytes(encode_sstable(many_rows(50), KEYED, SstableOptions()))
    await file.put(table)
    entry = replace(file.entry, size=len(table))
    with pytest.raises(CorruptionError, match=file.entry.path):
        await open_run(file.store, ROOT, entry, KEYED, file.caches)
