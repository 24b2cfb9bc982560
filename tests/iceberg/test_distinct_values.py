"""Distinct values of Iceberg's columns: out of metadata, footers, and sketches as a last resort."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.format.puffin import THETA_SKETCH, PuffinBuilder, ThetaBuilder
from lakehouse.iceberg import IcebergTable
from lakehouse.iceberg import open as open_iceberg
from lakehouse.iceberg.distinct_values import DistinctValues, distinct_values
from lakehouse.io import measure
from tests.kit.iceberg_plans import three_days
from tests.kit.iceberg_tables import on_disk

NDV = {1: 287, 2: 40}


def sketch(values: int) -> bytes:
    """The sketch of so many values."""
    builder = ThetaBuilder()
    builder.update(pa.array(range(values), pa.int64()))
    return builder.encode()


def puffin(told: dict[int, int | None], *, counted: int = 3, padding: int = 0) -> bytes:
    """A statistics file with a sketch for each column, and its number where it is told."""
    builder = PuffinBuilder(allow_duplicates=True)
    chunks = list(builder.add("padding", bytes(padding))) if padding else []
    for field, ndv in told.items():
        properties = {} if ndv is None else {"ndv": str(ndv)}
        chunks += builder.add(
            THETA_SKETCH, sketch(counted), fields=(field,), snapshot_id=1, properties=properties
        )
    return b"".join([*chunks, builder.finish()])


def stated(name: str, size: int, blobs: Sequence[dict[str, Any]] | None, snapshot: int = 1) -> dict[str, Any]:
    """A statistics file as metadata tell of it; its path is made absolute by :func:`table_with`."""
    stated: dict[str, Any] = {"snapshot-id": snapshot, "statistics-path": name, "file-size-in-bytes": size}
    return stated if blobs is None else stated | {"blob-metadata": blobs}


def blob(field: int, **properties: str) -> dict[str, Any]:
    """A sketch as metadata tell of it."""
    return {"type": THETA_SKETCH, "fields": [field], "snapshot-id": 1, "properties": properties}


@contextlib.asynccontextmanager
async def table_with(
    root: Path, files: dict[str, bytes], told: Sequence[dict[str, Any]]
) -> AsyncIterator[IcebergTable]:
    """A table whose metadata name these statistics files."""
    path = Path(on_disk(three_days(), root))
    for name, data in files.items():
        (root / name).write_bytes(data)
    placed = [one | {"statistics-path": f"{root.as_uri()}/{one['statistics-path']}"} for one in told]
    document = json.loads(path.read_text()) | {"statistics": placed}  # noqa: ASYNC240 - the test's own
    path.write_text(json.dumps(document))  # noqa: ASYNC240 - likewise
    async with await open_iceberg(str(path)) as table:
        yield table


async def found(table: IcebergTable, *fields: int) -> dict[int, int]:
    """Distinct values of columns, whichever snapshot they are of."""
    told = await distinct_values(table.source, table.metadata, fields)
    return {number: one.ndv for number, one in told.items()}


async def test_numbers_in_metadata_cost_nothing(tmp_path: Path) -> None:
    """What metadata repeat of a file is taken from there, and the file need not even exist."""
    async with table_with(tmp_path, {}, [stated("s.puffin", 100, [blob(1, ndv="287")])]) as table:
        with measure() as cost:
            assert await distinct_values(table.source, table.metadata, [1, 2]) == {1: DistinctValues(287, 1)}
        assert cost.requests == 0


async def test_numbers_that_metadata_leave_out_come_from_the_footer(tmp_path: Path) -> None:
    """One request reads the footers' numbers, and none does afterwards; sketches stay where they are."""
    data = puffin(dict(NDV), padding=1 << 20)
    told = stated("s.puffin", len(data), [blob(1), blob(2)])
    async with table_with(tmp_path, {"s.puffin": data}, [told]) as table:
        with measure() as cost:
            assert await found(table, 1) == {1: 287}
            assert await found(table, 1, 2) == NDV
        assert (cost.requests, cost.bytes_read < 100_000) == (1, True)


async def test_files_of_which_metadata_list_nothing_are_looked_into(tmp_path: Path) -> None:
    """Without a list of blobs the footer says what there is."""
    data = puffin(dict(NDV))
    async with table_with(tmp_path, {"s.puffin": data}, [stated("s.puffin", len(data), None)]) as table:
        assert await found(table, 1, 2, 3) == NDV


async def test_sketches_without_a_number_are_read_once(tmp_path: Path) -> None:
    """Where nobody wrote the number down, the sketch tells it: one more request, kept in memory."""
    data = puffin({1: None, 2: 40}, counted=5_000, padding=1 << 20)
    told = stated("s.puffin", len(data), [blob(1), blob(2)])
    async with table_with(tmp_path, {"s.puffin": data}, [told]) as table:
        with measure() as cost:
            assert (await found(table, 1, 2))[1] == pytest.approx(5_000, rel=0.1)
        assert cost.requests <= 2
        with measure() as cost:
            assert set(await found(table, 1, 2)) == {1, 2}
        assert cost.requests == 0


async def test_a_lost_file_leaves_what_older_ones_tell(tmp_path: Path) -> None:
    """The newest file is gone: columns that an older one knows are told with its snapshot."""
    older = stated("old.puffin", 100, [blob(1, ndv="7")], snapshot=99)
    gone = stated("gone.puffin", 100, [blob(1), blob(2)])
    async with table_with(tmp_path, {}, [older, gone]) as table:
        assert await distinct_values(table.source, table.metadata, [1, 2]) == {1: DistinctValues(7, 99)}


async def test_files_elsewhere_are_not_read(tmp_path: Path) -> None:
    """Metadata cannot point at files outside of the table, whoever may read them."""
    outside, data = tmp_path / "outside.puffin", puffin(dict(NDV))
    outside.write_bytes(data)
    told = stated("../outside.puffin", len(data), None)
    async with table_with(tmp_path / "t", {}, [told]) as table:
        assert await found(table, 1) == {}


async def test_few_of_many_files_are_read(tmp_path: Path) -> None:
    """A column that no file knows costs four requests, not one for each snapshot that was analyzed."""
    data = puffin({2: 40})
    told = [stated(f"s{number}.puffin", len(data), None, snapshot=number) for number in range(50)]
    files = {f"s{number}.puffin": data for number in range(50)}
    async with table_with(tmp_path, files, told) as table:
        with measure() as cost:
            assert await found(table, 1) == {}
        assert cost.requests == 4


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.booleans())
async def test_damaged_files_are_no_error(tmp_path: Path, place: int, value: int, cut: bool) -> None:
    """Whatever a file's bytes are, columns are told or left out, and nothing is raised."""
    data = puffin({1: None, 2: 40})
    place %= len(data)
    damaged = data[:place] if cut else data[:place] + bytes([value]) + data[place + 1 :]
    told = stated("s.puffin", len(data), None)
    async with table_with(tmp_path, {"s.puffin": damaged}, [told]) as table:
        assert set(await found(table, 1, 2)) <= {1, 2}
