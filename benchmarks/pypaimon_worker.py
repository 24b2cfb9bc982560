"""pypaimon in a process of its own: ``python -m benchmarks.pypaimon_worker``, by its environment's Python.

It answers what :mod:`benchmarks.table_worker` answers, and writes and reads rows of Arrow files.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from benchmarks.worker import commits, serve

_SCHEMA = pa.schema({"id": pa.int64(), "note": pa.string()})


class _Pypaimon:
    _catalog: Any
    _table: Any
    _rows: pa.Table

    def __init__(self) -> None:
        # Only the environment of this worker has it.
        import pypaimon

        self._pypaimon = pypaimon

    def connect(self, bucket: str, options: Mapping[str, Any]) -> None:
        self._catalog = self._pypaimon.CatalogFactory.create(
            {
                "warehouse": f"s3://{bucket}/paimon",
                "fs.s3.endpoint": options["endpoint_url"],
                "fs.s3.accessKeyId": options["key"],
                "fs.s3.accessKeySecret": options["secret"],
                "fs.s3.region": options.get("client_kwargs", {}).get("region_name", "us-east-1"),
            }
        )
        self._catalog.create_database("bench", True)

    def close(self) -> None:
        pass

    def create(self, name: str, keyed: bool) -> None:
        self._create(name, _SCHEMA, keyed)

    def create_for(self, name: str, path: str) -> None:
        """A table with the columns of an Arrow file's rows, whose key is the first one."""
        self.load(path)
        self._create(name, self._rows.schema, True)

    def _create(self, name: str, schema: pa.Schema, keyed: bool) -> None:
        key, *others = schema
        wanted = self._pypaimon.Schema.from_pyarrow_schema(
            pa.schema([key.with_nullable(not keyed), *others]),
            primary_keys=[key.name] if keyed else None,
            options={"bucket": "1"} if keyed else None,
        )
        self._catalog.create_table(f"bench.{name}", wanted, False)
        self.open(name)

    def open(self, name: str) -> None:
        self._table = self._catalog.get_table(f"bench.{name}")

    async def commit(self, number: int) -> None:
        row = pa.table({"id": [number], "note": [f"row {number}"]}, schema=_SCHEMA)
        await asyncio.to_thread(self._write, row)

    def _write(self, rows: pa.Table) -> None:
        key = rows.schema.field(0)
        if self._table.primary_keys:
            rows = rows.cast(rows.schema.set(0, key.with_nullable(False)))
        builder = self._table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def ids(self) -> list[int]:
        rows = self._read(["id"])
        return rows["id"].to_pylist()  # type: ignore[no-any-return]

    def _read(self, columns: list[str] | None = None) -> pa.Table:
        builder = self._table.new_read_builder()
        if columns is not None:
            builder = builder.with_projection(columns)
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    # --- rows of files --------------------------------------------------------------

    def load(self, path: str) -> None:
        """Rows for the next write."""
        with pa.OSFile(path) as file:
            self._rows = pa.ipc.open_file(file).read_all()

    def write(self) -> None:
        """Writes the rows that were loaded, in one commit."""
        self._write(self._rows)

    def scan(self) -> int:
        """Reads all rows; how many there are."""
        return self._read().num_rows  # type: ignore[no-any-return]

    def held(self) -> list[int]:
        """Rows, files and bytes of the table."""
        splits = self._table.new_read_builder().new_scan().plan().splits()
        files = [file for split in splits for file in split.files]
        return [sum(file.row_count for file in files), len(files), sum(file.file_size for file in files)]


async def main() -> None:
    """Answers until nobody asks any more."""
    # It warns of every lost race, of which there are as many as commits.
    logging.getLogger("pypaimon").setLevel(logging.CRITICAL)
    side = _Pypaimon()
    names = ("connect", "create", "create_for", "open", "ids", "close", "load", "write", "scan", "held")
    do = {name: getattr(side, name) for name in names}
    await serve({**do, "commit": functools.partial(commits, side.commit)})


if __name__ == "__main__":
    asyncio.run(main())
