"""Several manifests decoded by one walk, and cut apart."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError
from lakehouse.iceberg.manifests import ManifestColumns, decode_manifest, decode_manifests
from tests.kit.field_stats import field_stats
from tests.kit.iceberg_tables import Snapshot, Table, table_files
from tests.kit.iceberg_worlds import random_world

_LOCATION = "s3://bucket/table"


def _files(table: Table) -> list[tuple[bytes, str]]:
    """The manifests of a table, with their keys."""
    _, files = table_files(table, _LOCATION)
    return [(data, key) for key, data in files.items() if key.startswith("metadata/m")]


def _plain(columns: ManifestColumns) -> dict[str, Any]:
    """Everything that can be asked of a manifest."""
    found: dict[str, Any] = {"paths": columns.paths().to_pylist(), "formats": columns.formats}
    for field in dataclasses.fields(columns):
        value = getattr(columns, field.name)
        if hasattr(value, "all"):
            found[field.name] = value.all().tolist()
        elif isinstance(value, (int, str)):
            found[field.name] = value
    found["partition"] = {number: repr(array.to_pylist()) for number, array in columns.partition.items()}
    for number in columns.stats_fields():
        stats = field_stats(columns, number)
        counts = [one.tolist() for one in (stats.nulls, stats.nans, stats.values)]
        found[f"stats {number}"] = (*counts, _bounds(stats.low), _bounds(stats.high))
    offsets = columns.split_offsets
    nothing = [None] * columns.count
    every = np.arange(columns.count)
    found["splits"] = nothing if offsets is None else offsets.at(every)
    found["referenced"] = nothing if columns.referenced is None else columns.referenced.at().to_pylist()
    return found


def _bounds(raw: Any) -> Any:
    if raw is None:
        return None
    starts, lengths = raw.spans()
    rows = None if raw.rows is None else raw.rows.tolist()
    spans = zip(starts.tolist(), lengths.tolist(), strict=True)
    return rows, [raw.data[start : start + length].tobytes() for start, length in spans]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**48))
def test_manifests_are_decoded_together_as_they_are_alone(seed: int) -> None:
    """Decoded with others, of whatever kind, a manifest has the same entries as alone."""
    rng = random.Random(seed)
    kinds = rng.choice([(), ("position", "equality")])
    files = _files(random_world(rng, version=2 if kinds else None, kinds=kinds).table)
    files = [*files, *rng.sample(files, len(files))]
    together = decode_manifests(files)
    assert [_told(one) for one in together] == [_told(decode_manifest(data, key=key)) for data, key in files]


def _told(columns: ManifestColumns) -> dict[str, Any]:
    found = _plain(columns)
    # Together they share the formats of all, so that theirs have other numbers.
    found["format"] = [columns.formats[code] for code in found["format"]]
    del found["formats"]
    return found


def _table(count: int) -> Table:
    world = random_world(random.Random(1), version=2)
    (manifest, item), *_ = world.live()
    alike = [
        dataclasses.replace(
            manifest,
            name=f"m{number}",
            codec="deflate",
            block_records=2,
            items=[dataclasses.replace(item, path=f"data/{number}-{at}.parquet") for at in range(3)],
        )
        for number in range(count)
    ]
    return dataclasses.replace(world.table, snapshots=[Snapshot(id=1, sequence=1, manifests=alike)])


def test_manifests_of_one_header_are_read_by_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests that one writer made cost one walk together; none is decoded alone."""
    files = _files(_table(5))
    found = decode_manifests(files)
    monkeypatch.setattr("lakehouse.iceberg.manifests.manifest.decode_manifest", None)
    assert [one.paths().to_pylist() for one in decode_manifests(files)] == [
        one.paths().to_pylist() for one in found
    ]
    assert [one.key for one in found] == [key for _, key in files]


@pytest.mark.parametrize("damaged", [0, 2, 4])
def test_the_damaged_one_of_several_is_named(damaged: int) -> None:
    """Damage in one manifest is an error that names it, though others were read with it."""
    files = _files(_table(5))
    data, key = files[damaged]
    middle = len(data) - 30
    files[damaged] = (data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :], key)
    with pytest.raises(CorruptionError, match=key):
        decode_manifests(files)


def test_no_manifests_are_none() -> None:
    """Of no manifests there are no entries."""
    assert decode_manifests([]) == []
