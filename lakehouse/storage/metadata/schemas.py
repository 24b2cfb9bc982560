"""A table's schema objects.

Invariant: a schema read for a reference has that reference's id and belongs to the table; it never
changes, so it is cached.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from lakehouse.cache import CacheRegion
from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.format.metadata import SchemaRef
from lakehouse.format.schema import SchemaObject, TableSchema, decode_schema, encode_schema
from lakehouse.ids import new_token
from lakehouse.io.store import ObjectStore
from lakehouse.storage.metadata.paths import join, new_schema_path
from lakehouse.storage.metadata.store_clock import StoreTime

__all__ = ["Schemas"]


@dataclass(frozen=True, slots=True)
class Schemas:
    """Reads and writes the schema objects of one table.

    Args:
        store: where the table is.
        root: its directory.
        table: its uuid.
        cache: schemas by (root, path).
        time: takes note of when the store answered.
    """

    store: ObjectStore
    root: str
    table: uuid.UUID
    cache: CacheRegion[tuple[str, str], SchemaObject]
    time: StoreTime | None = None

    async def read(self, ref: SchemaRef) -> SchemaObject:
        """The schema that a snapshot refers to."""
        found = await self.cache.get((self.root, ref.path), self._load)
        assert found is not None
        if (found.schema.id, found.table) != (ref.id, self.table):
            raise CorruptionError(
                f"{join(self.root, ref.path)} holds schema {found.schema.id} of table {found.table}; the "
                f"snapshot asks for schema {ref.id} of {self.table}",
                key=join(self.root, ref.path),
            )
        return found

    async def _load(self, key: tuple[str, str]) -> SchemaObject:
        path = join(*key)
        try:
            return decode_schema((await self.store.get(path)).data, key=path)
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            raise CorruptionError(
                f"schema object {path} is missing; a snapshot refers to it", key=path
            ) from missing

    async def write(
        self, schema: TableSchema, *, time_ms: int, before: tuple[SchemaObject, SchemaRef] | None = None
    ) -> SchemaRef:
        """Stores a schema; ``before`` is the one it comes after."""
        ancestors = (*before[0].ancestors, before[1]) if before is not None else ()
        one = SchemaObject(
            schema=schema, table=self.table, token=new_token(), time_ms=time_ms, ancestors=ancestors
        )
        path = new_schema_path()
        stored = await self.store.put(join(self.root, path), encode_schema(one))
        if self.time is not None:
            self.time.learn(stored.store_time_ms)
        self.cache.put((self.root, path), one)
        return SchemaRef(id=schema.id, path=path)
