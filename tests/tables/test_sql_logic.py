"""Files of statements with their answers, run against a lake in memory and on an object store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lakehouse
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.testing import memory_store
from tests.kit.slt import read_slt, run_slt

_FILES = sorted((Path(__file__).parents[1] / "data" / "slt").glob("*.slt"))


class _LakeWorld:
    """A lake, whose tables get rows that DuckDB makes."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    async def rows(self, text: str) -> Sequence[Sequence[Any]]:
        """Runs a text and returns the rows of its last statement."""
        rows = await (await self._lake.sql(text)).to_arrow()
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    async def make(self, verb: str, name: str, options: Mapping[str, str], text: str) -> None:
        """Makes a table, or changes its rows."""
        if verb == "delete":
            await (await self._lake.table(name)).delete(where=text)
            return
        # A connection of its own: that of the module is everybody's.
        with duckdb.connect() as connection:
            made: pa.Table = connection.sql(text).to_arrow_table()
        if verb == "table":
            await self._lake.create_database(name.partition(".")[0], if_not_exists=True)
            how = {
                "primary_key": [part for part in options.get("key", "").split(",") if part],
                "partition_by": [part for part in options.get("partition", "").split(",") if part],
                "bucket": int(options.get("bucket", 1)),
            }
            await self._lake.create_table(name, made.schema, **how)  # type: ignore[arg-type]
        table = await self._lake.table(name)
        await (table.upsert if verb == "upsert" else table.append)(made)


@pytest.mark.parametrize("path", _FILES, ids=[path.stem for path in _FILES])
async def test_statements_answer_as_their_file_says_in_memory(path: Path) -> None:
    """Every record of a file holds over a store in memory."""
    async with Lake(stacked(memory_store())) as lake:
        assert await run_slt(read_slt(path), _LakeWorld(lake)) > 10


async def test_statements_answer_as_their_file_says_on_an_object_store(
    bucket_url: str, storage_options: dict[str, Any]
) -> None:
    """Every record of all files holds over S3."""
    for path in _FILES:
        url = f"{bucket_url}/{path.stem}"
        async with lakehouse.connect(url, storage_options=storage_options) as lake:
            assert await run_slt(read_slt(path), _LakeWorld(lake)) > 10


async def test_a_wrong_answer_fails_and_says_where(tmp_path: Path) -> None:
    """A record whose answer differs is an error with its file and line."""
    path = tmp_path / "wrong.slt"
    path.write_text("query I\nSELECT 1\n----\n2\n")
    async with Lake(stacked(memory_store())) as lake:
        with pytest.raises(AssertionError, match=r"wrong\.slt:1: "):
            await run_slt(read_slt(path), _LakeWorld(lake))
