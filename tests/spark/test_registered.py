"""The warehouse of a session."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.spark.connection import Connection
from lakehouse.spark.registered import connection_of, remember


def test_a_session_remembers_its_warehouse(spark: SparkSession) -> None:
    """What was registered is found again, with its options; another session has its own."""
    other = spark.newSession()
    kept = Connection(url="file:///w", storage_options={"auto_mkdir": True}, settings={"cache.max_bytes": 5})
    remember(other, kept)
    assert connection_of(other) == kept
    with pytest.raises(InvalidInputError, match="no warehouse is known"):
        connection_of(spark.newSession())
