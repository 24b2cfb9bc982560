"""Options of the data source: what they say, and what is wrong with them."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from lakehouse.errors import InvalidInputError
from lakehouse.spark.reading.options import ReadOptions, WriteOptions, target_of
from lakehouse.spark.reading.relations import RelationReader
from lakehouse.spark.runtime.connection import Connection

_DEFAULT = Connection(url="s3://b/w", storage_options={"endpoint_url": "http://e"}, settings={"a.b": 1})


def test_what_a_read_asks_for() -> None:
    """Names come in lower case, values as text."""
    found = ReadOptions.parse(
        {"path": "db.t", "columns": "id, amount", "version": "7", "split_bytes": "64MB", "pin": "2.5"}
    )
    assert found == ReadOptions(columns=("id", "amount"), version=7, split_bytes=64 * 1024**2, pin_s=2.5)


def test_columns_with_commas_are_given_as_json() -> None:
    """A list of names."""
    assert ReadOptions.parse({"columns": '["a,b", "c"]'}).columns == ("a,b", "c")


@pytest.mark.parametrize(
    ("text", "value"), [("1700000000000", 1_700_000_000_000), ("2026-01-01", "2026-01-01")]
)
def test_moments_are_milliseconds_or_iso_text(text: str, value: object) -> None:
    """A number is milliseconds since 1970."""
    assert ReadOptions.parse({"timestamp": text}).timestamp == value


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"colums": "a"}, "there is no option 'colums' for reading; did you mean 'columns'"),
        ({"table": "db.t", "option.table": "db.t"}, "use CREATE TEMPORARY VIEW"),
        ({"version": "newest"}, "'version' must be a whole number"),
        ({"split_bytes": "0"}, "'split_bytes' must be at least 1"),
        ({"columns": "a,,b"}, "'columns' is names"),
        ({"columns": "[1"}, "no JSON list"),
        ({"pin": "0"}, "'pin' must be at least 0.001"),
        ({"freshness": "now"}, "'snapshot' or 'wal'"),
        ({"version": "1", "tag": "a"}, "one of version, timestamp, tag"),
        ({"incremental_to": "3"}, "incremental_to goes with incremental_from"),
        ({"freshness": "wal", "version": "3"}, "goes with no version"),
        ({"relation": "files", "columns": "a"}, "a relation is small"),
        ({"changes": "perhaps"}, "'changes' must be true or false"),
    ],
)
def test_reads_that_make_no_sense_are_refused(options: dict[str, str], says: str) -> None:
    """The message names the option."""
    with pytest.raises(InvalidInputError, match=says):
        ReadOptions.parse(options)


def test_what_a_write_is_to_do() -> None:
    """mode is another name of operation; what Spark adds for itself is kept aside."""
    found = WriteOptions.parse(
        {
            "table": "db.t",
            "mode": "Upsert",
            "writer_id": "w",
            "writer_sequence": "3",
            "checkpointlocation": "x",
        }
    )
    assert (found.operation, found.writer_id, found.writer_sequence) == ("upsert", "w", 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"operation": "merge"}, "one of append, upsert"),
        ({"writer_id": "w"}, "belong together"),
        ({"columns": "a"}, "no option 'columns' for writing"),
        ({"operation": "append", "mode": "upsert"}, "say different things"),
    ],
)
def test_writes_that_make_no_sense_are_refused(options: dict[str, str], says: str) -> None:
    """The message names the option."""
    with pytest.raises(InvalidInputError, match=says):
        WriteOptions.parse(options)


def test_options_add_to_the_warehouse_of_the_session() -> None:
    """They win over what it says, and values are what they look like."""
    connection, table = target_of(
        {"path": "db.t", "storage.anon": "true", "storage.key": "123", "setting.table.scan_concurrency": "2"},
        _DEFAULT,
    )
    assert table == "db.t"
    assert connection.url == "s3://b/w"
    assert connection.revealed_options() == {"endpoint_url": "http://e", "anon": True, "key": "123"}
    assert connection.settings == {"a.b": 1, "table.scan_concurrency": 2}


def test_storage_options_as_a_whole_are_all_there_are() -> None:
    """Nothing of the session's is added, neither key nor bound, though the warehouse is the same."""
    connection, _ = target_of({"table": "db.t", "storage_options": '{"anon": true}'}, _DEFAULT)
    assert connection == Connection(url="s3://b/w", storage_options={"anon": True})


def test_another_warehouse_takes_nothing_from_the_session() -> None:
    """Its storage options are other ones."""
    connection, _ = target_of(
        {"warehouse": "s3://c/w", "table": "db.t", "storage_options": '{"region": "r"}'}, _DEFAULT
    )
    assert connection == Connection(url="s3://c/w", storage_options={"s3.region": "r"})


@pytest.mark.parametrize(
    ("options", "says"),
    [({"table": "db.t"}, "which warehouse"), ({"warehouse": "s3://b/w"}, "which table")],
)
def test_a_target_that_is_not_told_is_asked_for(options: dict[str, str], says: str) -> None:
    """With how to tell it."""
    with pytest.raises(InvalidInputError, match=says):
        target_of(options)


def test_storage_options_are_not_shown_when_they_are_wrong() -> None:
    """They may hold a key."""
    with pytest.raises(InvalidInputError) as caught:
        target_of({"warehouse": "s3://b/w", "table": "db.t", "storage_options": "{secret"})
    assert "secret" not in str(caught.value)


def test_a_relation_has_one_of_the_names_there_are() -> None:
    """A relation that is none is refused before a method is called by its name, with columns given too."""
    with pytest.raises(InvalidInputError, match="there is no relation 'compact'"):
        RelationReader(_DEFAULT, "db.t", ReadOptions(relation="compact"), StructType([]))
