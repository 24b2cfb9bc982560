"""One DuckDB, made and locked: what it may do is decided before the first statement, and never again.

Settings are set for the whole instance (``SET GLOBAL``), because a plain ``SET`` of several of them holds for
one connection only, and each statement has another. The directory for spilled bytes comes first: it cannot
be set once external access is off.

Invariant: a closed database leaves no thread and no file. A process that was forked neither uses nor closes
the database of its parent.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import duckdb

from lakehouse.config import SqlSettings
from lakehouse.io.spill import PrivateDirectory
from lakehouse.sql.engine.functions import add_functions
from lakehouse.sql.engine.virtual_files import ROOT, LakeFileSystem

__all__ = ["CONFIGURABLE", "LOCKING", "Database", "open_database"]

R = TypeVar("R")

CONFIGURABLE = (
    *("Calendar", "TimeZone", "default_null_order", "default_order", "disabled_optimizers"),
    *("integer_division", "max_execution_time", "streaming_buffer_size"),
)
"""Settings of DuckDB that a statement may have for itself."""
_UNLOCKED = (*CONFIGURABLE, "enable_progress_bar", "enable_progress_bar_print")
LOCKING = (
    "SET GLOBAL errors_as_json = true",
    # Answers are the same on every machine, unless a session says where it is.
    "SET GLOBAL TimeZone = 'UTC'",
    "SET GLOBAL enable_external_file_cache = false",
    f"SET GLOBAL allowed_directories = ['{ROOT}']",
    "SET GLOBAL enable_external_access = false",
    "SET GLOBAL python_enable_replacements = false",
    "SET GLOBAL python_scan_all_frames = false",
    "SET GLOBAL autoinstall_known_extensions = false",
    "SET GLOBAL autoload_known_extensions = false",
    "SET GLOBAL allow_community_extensions = false",
    "SET GLOBAL allow_extension_repositories = 'forbidden'",
    "SET GLOBAL allow_persistent_secrets = false",
    f"SET GLOBAL allowed_configs = {list(_UNLOCKED)}",
    "SET GLOBAL lock_configuration = true",
)
"""Commands that lock a database, in this order."""


class Database:
    """An open DuckDB, its threads for callers, its files and its directory; used on any thread.

    Args:
        connection: DuckDB's, from which each statement has a cursor.
        file_system: where it finds the virtual files of statements.
        directory: private directory for spilled bytes; None = none.
        settings: bounds.
    """

    def __init__(
        self,
        connection: Any,
        file_system: LakeFileSystem,
        directory: PrivateDirectory | None,
        settings: SqlSettings,
    ) -> None:
        self.connection = connection
        self.file_system = file_system
        self.settings = settings
        self.directory = directory
        self.is_broken = False
        """Whether DuckDB refuses everything since it met a bug of its own."""
        self._calls = concurrent.futures.ThreadPoolExecutor(settings.concurrency, "lakehouse-sql")
        # Interrupts find a thread even when every statement is at work.
        self._control = concurrent.futures.ThreadPoolExecutor(1, "lakehouse-sql-control")
        self._dropped = weakref.finalize(self, _dispose, connection, os.getpid())

    def call(self, work: Callable[[], R]) -> concurrent.futures.Future[R]:
        """Begins a call of DuckDB in a thread, with the context of the caller."""
        return self._calls.submit(contextvars.copy_context().run, work)

    def control(self, work: Callable[[], R]) -> concurrent.futures.Future[R]:
        """Begins a call that ends others, such as an interrupt, in a thread that these do not hold."""
        return self._control.submit(work)

    def close(self) -> None:
        """Closes DuckDB, ends its threads and deletes what was spilled; waits for all of it."""
        self._dropped()
        self._calls.shutdown()
        self._control.shutdown()
        if self.directory is not None:
            self.directory.close()


def open_database(settings: SqlSettings) -> Database:
    """Makes a DuckDB and locks it; takes some tens of milliseconds, and so runs in a thread."""
    directory = PrivateDirectory(settings.spill_directory or None) if settings.spill_bytes else None
    connection = duckdb.connect(":memory:", config=_opening(settings, directory))
    file_system = LakeFileSystem()
    connection.register_filesystem(file_system)
    add_functions(connection)
    # Among the options above, DuckDB 2.0 shows this one and does not keep to it.
    connection.execute(f"SET GLOBAL max_temp_directory_size = '{settings.spill_bytes}B'")
    for command in LOCKING:
        connection.execute(command)
    return Database(connection, file_system, directory, settings)


def _opening(settings: SqlSettings, directory: PrivateDirectory | None) -> dict[str, str]:
    """Options that DuckDB takes when it is made, and not later."""
    options = {
        "temp_directory": directory.path if directory else "",
        "memory_limit": f"{settings.memory_bytes}B",
    }
    return {**options, "threads": str(settings.threads)} if settings.threads else options


def _dispose(connection: Any, pid: int) -> None:
    if pid == os.getpid():
        connection.close()
