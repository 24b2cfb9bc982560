"""How processes reach a warehouse."""

from __future__ import annotations

import uuid

import pytest

from lakehouse.errors import ConflictError, NotFoundError
from lakehouse.spark.runtime.connection import Connection, warehouse
from tests.kit.spark_written import NAME, made


def test_a_table_is_known_by_its_id(connection: Connection) -> None:
    """Another table of the name is the caller's error; where there is none, that is said."""
    house, table = warehouse(connection), made(connection)
    known, error = table.core.uuid, ConflictError("the table is another one")
    assert house.same_table(NAME, known, error).uuid == known
    with pytest.raises(ConflictError) as caught:
        house.same_table(NAME, uuid.uuid4(), error)
    assert caught.value is error
    house.call(house.lake.drop_table, NAME)
    with pytest.raises(NotFoundError):
        house.same_table(NAME, known, error)
