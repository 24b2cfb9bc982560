"""Equality deletes, which Spark reads and does not write: by Iceberg's Java library in Spark's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["delete_by_ids"]


def delete_by_ids(spark: Any, table: str, ids: Sequence[int]) -> int:
    """Deletes rows by equal ``id`` in one commit; a file for each partition that has rows, and their number.

    ``id`` is an INT: Py4J would make a LONG of Java's an INT on its way.
    """
    java = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    delta, made = java.newRowDelta(), 0
    for number, data in enumerate(_one_file_of_each_partition(java)):
        spec = java.specs().get(data.specId())
        delta.addDeletes(_written(spark, java, spec, data.partition(), ids, number))
        made += 1
    delta.commit()
    return made


def _one_file_of_each_partition(java: Any) -> list[Any]:
    found = {}
    tasks = java.newScan().planFiles().iterator()
    while tasks.hasNext():
        data = tasks.next().file()
        found.setdefault((data.specId(), str(data.partition())), data.copy())
    return list(found.values())


def _written(spark: Any, java: Any, spec: Any, partition: Any, ids: Sequence[int], number: int) -> Any:
    jvm = spark._jvm
    iceberg = jvm.org.apache.iceberg
    schema = java.schema().select(_array(spark, jvm.java.lang.String, ["id"]))
    name = java.properties().getOrDefault("write.format.default", "parquet")
    kind = iceberg.FileFormat.fromString(name)
    field_ids = _array(spark, jvm.int, [java.schema().findField("id").fieldId()])
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(java)
    builder = builder.deleteFileFormat(kind).equalityFieldIds(field_ids).equalityDeleteRowSchema(schema)
    files = iceberg.io.OutputFileFactory.builderFor(java, number, 0).format(kind).build()
    place = files.newOutputFile() if spec.isUnpartitioned() else files.newOutputFile(spec, partition)
    writer = builder.build().newEqualityDeleteWriter(
        place, spec, None if spec.isUnpartitioned() else partition
    )
    for value in ids:
        record = iceberg.data.GenericRecord.create(schema)
        record.setField("id", value)
        writer.write(record)
    writer.close()
    return writer.toDeleteFile()


def _array(spark: Any, kind: Any, values: Sequence[Any]) -> Any:
    array = spark.sparkContext._gateway.new_array(kind, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array
