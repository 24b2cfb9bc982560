"""Exceptions to the rules, each with its reason. These lists only shrink.

A guard fails on what is not listed here, and on what is listed here and no longer
there. Before you add a line, try to do without it; then write the reason.
"""

from __future__ import annotations

__all__ = [
    "ASSERTS",
    "BROAD_EXCEPTS",
    "IO_MARKS",
    "LAZY_IMPORTS",
    "PRINTS",
    "SHARED_NAMES",
    "Allowance",
]

Allowance = dict[str, tuple[int, str]]
"""Path of a file: how often it may, and why."""

LAZY_IMPORTS: Allowance = {
    "lakehouse/cli/app.py": (1, "of the commands only the one that is called is loaded"),
    "lakehouse/cli/demo/run.py": (1, "Spark may not be there; then the demo says so and ends"),
    "lakehouse/cli/spark.py": (1, "Spark is loaded by the commands that need it, and by no other"),
    "lakehouse/doors.py": (1, "names that a package gives out are loaded when they are first used"),
    "lakehouse/io/open.py": (2, "a backend is loaded when its scheme is opened; memory:// needs no s3fs"),
}
"""Imports of our own modules inside functions, and imports of a module whose name is computed."""

BROAD_EXCEPTS: Allowance = {
    "lakehouse/cache/flight.py": (1, "the top of a task: whoever waits for the load raises what it caught"),
    "lakehouse/errors.py": (1, "a value's own __reduce__ may raise anything, and the error must travel"),
    "lakehouse/io/work/background.py": (1, "the top of a task that nobody waits for: it is logged"),
    "lakehouse/iceberg/catalogs/errors.py": (
        1,
        "the border to pyiceberg and the libraries below it, whose errors share no root",
    ),
    "lakehouse/iceberg/catalogs/properties.py": (
        1,
        "a user's function that gives credentials: its error may repeat them, its sort alone is told",
    ),
    "lakehouse/io/work/fanout.py": (1, "an item's failure is handed to whoever consumes the results"),
    "lakehouse/sql/engine/failures.py": (
        1,
        "the border to DuckDB, whose Python layer raises errors without a common root",
    ),
    "lakehouse/sync/bridge.py": (1, "the top of a task: whoever called from another thread raises it"),
}
"""Handlers that swallow every error, outside ``lakehouse/io/backends``."""

IO_MARKS: Allowance = {
    "lakehouse/cli/sql/shell.py": (1, "the directory of the shell's history, on the machine of its user"),
    "lakehouse/cli/row_stream.py": (1, "a ParquetWriter over a sink in memory"),
    "lakehouse/format/metadata/manifest.py": (3, "Parquet over bytes in memory, both ways"),
    "lakehouse/format/limits/parquet_bounds.py": (1, "batches of a ParquetFile over bytes in memory"),
    "lakehouse/format/parquet/decode.py": (1, "a ParquetFile over bytes in memory"),
    "lakehouse/format/parquet/file_footer.py": (1, "read_metadata of bytes in memory"),
    "lakehouse/format/parquet/writer.py": (2, "a ParquetWriter over a sink in memory, and what it writes"),
    "lakehouse/format/metadata/wal_segment.py": (1, "an Arrow stream into a sink in memory"),
    "lakehouse/iceberg/reading/whole_files.py": (1, "an ORCFile over bytes in memory"),
    "lakehouse/spark/runtime/table_blobs.py": (1, "an Arrow stream into a sink in memory"),
    "lakehouse/java.py": (1, "which program of the machine is Java"),
    "lakehouse/cli/doctor.py": (1, "which program of the machine is Go"),
    "lakehouse/cli/tables/row_files.py": (1, "a ParquetFile over an object of a store"),
    "lakehouse/spark/runtime/worker_memory.py": (
        1,
        "how much address space a process has, the system tells by a path",
    ),
}
"""Lines marked ``# io-ok``: they look like opening a path and open none."""

PRINTS: Allowance = {
    "lakehouse/testing/proxy.py": (2, "a process of its own, which answers its owner through stdout"),
}
"""Calls of ``print`` outside the command line."""

ASSERTS: dict[str, int] = {
    "lakehouse/cache/eviction.py": 2,
    "lakehouse/cache/ledger.py": 2,
    "lakehouse/cli/demo/run.py": 2,
    "lakehouse/cli/demo/spark.py": 1,
    "lakehouse/cli/tables/alter.py": 1,
    "lakehouse/format/fst/fst.py": 1,
    "lakehouse/format/index/protobuf.py": 3,
    "lakehouse/format/sstable/reader.py": 2,
    "lakehouse/index/search/file_indexes.py": 2,
    "lakehouse/index/metas/json_schemas.py": 1,
    "lakehouse/index/search/rounds.py": 3,
    "lakehouse/index/puffin/page_sums.py": 1,
    "lakehouse/index/puffin/blob_tails.py": 1,
    "lakehouse/index/building/target_rows.py": 1,
    "lakehouse/io/backends/s3.py": 1,
    "lakehouse/io/conditional.py": 1,
    "lakehouse/io/scratch.py": 1,
    "lakehouse/io/spill.py": 1,
    "lakehouse/io/work/time_limit.py": 1,
    "lakehouse/io/writer.py": 1,
    "lakehouse/spark/writing/merge.py": 2,
    "lakehouse/spark/streaming/plan.py": 1,
    "lakehouse/storage/commit/committer.py": 1,
    "lakehouse/storage/write/flush.py": 2,
    "lakehouse/storage/indexes/reader.py": 3,
    "lakehouse/storage/indexes/search.py": 2,
    "lakehouse/storage/tables/index_files.py": 1,
    "lakehouse/storage/write/memtable.py": 1,
    "lakehouse/storage/merge/engines.py": 1,
    "lakehouse/storage/files/parquet.py": 2,
    "lakehouse/storage/scan/file_plan.py": 1,
    "lakehouse/storage/scan/admission.py": 2,
    "lakehouse/storage/metadata/schemas.py": 1,
    "lakehouse/storage/scan/section_reader.py": 3,
    "lakehouse/storage/wal/segment_runs.py": 5,
    "lakehouse/storage/files/sstable.py": 5,
    "lakehouse/storage/files/file_writer.py": 2,
    "lakehouse/storage/wal/appender.py": 1,
    "lakehouse/storage/files/row_writer.py": 1,
}
"""How many assertions a module has. Each tells readers and the type checker what the code around it has
made sure of: no argument and nothing that a store sends can break one, as ``python -O`` leaves them out."""

SHARED_NAMES: dict[str, str] = {
    "IsNull": "a node of expressions, and a condition that lakehouse.index gives out under that name",
    "KeyRange": "of row keys, and of an FST's keys, which lakehouse.index gives out under that name",
    "ManifestFile": "Iceberg's and GreptimeDB's, both by the names that their formats give them",
}
"""Public names that two classes have."""
