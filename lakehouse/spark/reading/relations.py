"""What a table says about itself, as Spark relations: ``.option("relation", "snapshots")``.

They are the relations of ``Table.snapshots()`` and its like: files, indexes, manifests, partitions, schemas,
snapshots, tags. ``version`` shows those of one snapshot as of it.

Invariant: no data file is opened, and columns are those of the relation in process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakehouse.errors import InvalidInputError
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.runtime.types import arrow_for_spark, as_spark, struct_of_arrow
from lakehouse.storage.table import Table
from lakehouse.storage.tables import (
    OpenTable,
    View,
    files_relation,
    indexes_relation,
    manifests_relation,
    partitions_relation,
    schemas_relation,
    snapshots_relation,
    tags_relation,
)
from lakehouse.suggest import suggestion

__all__ = ["RELATIONS", "RelationReader", "known_relation", "relation_struct"]

RELATIONS: dict[str, Callable[[View], pa.Table]] = {
    "files": lambda view: files_relation((), view.schema),
    "indexes": lambda view: indexes_relation((), view.schema),
    "manifests": lambda view: manifests_relation(view.snapshot),
    "partitions": lambda view: partitions_relation((), view.schema),
    "schemas": lambda _: schemas_relation(()),
    "snapshots": lambda view: snapshots_relation((), view.snapshot),
    "tags": lambda view: tags_relation(view.snapshot),
}
"""The relations there are, and how to find their columns without reading them."""
_AT_A_SNAPSHOT = ("files", "indexes", "manifests", "partitions")


def relation_struct(name: str, view: View) -> StructType:
    """The columns of a relation."""
    return struct_of_arrow(RELATIONS[known_relation(name)](view).schema)


def known_relation(name: str | None) -> str:
    """The name, if a relation has it: a method of tables is called by it."""
    if name is None or name not in RELATIONS:
        raise InvalidInputError(
            f"there is no relation {name!r}; {suggestion(name or '', RELATIONS)}", relation=name
        )
    return name


class RelationReader(DataSourceReader):  # type: ignore[misc]
    """Reads one relation, in one task.

    Args:
        connection: the warehouse.
        table: its name.
        options: which relation, and of which snapshot.
        schema: the columns, as Spark wants them.
    """

    def __init__(self, connection: Connection, table: str, options: ReadOptions, schema: StructType) -> None:
        known_relation(options.relation)
        self._connection, self._table, self._options = connection, table, options
        self._names, self._arrow = schema.fieldNames(), arrow_for_spark(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """One."""
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The whole relation."""
        with carried():
            lake = warehouse(self._connection)
            found = lake.call(_relation, lake.table(self._table), self._options)
            yield from as_spark(found.select(self._names), self._arrow).to_batches()


async def _relation(core: OpenTable, options: ReadOptions) -> pa.Table:
    ask = getattr(Table(core), known_relation(options.relation))
    at = {"snapshot": options.version} if options.relation in _AT_A_SNAPSHOT else {}
    found: pa.Table = await ask(**at)
    return found
