"""Files of which some rows are read: as if the others were not there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.expr import matching, parse_where
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.index.search import RowSelection
from lakehouse.storage.files.selected_rows import entry_of_selected
from lakehouse.storage.scan import Scan, bind_where
from tests.kit.foreign_files import ROWS, SCHEMA, plain, scanned, source, written


@pytest.mark.parametrize("where", [None, "id < 500", "name is null", "name is not null", "score >= 0"])
async def test_only_selected_rows_are_read(where: str | None) -> None:
    """A scan of some rows of a file finds what a scan of a file of those rows would find."""
    store, entry = await written()
    numbers = [n for n in range(1_000) if n % 3 == 0 and not 200 <= n < 400] + [203]
    selection = RowSelection.of_rows(numbers, 1_000)
    condition = None if where is None else parse_where(where)
    shown = entry_of_selected(entry, selection)
    files = source(store, selections={entry.path: selection})
    expected = ROWS.take(sorted(numbers))
    if condition is not None:
        expected = expected.filter(matching(bind_where(condition, SCHEMA), expected))
    scan = Scan([shown], SCHEMA, files, where=condition)
    assert plain(await scanned(scan)) == plain(expected)
    assert await Scan([shown], SCHEMA, files, where=condition).count() == expected.num_rows


async def test_row_groups_without_a_selected_row_are_not_read() -> None:
    """Pieces are those with selected rows, and rows of a whole one are taken as they are."""
    store, entry = await written()
    selection = RowSelection.of([(100, 200), (950, 951)], 1_000)
    files = source(store, selections={entry.path: selection})
    reader = await files.open(entry_of_selected(entry, selection), SCHEMA)
    assert [(piece.rows, piece.first_row) for piece in reader.pieces] == [(100, 0), (1, 100)]
    assert (await reader.read(SCHEMA.fields[:1], [1])).to_pydict() == {"id": [950]}
    loaded = await reader.load(SCHEMA.fields[:1], [0])
    assert (await loaded.read(SCHEMA.fields[:1], [0]))["id"].to_pylist() == list(range(100, 200))


async def test_nulls_of_rows_left_out_do_not_count() -> None:
    """A row group whose selected rows may all or none be null is not judged by the nulls of the others."""
    rows = pa.table({"id": pa.array([None] * 5 + list(range(5)), pa.int64())})
    schema = schema_from_arrow(rows.schema)
    store, entry = await written(rows)
    for numbers, where, expected in (
        (range(5, 10), "id >= 0", 5),
        (range(5), "id is null", 5),
        (range(5, 10), "id is null", 0),
        ([7], "id = 2", 1),
        ([7], "id is null", 0),
    ):
        selection = RowSelection.of_rows(list(numbers), 10)
        files = source(store, selections={entry.path: selection})
        scan = Scan([entry_of_selected(entry, selection)], schema, files, where=parse_where(where))
        assert await scan.count() == expected, where


async def test_a_key_cannot_be_looked_up() -> None:
    """Rows that are selected by number have no keys, and a look-up says so."""
    store, entry = await written()
    selection = RowSelection.of_rows([1], 1_000)
    reader = await source(store, selections={entry.path: selection}).open(
        entry_of_selected(entry, selection), SCHEMA
    )
    with pytest.raises(InvalidInputError, match="has no keys"):
        await reader.get(b"k", SCHEMA.fields)
