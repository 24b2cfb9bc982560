"""Rows of published tables as DuckDB's Iceberg extension reads them, for its own environment's Python.

``published.json`` of the directory names tables and their metadata files; the rows go to ``duckdb.json``.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from tests.interop.iceberg.plain_rows import plain_rows


def main() -> None:
    """Reads every table and writes its rows."""
    # Only the environment of this program has them.
    duckdb, extensions = map(importlib.import_module, ("duckdb", "duckdb_extensions"))

    place = Path(sys.argv[1])
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in ("avro", "iceberg"):
        extensions.import_extension(name)
        connection.execute(f"LOAD {name}")
    found = {}
    for name, table in json.loads((place / "published.json").read_text()).items():
        answer = connection.execute(f"SELECT * FROM iceberg_scan('{table['metadata']}')")
        columns = [column[0] for column in answer.description]
        found[name] = plain_rows(dict(zip(columns, row, strict=True)) for row in answer.fetchall())
    (place / "duckdb.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
