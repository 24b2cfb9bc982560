"""System tables as tests read them: all rows of a name, and the host of a lake."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakehouse.expr import Expr
from lakehouse.sql.system import SystemHost, SystemTables

__all__ = ["host_of", "read"]


def host_of(lake: Any) -> SystemHost:
    """What system tables of a lake, or of an account of it, tell of."""
    state: SystemHost = lake._state
    return state


async def read(tables: SystemTables, *path: str, where: Expr | None = None) -> pa.Table:
    """All columns of the rows of a name."""
    provider = tables.provider(path)
    assert provider is not None
    names = provider.schema.names
    return pa.Table.from_batches([batch async for batch in provider.scan(names, where)], provider.schema)
