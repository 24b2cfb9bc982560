"""Searchers over index files of some rows, for tests of searching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakehouse.format.schema.target_key import ColumnTarget, IndexTarget
from lakehouse.index.building.builder import IndexSpec, PuffinIndexBuilder
from lakehouse.index.models import IndexType
from lakehouse.index.puffin.reader import PuffinReader
from lakehouse.index.search.searcher import IndexSearcher
from lakehouse.testing import RecordingStore, memory_store

__all__ = ["BLOOM", "FULLTEXT", "INVERTED", "columns_of", "searcher_of", "spec"]

BLOOM, INVERTED, FULLTEXT = IndexType.BLOOM_SKIPPING, IndexType.INVERTED, IndexType.FULLTEXT_BLOOM

Columns = dict[str, tuple[int, pa.DataType]]


def spec(kind: IndexType, target: IndexTarget | int, **how: Any) -> IndexSpec:
    """A specification; a number is a column."""
    if isinstance(target, int):
        target = ColumnTarget(column_id=target)
    return IndexSpec(kind=kind, target=target, **how)


def columns_of(rows: pa.Table) -> Columns:
    """The columns with ids from 1."""
    return {field.name: (place, field.type) for place, field in enumerate(rows.schema, start=1)}


async def searcher_of(
    rows: pa.Table, specs: Sequence[IndexSpec], *, prefetch_bytes: int | None = None, **how: Any
) -> tuple[IndexSearcher, RecordingStore]:
    """A searcher over an index file of these rows, and the store it reads."""
    builder = PuffinIndexBuilder(specs, {place: name for name, (place, _) in columns_of(rows).items()})
    builder.push(rows)
    store = RecordingStore(memory_store())
    data = builder.finish_bytes()
    await store.put("x.puffin", data)
    store.clear()
    reader = PuffinReader(store, "x.puffin", size=len(data), prefetch_bytes=prefetch_bytes)
    return IndexSearcher(reader, columns_of(rows), **how), store
