"""Relations of a table in Spark, such as its snapshots: ``.option("relation", "snapshots")``.

They are those of ``Table.snapshots()`` and its like: files, indexes, manifests, partitions, schemas,
snapshots, tags. With ``version``, relations of one snapshot are read as of it.

Invariant: no data file is opened, and columns are those of the relation in process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakehouse.errors import InvalidInputError
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.reading.table_reader import TableReader
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.runtime.errors import carried
from lakehouse.spark.runtime.types import as_spark, struct_of_arrow
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
"""Relations by name, each with a function that finds its columns without reading it."""
_AT_A_SNAPSHOT = ("files", "indexes", "manifests", "partitions")
"""Relations of one snapshot; others are of the table."""


def relation_struct(name: str, view: View) -> StructType:
    """Returns the columns of a relation."""
    return struct_of_arrow(RELATIONS[known_relation(name)](view).schema)


def known_relation(name: str | None) -> str:
    """Returns the name if a relation has it, and refuses it else: a method of tables is called by it."""
    if name is None or name not in RELATIONS:
        raise InvalidInputError(
            f"there is no relation {name!r}; {suggestion(name or '', RELATIONS)}", relation=name
        )
    return name


class RelationReader(TableReader, DataSourceReader):  # type: ignore[misc]
    """Reads one relation, in one task."""

    def _prepare(self) -> None:
        known_relation(self._options.relation)

    def partitions(self) -> Sequence[InputPartition]:
        """Returns one part, as relations are small."""
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the whole relation."""
        with carried():
            lake = warehouse(self._connection)
            rows = lake.call(_relation, lake.table(self._table), self._options)
            yield from as_spark(rows.select(self._struct.fieldNames()), self._arrow).to_batches()


async def _relation(table: OpenTable, options: ReadOptions) -> pa.Table:
    ask = getattr(Table(table), known_relation(options.relation))
    at = {"snapshot": options.version} if options.relation in _AT_A_SNAPSHOT else {}
    rows: pa.Table = await ask(**at)
    return rows
