"""Changes of a table's schema, as commits.

Invariant: a schema's id is its parent's plus one, and a field's id is never given out twice, also not
after a rollback.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from lakehouse.format.metadata import CommitKind, SchemaRef, Snapshot
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.storage.metadata.snapshots import Snapshots
from lakehouse.storage.schema.evolution import SchemaChange, evolve

__all__ = ["Alter", "restored_schema"]


class Alter:
    """Applies changes to the schema of whatever head it is committed on.

    Args:
        schemas: the table's schema objects.
        snapshots: those of the table; its clock dates the new schema.
        changes: changes to apply, in this order.
    """

    blind: ClassVar[bool] = False

    def __init__(self, schemas: Schemas, snapshots: Snapshots, changes: Sequence[SchemaChange]) -> None:
        self._schemas, self._snapshots, self._changes = schemas, snapshots, changes

    async def draft(self, base: Base) -> Draft | None:
        """Writes the changed schema and returns a draft that refers to it; None when nothing changes."""
        before = await self._schemas.read(base.snapshot.schema)
        changed = evolve(before.schema, self._changes)
        # evolve always counts the id up, so equality has to leave it out.
        if dataclasses.replace(changed, id=before.schema.id) == before.schema:
            return None
        # Written anew for each head: the id and the ancestors depend on the schema that was there before.
        ref = await self._schemas.write(
            changed, time_ms=self._snapshots.time.now_ms(), before=(before, base.snapshot.schema)
        )
        return Draft(kind=CommitKind.ALTER, schema=ref)


async def restored_schema(
    schemas: Schemas, snapshots: Snapshots, base: Snapshot, target: Snapshot
) -> SchemaRef | None:
    """Writes a copy of the target's schema with the id after the head's; None when both are the same.

    The copy descends from the target's schema, not from the head's: files written with a schema that
    the rollback undoes may hold values it cannot read, and are refused when they are committed late.
    """
    if base.schema == target.schema:
        return None
    before, wanted = await schemas.read(base.schema), await schemas.read(target.schema)
    again = dataclasses.replace(
        wanted.schema,
        id=before.schema.id + 1,
        # The head's, not the target's: ids of columns that the rollback drops must not be given out again.
        highest_field_id=before.schema.highest_field_id,
        highest_index_id=before.schema.highest_index_id,
    )
    return await schemas.write(again, time_ms=snapshots.time.now_ms(), before=(wanted, target.schema))
