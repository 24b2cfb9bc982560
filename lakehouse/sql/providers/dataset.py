"""A provider as a dataset of pyarrow, which DuckDB reads by a public interface, should the private one move.

Filters arrive as expressions of pyarrow, which say nothing of themselves; so rows are filtered here and not
by the provider, which is the slower way.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lakehouse.config import SqlSettings
from lakehouse.sql.engine.loop_bridge import LoopBridge
from lakehouse.sql.providers.declared import Declared
from lakehouse.sql.providers.handover import Handover
from lakehouse.sql.providers.provider import TableProvider

__all__ = ["ProviderDataset", "arrow_dataset"]


def arrow_dataset(
    provider: TableProvider, bridge: LoopBridge, *, bytes_max: int = SqlSettings().source_bytes
) -> ProviderDataset:
    """Returns a dataset for DuckDB's ``register``, with the columns and rows of :func:`arrow_source`."""
    declared = Declared(provider.schema)
    return ProviderDataset(Handover(provider=provider, bridge=bridge, declared=declared, bytes_max=bytes_max))


class ProviderDataset(pads.Dataset):  # type: ignore[misc]
    """The dataset of one provider; made by :func:`arrow_dataset`."""

    def __init__(self, handover: Handover) -> None:
        # The base is no dataset without one in C++, which only this class replaces.
        self._handover = handover

    @property
    def schema(self) -> pa.Schema:
        """The columns, the one of nothing first."""
        return self._handover.declared.schema

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  the base calls it so
        **_: Any,
    ) -> pads.Scanner:
        """Returns a scan of these columns and of the rows that pass the filter."""
        declared = self._handover.declared
        wanted = declared.schema.names if columns is None else columns
        read = wanted if filter is None else declared.schema.names
        reader = self._handover.reader([declared.schema.names.index(name) for name in read], None)
        return pads.Scanner.from_batches(reader, columns=wanted, filter=filter)
