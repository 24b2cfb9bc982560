"""One locked DuckDB: its settings, and every way out of it.

Each line of the table of attacks says what DuckDB itself does; a contract of ours fails when that differs.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config import SqlSettings
from lakehouse.errors import UnavailableError
from lakehouse.sql.engine.database import CONFIGURABLE, Database, open_database
from lakehouse.sql.engine.failures import SqlFailureError, said_by_duckdb

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """One locked DuckDB for the tests that leave it as it is."""
    opened = open_database(SqlSettings(threads=2))
    yield opened
    opened.close()


@pytest.fixture
def cursor(database: Database) -> Iterator[Any]:
    """A cursor, as a statement has one."""
    with database.connection.cursor() as made:
        yield made


def _refused(cursor: Any, command: str) -> str:
    """The category of DuckDB's refusal; empty where it does what it is told."""
    try:
        with said_by_duckdb():
            cursor.execute(command).fetchall()
    except SqlFailureError as error:
        return error.failure.category
    return ""


FILES = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_parquet('/tmp/x.parquet')",
    "SELECT * FROM read_json('/tmp/x.json')",
    "SELECT * FROM read_text('/etc/*')",
    "SELECT * FROM read_csv('/dev/stdin')",
    "SELECT * FROM read_text('file:///etc/passwd')",
    "SELECT * FROM read_text('/tmp/../etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/tmp/x.parquet')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM 'x.parquet'",
    "SELECT * FROM read_duckdb('/tmp/x.db')",
    "COPY (SELECT 1) TO '/tmp/lakehouse-way-out.csv'",
    "EXPORT DATABASE '/tmp/lakehouse-way-out'",
    "IMPORT DATABASE '/tmp/lakehouse-way-out'",
    "ATTACH '/tmp/lakehouse-way-out.db'",
]
NETWORK = [
    "SELECT * FROM read_json('https://example.com/x.json')",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "SELECT * FROM read_parquet('hf://datasets/x.parquet')",
    "SELECT * FROM read_parquet('lake://q2/x.parquet')",
    "SELECT * FROM read_parquet('lake:///x.parquet')",
]
EXTENSIONS = [
    "INSTALL httpfs",
    "INSTALL httpfs FROM community",
    "LOAD httpfs",
    "LOAD '/tmp/x.duckdb_extension'",
    "ATTACH 's3://bucket/x.db'",
    "ATTACH 'postgres:dbname=x'",
    "ATTACH 'dbname=x' AS p (TYPE postgres)",
    "SELECT * FROM iceberg_scan('s3://bucket/x')",
    "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE PERSISTENT SECRET x (TYPE s3)",
]
SETTINGS = [
    "SET memory_limit = '64GB'",
    "SET threads = 64",
    "SET temp_directory = '/tmp'",
    "SET max_temp_directory_size = '64GB'",
    "SET log_query_path = '/tmp/lakehouse-way-out.log'",
    "SET secret_directory = '/tmp'",
    "SET extension_directory = '/tmp'",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SET allowed_configs = ['threads']",
    "SET disabled_filesystems = ''",
    "SET python_enable_replacements = true",
    "SET GLOBAL python_enable_replacements = true",
    "SET errors_as_json = false",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "RESET allowed_directories",
    "PRAGMA enable_profiling",
    "CALL enable_logging(storage = 'file', storage_path = '/tmp/lakehouse-way-out')",
    "SELECT * FROM enable_logging('QueryLog')",
]
POINTERS = [
    "SELECT * FROM python_arrow_scan(1)",
    "SELECT * FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "SELECT * FROM pandas_scan(1::POINTER)",
    "SELECT * FROM seq_scan()",
]


@pytest.mark.parametrize("command", FILES)
def test_no_file_of_the_machine_is_reached(cursor: Any, command: str) -> None:
    """DuckDB refuses to read and to write local files, whatever function and spelling is used."""
    assert _refused(cursor, command) in ("permission", "catalog")
    assert not list(Path("/tmp").glob("lakehouse-way-out*"))


@pytest.mark.parametrize("command", NETWORK)
def test_no_other_file_system_is_reached(cursor: Any, command: str) -> None:
    """DuckDB refuses paths of the network and other beginnings than that of virtual files."""
    assert _refused(cursor, command) == "permission"


@pytest.mark.parametrize("command", EXTENSIONS)
def test_no_extension_is_loaded(cursor: Any, command: str) -> None:
    """DuckDB neither installs nor loads an extension, by name or because a function or a secret needs it."""
    assert _refused(cursor, command)
    assert not cursor.execute("SELECT * FROM duckdb_secrets()").fetchall()


@pytest.mark.parametrize("command", SETTINGS)
def test_settings_are_locked(cursor: Any, command: str) -> None:
    """DuckDB refuses to change settings, also the lock itself, and by pragmas and functions."""
    assert _refused(cursor, command) in ("invalid input", "permission", "catalog")


@pytest.mark.parametrize("command", POINTERS)
def test_sources_by_address_are_refused(cursor: Any, command: str) -> None:
    """The functions that take addresses of this process cannot be called by name."""
    assert _refused(cursor, command)


def test_variables_of_python_are_no_tables(database: Database, cursor: Any) -> None:
    """A name in SQL never finds a variable of Python, neither on a cursor nor on the connection."""
    secret = pa.table({"a": [1]})
    for connection in (cursor, database.connection):
        assert _refused(connection, "SELECT * FROM secret") == "catalog"
        with pytest.raises(Exception, match="does not exist"):
            connection.sql("SELECT * FROM secret")
    assert secret.num_rows


def test_the_environment_is_out_of_reach(cursor: Any) -> None:
    """There is no function that reads environment variables."""
    assert _refused(cursor, "SELECT getenv('HOME')") == "catalog"


def test_views_and_sources_belong_to_their_cursor(database: Database, cursor: Any) -> None:
    """No statement sees or lists the views and sources of another, nor does text that is run as SQL."""
    cursor.execute("CREATE TEMPORARY VIEW mine AS SELECT 42 AS answer")
    cursor.register("source", pa.table({"a": [1]}))
    with database.connection.cursor() as other:
        for text in ("SELECT * FROM mine", "SELECT * FROM source", "SELECT * FROM query('FROM mine')"):
            assert _refused(other, text) == "catalog"
        listed = other.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        assert not listed
    assert cursor.execute("SELECT * FROM query('FROM mine')").fetchall() == [(42,)]


def test_statements_may_change_some_settings_for_themselves(database: Database, cursor: Any) -> None:
    """What a statement may configure it can, and others do not see it."""
    cursor.execute("SET SESSION TimeZone = 'Asia/Tokyo'")
    with database.connection.cursor() as other:
        assert other.execute("SELECT current_setting('TimeZone')").fetchone() != ("Asia/Tokyo",)
    allowed = cursor.execute("SELECT current_setting('allowed_configs')").fetchone()[0]
    assert set(CONFIGURABLE) - {"streaming_buffer_size"} <= set(allowed)


def test_what_is_locked_holds_for_every_cursor(cursor: Any) -> None:
    """A cursor that is made later has the settings that lock the database."""
    wanted = {
        "allow_community_extensions": "false",
        "allow_extension_repositories": "forbidden",
        "allow_persistent_secrets": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "enable_external_access": "false",
        "enable_external_file_cache": "false",
        "errors_as_json": "true",
        "lock_configuration": "true",
        "python_enable_replacements": "false",
        "python_scan_all_frames": "false",
    }
    rows = cursor.execute("SELECT name, value FROM duckdb_settings()").fetchall()
    assert wanted == {name: value for name, value in rows if name in wanted}


def test_spilled_bytes_are_in_reach_of_computed_paths(database: Database, cursor: Any) -> None:
    """DuckDB allows its own directory to SQL, which is why text with computed paths is refused before."""
    assert database.directory is not None
    assert not _refused(cursor, f"SELECT * FROM read_blob('{database.directory.path}' || '/*')")


def test_the_directory_is_private_and_goes_with_the_database(tmp_path: Path) -> None:
    """Spilled bytes are in a directory that only this user enters, and that is gone after the close."""
    database = open_database(SqlSettings(threads=1, spill_directory=str(tmp_path)))
    (made,) = tmp_path.iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    database.close()
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A wrong place for spilled bytes is told by its path."""
    with pytest.raises(UnavailableError, match="missing"):
        open_database(SqlSettings(spill_directory=str(tmp_path / "missing")))


def test_a_database_that_is_dropped_deletes_its_directory(tmp_path: Path) -> None:
    """A database without references leaves no directory, though nobody closed it."""
    database = open_database(SqlSettings(threads=1, spill_directory=str(tmp_path)))
    del database
    assert not list(tmp_path.iterdir())


def test_closing_ends_all_threads() -> None:
    """After the close no thread is left that calls or interrupts DuckDB."""
    database = open_database(SqlSettings(threads=2))
    assert database.call(lambda: 1).result() == database.control(lambda: 1).result()
    assert any(thread.name.startswith("lakehouse-sql") for thread in threading.enumerate())
    database.close()
    assert not any(thread.name.startswith("lakehouse-sql") for thread in threading.enumerate())


def test_a_child_leaves_the_directory_to_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked process that drops its copy of the database neither closes it nor deletes its directory."""
    database = open_database(SqlSettings(threads=1, spill_directory=str(tmp_path)))
    connection = database.connection
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        del database
    assert list(tmp_path.iterdir())
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    connection.close()


LARGE = "SELECT count(*) FROM (SELECT DISTINCT hash(a), hash(a + 1) FROM range(2500000) t(a))"


def test_what_does_not_fit_into_memory_spills() -> None:
    """What needs more than the memory's bytes ends well where spilling is allowed."""
    database = open_database(SqlSettings(threads=2, memory_bytes=64 * MIB))
    assert database.connection.execute(LARGE).fetchone() == (2_500_000,)
    database.close()


@pytest.mark.parametrize("spill_bytes", [0, MIB])
def test_spilling_is_bounded(spill_bytes: int) -> None:
    """What needs more bytes on the disk than are allowed fails, and so it does without any."""
    database = open_database(SqlSettings(threads=2, memory_bytes=64 * MIB, spill_bytes=spill_bytes))
    assert (database.directory is None) == (spill_bytes == 0)
    assert _refused(database.connection, LARGE) == "out of memory"
    database.close()


def test_settings_reach_duckdb() -> None:
    """Memory, threads and spilled bytes are those of the settings."""
    settings = SqlSettings(threads=3, memory_bytes=96 * MIB, spill_bytes=5 * MIB)
    database = open_database(settings)
    names = ["memory_limit", "threads", "max_temp_directory_size"]
    values = [
        database.connection.execute(f"SELECT current_setting('{name}')").fetchone()[0] for name in names
    ]
    assert values == ["96.0 MiB", 3, "5.0 MiB"]
    database.close()
