"""The default warehouse of a session, for calls that name none.

Invariant: what was registered last for a session counts; sessions do not see each other's.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.spark.runtime.connection import Connection

__all__ = ["connection_of", "known_connection", "remember"]

_KEY = "spark.lakehouse.connection"


def remember(spark: SparkSession, connection: Connection) -> None:
    """Makes a warehouse the session's default."""
    fields = {
        "url": connection.url,
        "storage_options": connection.revealed_options(),
        "settings": dict(connection.settings),
        "catalogs": dict(connection.catalogs),
    }
    try:
        text = json.dumps(fields)
    except TypeError as error:
        raise InvalidInputError(
            f"storage options and settings of {connection.url} travel to executors as JSON: {error}"
        ) from error
    # The session's configuration, because a Connect session has no other place that is its own.
    spark.conf.set(_KEY, text)


def connection_of(spark: SparkSession, connection: Connection | None = None) -> Connection:
    """Returns the connection that is given, or else the session's."""
    found = known_connection(spark) if connection is None else connection
    if found is None:
        raise InvalidInputError(
            "no warehouse is known: call lakehouse.spark.register(spark, 's3://bucket/warehouse') first, or "
            "pass connection=Connection(url=…)"
        )
    return found


def known_connection(spark: SparkSession) -> Connection | None:
    """Returns the session's connection; None = it has none."""
    text = spark.conf.get(_KEY, None)
    return None if text is None else Connection(**json.loads(text))
