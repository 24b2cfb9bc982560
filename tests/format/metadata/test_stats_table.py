"""Statistics of a manifest: a column of many entries says what each entry says of its own."""

from __future__ import annotations

import pickle
import random

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.expr.columnar import UNKNOWN
from lakehouse.format.metadata.file_entry import ColumnStats, FileEntry
from lakehouse.format.metadata.manifest import decode_manifest, encode_manifest
from lakehouse.format.metadata.stats_table import FileStats, StatsColumn, stats_columns
from tests.kit.table_samples import TABLE

BOUNDS = st.none() | st.binary(max_size=3)
STATS = st.dictionaries(
    st.integers(1, 4), st.builds(ColumnStats, nulls=st.integers(0, 3), low=BOUNDS, high=BOUNDS), max_size=4
)


def in_manifest(stats: list[dict[int, ColumnStats]]) -> list[FileEntry]:
    """Entries with these statistics, as a manifest gives them back."""
    entries = [FileEntry(path=f"f{n}", size=1, rows=3, stats=one) for n, one in enumerate(stats)]
    data = encode_manifest(entries, table=TABLE)
    return list(decode_manifest(data, key="m", table=TABLE, checksum=google_crc32c.value(data)))


def rows_of(column: StatsColumn) -> list[tuple[bytes | None, bytes | None, int]]:
    """Low, high and nulls of each file."""
    return list(zip(column.low.to_pylist(), column.high.to_pylist(), column.nulls.tolist(), strict=True))


@given(st.lists(st.lists(STATS, max_size=4), max_size=3), st.lists(STATS, max_size=4), st.randoms())
def test_columns_say_what_mappings_say(
    manifests: list[list[dict[int, ColumnStats]]], loose: list[dict[int, ColumnStats]], chance: random.Random
) -> None:
    """Files of several manifests and of none, mixed, have the statistics of their mappings."""
    files = [entry.stats for stats in manifests for entry in in_manifest(stats)] + list(loose)
    chance.shuffle(files)
    columns = stats_columns(files, range(1, 6))
    for field in range(1, 6):
        expected = [
            (one.low, one.high, one.nulls) if (one := stats.get(field)) is not None else (None, None, UNKNOWN)
            for stats in files
        ]
        assert rows_of(columns[field]) == expected


def test_statistics_travel_without_their_neighbours() -> None:
    """Pickled, the statistics of one file are a plain mapping of that file alone."""
    one, other = in_manifest([{1: ColumnStats(nulls=0, low=b"a", high=b"b")}, {2: ColumnStats(nulls=1)}])
    assert isinstance(one.stats, FileStats)
    arrived = pickle.loads(pickle.dumps(one.stats))
    assert (type(arrived), arrived) == (dict, {1: ColumnStats(nulls=0, low=b"a", high=b"b")})
    assert len(other.stats) == 1
