"""States of tables: what travels to processes that plan and read."""

from __future__ import annotations

import pickle

from lakehouse import iceberg
from tests.kit.iceberg_spark_tables import SPARK_FOLDER


async def test_a_state_has_one_snapshot_and_its_schema() -> None:
    """The snapshot that is asked for arrives, in the schema that the table's own plan has; no other does."""
    async with await iceberg.open(str(SPARK_FOLDER / "time_travel"), moved=True) as table:
        for snapshot in table.metadata.snapshots:
            state = pickle.loads(pickle.dumps(table.state(snapshot=snapshot)))
            assert list(state.metadata.snapshots) == [snapshot]
            assert state.schema == (await table.plan(snapshot=snapshot)).schema
            assert state.locations.moved
        assert table.state().snapshot == table.metadata.current_snapshot


async def test_a_state_shows_no_places() -> None:
    """Places, and the options by which they are reached, are in no text of a state."""
    async with await iceberg.open(str(SPARK_FOLDER / "v1"), moved=True) as table:
        state = table.state()
        assert "Locations" not in repr(state)
        assert "Settings" not in repr(state)
