"""Spark, through PySpark: reads, writes, streams and maintenance of tables in executors, with our own I/O.

Importing this needs ``pip install 'aiolakehouse[spark]'``. Everything here translates; what is done with a
table is done by the engine, in the driver or in executors.
"""

from __future__ import annotations

from lakehouse.spark.jobs.clustering import rewrite
from lakehouse.spark.jobs.compaction import compact
from lakehouse.spark.jobs.enumeration import IndexMetas, collect_index_metas, index_metas
from lakehouse.spark.jobs.maintenance import expire, rebuild_indexes, remove_orphans, verify
from lakehouse.spark.reading.aggregates import aggregate, count
from lakehouse.spark.reading.joins import JoinReport, join, plan_join
from lakehouse.spark.reading.table_frame import create_view, table
from lakehouse.spark.runtime.connection import Connection
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.runtime.sessions import cluster_config, session
from lakehouse.spark.source import register
from lakehouse.spark.streaming.writer import write_stream
from lakehouse.spark.writing.frame_write import Write, write
from lakehouse.spark.writing.merge import Merge

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
