"""Schema objects of a table.

Invariant: a schema read for a reference has that reference's id and belongs to the table; it never
changes, so it is cached.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from lakehouse.cache import CacheRegion, identity_tags
from lakehouse.errors import CorruptionError
from lakehouse.format.metadata import SchemaRef
from lakehouse.format.schema import SchemaObject, TableSchema, decode_schema, encode_schema
from lakehouse.ids import new_token
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import or_none
from lakehouse.storage.metadata.paths import join, new_schema_path
from lakehouse.storage.metadata.store_clock import StoreTime

__all__ = ["Schemas"]


@dataclass(frozen=True, slots=True)
class Schemas:
    """Reads and writes of the schema objects of one table.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        table: the table's uuid.
        cache: schema objects by (root, path).
        time: learns the store's time from its answers.
    """

    store: ObjectStore
    root: str
    table: uuid.UUID
    cache: CacheRegion[tuple[str, str], SchemaObject]
    time: StoreTime | None = None

    async def read(self, ref: SchemaRef) -> SchemaObject:
        """Reads the schema that a snapshot refers to."""
        tags = identity_tags(self.table)
        stored_schema = await self.cache.get((self.root, ref.path), self._load, tags=tags)
        assert stored_schema is not None
        # Also of what comes from the cache: its key is the path, and a reference says more than that.
        if (stored_schema.schema.id, stored_schema.table) != (ref.id, self.table):
            raise CorruptionError(
                f"{join(self.root, ref.path)} holds schema {stored_schema.schema.id} of table "
                f"{stored_schema.table}; the snapshot asks for schema {ref.id} of {self.table}",
                key=join(self.root, ref.path),
            )
        return stored_schema

    def known(self, ref: SchemaRef) -> SchemaObject | None:
        """Returns the schema that a snapshot refers to if it is in memory."""
        return self.cache.get_if_present((self.root, ref.path))

    async def _load(self, key: tuple[str, str]) -> SchemaObject:
        path = join(*key)
        fetched = await or_none(self.store.get(path))
        if fetched is None:
            raise CorruptionError(f"schema object {path} is missing; a snapshot refers to it", key=path)
        return decode_schema(fetched.data, key=path)

    async def write(
        self, schema: TableSchema, *, time_ms: int, before: tuple[SchemaObject, SchemaRef] | None = None
    ) -> SchemaRef:
        """Stores a schema; ``before`` is the schema it follows, with its reference."""
        ancestors = (*before[0].ancestors, before[1]) if before is not None else ()
        stored_schema = SchemaObject(
            schema=schema, table=self.table, token=new_token(), time_ms=time_ms, ancestors=ancestors
        )
        path = new_schema_path()
        # A plain put: the path is new, and nobody knows it before a snapshot refers to it.
        stored = await self.store.put(join(self.root, path), encode_schema(stored_schema))
        if self.time is not None:
            self.time.learn(stored.store_time_ms)
        self.cache.put((self.root, path), stored_schema, tags=identity_tags(self.table))
        return SchemaRef(id=schema.id, path=path)
