"""How Spark cuts rows into batches on their way to Python.

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
"""Of a batch, at most."""
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_BOUND = str(2**31 - 1)

_lock = threading.Lock()
_under_way: dict[SparkSession, tuple[int, Mapping[str, str]]] = {}
"""By session how many writes there are, and its settings before them."""


@contextlib.contextmanager
def bounded_by_rows(spark: SparkSession) -> Iterator[None]:
    """Jobs that begin meanwhile have batches of so many rows, however large."""
    with _lock:
        count, before = _under_way.get(spark) or (0, _settings(spark))
        _under_way[spark] = count + 1, before
        asked = int(before[_ROWS])
        rows = min(BATCH_ROWS, asked) if asked > 0 else BATCH_ROWS
        _set(spark, {_BYTES: _NO_BOUND, _ROWS: str(rows)})
    try:
        yield
    finally:
        with _lock:
            count, before = _under_way[spark]
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
