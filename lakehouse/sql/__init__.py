"""SQL: DuckDB executes, the catalog says what a name is, and all bytes go through our own I/O.

Importing it loads no DuckDB; the extra ``sql`` installs it, and without that the import says so.
"""

from __future__ import annotations

from importlib.util import find_spec

from lakehouse._version import install_command as _install_command
from lakehouse.errors import InvalidInputError as _InvalidInputError

__all__: list[str] = []

if find_spec("duckdb") is None:
    raise _InvalidInputError(f"SQL needs the duckdb package: {_install_command('sql')}", kind="missing-extra")
