"""Tables that an earlier release wrote: every snapshot reads as it did then, and the tables go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakehouse.errors import NotFoundError
from tests.kit.golden_tables import HOME, expected_of, plain, warehouse
from tests.kit.worlds import process, restored

EXPECTED: dict[str, Any] = json.loads((HOME / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED)
async def test_every_snapshot_reads_as_it_did(name: str) -> None:
    """Columns, rows, tags, messages and times of all snapshots are what they were when they were written."""
    table = await process(await restored(warehouse())).table(name)
    found = json.loads(json.dumps(await expected_of(table)))
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", [name for name, one in EXPECTED.items() if one["primary_key"]])
async def test_every_key_is_found(name: str) -> None:
    """A lookup of a key gives the row that a scan gives, in every snapshot."""
    table = await process(await restored(warehouse())).table(name)
    for snapshot in EXPECTED[name]["snapshots"]:
        number = snapshot["snapshot"]
        keys = (await table.schema(snapshot=number)).primary_key
        for row in await table.scan(snapshot=number).to_pylist():
            found = await table.get({key: row[key] for key in keys}, snapshot=number)
            assert json.dumps(plain(found)) == json.dumps(plain(row))


@pytest.mark.parametrize("name", EXPECTED)
async def test_tables_go_on(name: str) -> None:
    """What this release commits to a table leaves its older snapshots as they were."""
    store = await restored(warehouse())
    table = await process(store).table(name)
    newest = EXPECTED[name]["snapshots"][-1]
    rows = await table.scan().to_pylist()
    await table.add_column("added_later", "int", default=5)
    assert await table.scan("added_later = 5").count() == len(rows)
    await table.overwrite([])
    await table.append(rows)
    table = await process(store).table(name)
    found = await expected_of(table)
    assert json.loads(json.dumps(found["snapshots"][: newest["snapshot"]])) == EXPECTED[name]["snapshots"]
    again = [{**row, "added_later": 5} for row in newest["rows"]]
    assert found["snapshots"][-1]["rows"] == sorted(again, key=json.dumps)


async def test_names_stand_for_what_they_did() -> None:
    """A renamed table says where it is, a dropped one that it is gone, and neither is listed."""
    lake = process(await restored(warehouse()))
    assert await lake.databases() == ["golden"]
    assert [name async for name in lake.tables("golden")] == sorted(EXPECTED)
    with pytest.raises(NotFoundError, match=r"it is called 'golden\.moved' now"):
        await lake.table("golden.moving")
    with pytest.raises(NotFoundError, match="it was dropped"):
        await lake.table("golden.dropped")
