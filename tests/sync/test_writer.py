"""Streaming writers without await."""

from __future__ import annotations

import pyarrow as pa

import lakehouse.sync


def test_what_is_put_is_durable_when_it_was_waited_for() -> None:
    """A put that was waited for is read by fresh reads, and by all once the writer is closed."""
    with lakehouse.sync.connect("memory://writer-without-await") as lake:
        lake.create_database("db", if_not_exists=True)
        table = lake.create_table("db.t", pa.schema({"id": pa.int64()}), primary_key=["id"])
        with table.writer() as writer:
            ack = writer.put([{"id": 1}])
            assert ack.wait() == 2
            assert ack.is_done
            writer.delete([{"id": 3}])
            assert table.scan(freshness="wal").to_pylist() == [{"id": 1}]
            writer.flush()
            assert writer.report().rows == 2
        writer.close()
        assert table.scan().to_pylist() == [{"id": 1}]
        lake.drop_table("db.t")
