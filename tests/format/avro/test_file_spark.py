"""Avro data files that Spark wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakehouse.format.avro import AvroFile

_FOLDER = Path(__file__).parents[2] / "data" / "iceberg" / "avro" / "data"
_FILES = sorted(_FOLDER.glob("**/*.avro"))


def test_spark_s_data_files_are_read() -> None:
    """Columns of data and delete files have their types and ids, nested ones too."""
    tables = [AvroFile.parse(path.read_bytes(), key=path.name).to_arrow() for path in _FILES]
    data = [table for table in tables if "pos" not in table.column_names]
    deletes = [table for table in tables if "pos" in table.column_names]
    assert data
    assert deletes
    for table in tables:
        table.validate(full=True)
        assert table.num_rows > 0
        assert all(b"PARQUET:field_id" in field.metadata for field in table.schema)
    kinds = {field.name: field.type for field in data[0].schema}
    assert pa.types.is_struct(kinds["s"])
    assert pa.types.is_list(kinds["l"])
    assert pa.types.is_map(kinds["m"])
    assert deletes[0].schema.field("file_path").metadata == {b"PARQUET:field_id": b"2147483546"}
