"""Batches of rows on their way from Spark to Python: bounded by rows alone while a write is under way.

Batches are bounded by bytes, by default, and then Spark adds up what all vectors take after every row: of ten
columns that costs three times what making the batches does. A write bounds them by rows alone: few enough
that rows of a hundred kilobytes fit, and no more than the session asks for.

Invariant: a session's settings are what they were once no write is under way.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

__all__ = ["BATCH_ROWS", "bounded_by_rows"]

BATCH_ROWS = 1024
"""Maximum rows per batch during a write; a session that asks for fewer keeps its own bound."""
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_BOUND = str(2**31 - 1)
"""Bytes per batch: the largest that Spark takes, so that rows alone bound it."""

_lock = threading.Lock()
_under_way: dict[SparkSession, tuple[int, Mapping[str, str]]] = {}
"""Number of writes under way by session, and the settings that it had before the first of them."""


@contextlib.contextmanager
def bounded_by_rows(spark: SparkSession) -> Iterator[None]:
    """Bounds batches of jobs that begin in the block by :data:`BATCH_ROWS`, however large the rows are."""
    with _lock:
        count, before = _under_way.get(spark) or (0, _settings(spark))
        _under_way[spark] = count + 1, before
        asked = int(before[_ROWS])
        # Zero and less ask Spark for batches without a bound.
        rows = min(BATCH_ROWS, asked) if asked > 0 else BATCH_ROWS
        _set(spark, {_BYTES: _NO_BOUND, _ROWS: str(rows)})
    try:
        yield
    finally:
        with _lock:
            count, before = _under_way[spark]
            # Writes of one session overlap: the last one to end restores what the first one found.
            if count > 1:
                _under_way[spark] = count - 1, before
            else:
                del _under_way[spark]
                _set(spark, before)


def _settings(spark: SparkSession) -> dict[str, str]:
    return {key: str(spark.conf.get(key)) for key in (_BYTES, _ROWS)}


def _set(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        spark.conf.set(key, value)
