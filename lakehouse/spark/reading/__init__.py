"""Reads of tables in Spark: the driver plans and cuts, executors scan.

Words: *options* → *plan* → *split* (what one task reads) → *batch* (Arrow rows handed to Spark).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.spark.reading.table_frame import table

__all__ = [
    "table",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "table_frame": "table",
    },
)
