"""Where Spark finds the data source ``lakehouse`` by itself: it looks through packages ``pyspark_*``.

Invariant: it is the source that ``lakehouse.spark.register`` makes known, without a warehouse of its own.
"""

from __future__ import annotations

from lakehouse.spark.source import LakehouseSource as DefaultSource

__all__ = ["DefaultSource"]
