"""Spark, through PySpark: reads, writes, streams and maintenance of tables in executors, with our own I/O.

Importing this needs ``pip install 'lakehouse[spark]'``. Everything here translates; what is done with a
table is done by the engine, in the driver or in executors.
"""

from __future__ import annotations

from lakehouse.spark.connection import Connection
from lakehouse.spark.scan import create_view, table
from lakehouse.spark.session import session
from lakehouse.spark.source import register

__all__ = ["Connection", "create_view", "register", "session", "table"]
