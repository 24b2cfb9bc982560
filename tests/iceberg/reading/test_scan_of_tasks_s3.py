"""Tables in a bucket: copied there from where Spark wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse import iceberg
from lakehouse.io import measure, open_store
from tests.interop.iceberg.answers import plain
from tests.kit.iceberg_spark_tables import spark_table

_ROOT = Path(__file__).parents[2] / "data" / "iceberg"


async def _copied(name: str, url: str, options: dict[str, Any]) -> None:
    async with open_store(url, storage_options=options) as store:
        for path in (_ROOT / name).rglob("*"):
            if path.is_file():
                await store.put(path.relative_to(_ROOT / name).as_posix(), path.read_bytes())


@pytest.mark.parametrize("name", ["orc", "vectors", "position_deletes"])
async def test_a_copy_in_a_bucket_has_the_rows(
    name: str, bucket_url: str, storage_options: dict[str, Any]
) -> None:
    """Keys with percent signs, ranged reads of vectors and delete files work as they do on a disk."""
    url = f"{bucket_url}/copied tables/{name}"
    await _copied(name, url, storage_options)
    async with spark_table(name) as there:
        expected = there.expected["current"]["rows"]
    async with await iceberg.open(url, storage_options=storage_options, moved=True) as table:
        with measure() as cost:
            rows = (await table.scan().to_arrow()).to_pylist(maps_as_pydicts="strict")
        found = [[plain(value) for value in row.values()] for row in sorted(rows, key=lambda row: row["id"])]
        assert found == expected
        assert set(cost.by_kind()) == {"get"}
        with measure() as again:
            assert await table.scan("id < 5").count() == sum(row[0] < 5 for row in expected)
        assert sum(again.by_kind().values()) < sum(cost.by_kind().values())
