"""Files of builtins that come with the package, read once in a process."""

from __future__ import annotations

import functools
import pkgutil

from lakehouse.catalog.system.files import BuiltinFile, read_builtins
from lakehouse.errors import InternalError

__all__ = ["PACKAGED", "packaged_file"]

PACKAGED = ("duckdb", "postgres", "spark")
"""Kinds of engines whose builtins come with the package."""


@functools.cache
def packaged_file(kind: str) -> BuiltinFile:
    """Returns the file of an engine's kind, out of :data:`PACKAGED`."""
    data = pkgutil.get_data("lakehouse.catalog.system", f"builtins/{kind}.toml")
    if data is None:
        raise InternalError(f"the installation lacks the builtins of {kind}", engine=kind)
    return read_builtins(data, name=f"{kind}.toml")
