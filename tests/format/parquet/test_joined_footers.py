"""Row groups encoded side by side: the same file as from one writer."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.format.parquet import writer as parquet_run
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.format.schema.table_schema import TableSchema
from tests.kit.parquet_samples import KEYED, keyed_rows, many_rows


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are worth a core."""
    monkeypatch.setattr(parquet_run, "_SHARE_BYTES", 1)


@given(keyed_rows(), st.integers(1, 4), st.integers(2, 5))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cores_change_no_byte(found: tuple[TableSchema, pa.Table], group_rows: int, threads: int) -> None:
    """However many cores encode, the file is the one that a single writer writes."""
    schema, rows = found
    options = ParquetOptions(row_group_rows=group_rows)
    alone = encode_parquet(rows, schema, options, threads=1)
    assert encode_parquet(rows, schema, options, threads=threads).equals(alone)


def test_many_row_groups_are_joined() -> None:
    """Offsets and counts that take more bytes in the joined footer are right; dictionaries move along."""
    rows = many_rows(20_000)
    options = ParquetOptions(row_group_rows=128)
    alone = encode_parquet(rows, KEYED, options, threads=1)
    assert encode_parquet(rows, KEYED, options, threads=7).equals(alone)


def test_few_rows_are_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of less than a share's bytes are encoded by the caller alone."""
    monkeypatch.setattr(parquet_run, "_SHARE_BYTES", 1 << 30)
    monkeypatch.setattr(parquet_run, "join_footers", None)
    encode_parquet(many_rows(1_000), KEYED, ParquetOptions(row_group_rows=100))
