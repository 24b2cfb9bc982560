"""DuckLake in a process of its own: ``python -m benchmarks.ducklake_worker``, by its environment's Python.

Its catalog is a DuckDB file beside the process, its data goes to the bucket: the quickest set-up there is
for one process, with everything else as it comes.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.worker import serve


class _DuckLake:
    def __init__(self) -> None:
        # Only the environment of this worker has them.
        import duckdb
        from duckdb_extensions import import_extension

        for name in ("ducklake", "httpfs"):
            import_extension(name)
        self._home = tempfile.TemporaryDirectory(prefix="ducklake-")
        self._connection = duckdb.connect()
        for name in ("ducklake", "httpfs"):
            self._connection.execute(f"LOAD {name}")

    def connect(self, bucket: str, options: Mapping[str, Any]) -> None:
        scheme, _, host = options["endpoint_url"].partition("://")
        secure = str(scheme == "https").lower()
        self._connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{options['key']}', SECRET '{options['secret']}', "
            f"ENDPOINT '{host}', URL_STYLE 'path', USE_SSL {secure}, REGION 'us-east-1')"
        )
        catalog = Path(self._home.name) / "catalog.ducklake"
        self._connection.execute(f"ATTACH 'ducklake:{catalog}' AS lake (DATA_PATH 's3://{bucket}/ducklake/')")
        self._connection.execute("CREATE TABLE lake.t (id BIGINT, a VARCHAR, b DOUBLE)")

    def insert(self, first: int, count: int, batch: int) -> float:
        """Rows in batches, each durable before the next; seconds they took."""
        began = time.perf_counter()
        for at in range(first, first + count, batch):
            self._connection.execute(
                f"INSERT INTO lake.t SELECT i, 'name', i / 2 FROM range({at}, {at + batch}) rows(i)"
            )
        return time.perf_counter() - began

    def count(self) -> int:
        found = self._connection.execute("SELECT count(*) FROM lake.t").fetchone()
        assert found is not None
        return int(found[0])

    def close(self) -> None:
        self._connection.close()
        self._home.cleanup()


async def main() -> None:
    """Answers until nobody asks any more."""
    side = _DuckLake()
    await serve({name: getattr(side, name) for name in ("connect", "insert", "count", "close")})


if __name__ == "__main__":
    asyncio.run(main())
