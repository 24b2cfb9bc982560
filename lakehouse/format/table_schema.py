"""The schema of a table: its columns, its keys, its options.

Invariant: a schema is a value and never changes; a change makes another one with the next id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from types import MappingProxyType

import pyarrow as pa

from lakehouse.format.types import Field, arrow_field

__all__ = ["TableSchema"]

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Columns, primary key, partition columns and options of a table."""

    id: int = 0
    """0 for the first, then one more with each change."""
    fields: tuple[Field, ...]
    primary_key: tuple[str, ...] = ()
    """Names of columns; empty = an append-only table."""
    partition_by: tuple[str, ...] = ()
    """Names of columns."""
    buckets: int = 1
    options: Mapping[str, str] = dataclass_field(default_factory=lambda: _NO_OPTIONS)
    comment: str | None = None
    highest_field_id: int
    """Of all fields there ever were, nested ones included."""

    def field(self, name: str) -> Field:
        """The column of that name, which must exist."""
        return next(one for one in self.fields if one.name == name)

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The primary key's columns, in key order."""
        return tuple(self.field(name) for name in self.primary_key)

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in order."""
        return tuple(self.field(name) for name in self.partition_by)

    @property
    def key_holds_partition(self) -> bool:
        """Whether the primary key tells the partition, so that each partition has merge units of its own."""
        return set(self.partition_by) <= set(self.primary_key)

    def arrow(self) -> pa.Schema:
        """The Arrow schema, field ids in its metadata."""
        return pa.schema([arrow_field(one) for one in self.fields])
