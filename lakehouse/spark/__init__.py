"""Spark, through PySpark: reads, writes, streams and maintenance of tables in executors, with our own I/O.

Importing this needs ``pip install 'aiolakehouse[spark]'``. Everything here translates; what is done with a
table is done by the engine, in the driver or in executors.
"""

from __future__ import annotations

from lakehouse.spark.answers import aggregate, count
from lakehouse.spark.connection import Connection
from lakehouse.spark.errors import plain_errors
from lakehouse.spark.index_metas import IndexMetas, collect_index_metas, index_metas
from lakehouse.spark.jobs_compact import compact
from lakehouse.spark.jobs_maintenance import expire, rebuild_indexes, remove_orphans, verify
from lakehouse.spark.jobs_rewrite import rewrite
from lakehouse.spark.join import JoinReport, join, plan_join
from lakehouse.spark.merge import Merge
from lakehouse.spark.scan import create_view, table
from lakehouse.spark.session import cluster_config, session
from lakehouse.spark.source import register
from lakehouse.spark.stream_writer import write_stream
from lakehouse.spark.write import Write, write

__all__ = [
    "Connection",
    "IndexMetas",
    "JoinReport",
    "Merge",
    "Write",
    "aggregate",
    "cluster_config",
    "collect_index_metas",
    "compact",
    "count",
    "create_view",
    "expire",
    "index_metas",
    "join",
    "plain_errors",
    "plan_join",
    "rebuild_indexes",
    "register",
    "remove_orphans",
    "rewrite",
    "session",
    "table",
    "verify",
    "write",
    "write_stream",
]
