"""Rows of published tables as Spark with Iceberg's runtime reads them, for the peers' Python.

``published.json`` of the directory names tables and their directories; the rows go to ``spark.json``.
"""

from __future__ import annotations

import json

from tests.interop.iceberg.plain_rows import plain_rows
from tests.interop.iceberg.spark_session import arguments, session


def main() -> None:
    """Reads every table and writes its rows."""
    given = arguments(__doc__)
    spark = session(given.warehouse, given.jars)
    tables = json.loads((given.warehouse / "published.json").read_text())
    found = {}
    for name, place in tables.items():
        rows = spark.read.format("iceberg").load(place["directory"]).collect()
        found[name] = plain_rows(row.asDict(recursive=True) for row in rows)
    (given.warehouse / "spark.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
