"""Warnings of a statement: what a system table has no rows of, because it could not be read."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.system import SystemWarning
from lakehouse.errors import KINDS, LakehouseError
from lakehouse.log import get_logger

__all__ = ["Complaints"]

_log = get_logger(__name__)
_MAX = 1_000


class Complaints:
    """Warnings, the first 1,000 of them.

    Args:
        is_masked: whether messages, which may hold locations, are replaced by what their kind means.
    """

    def __init__(self, *, is_masked: bool = False) -> None:
        self.is_masked = is_masked
        self.found: list[SystemWarning] = []

    def add(self, catalog: str, path: RelationPath, kind: str, message: str) -> None:
        """Notes that something could not be read."""
        text = KINDS.get(kind, kind) if self.is_masked else message
        warning = SystemWarning(catalog=catalog, path=path, kind=kind, message=text)
        if len(self.found) < _MAX:
            self.found.append(warning)
        _log.warning("rows of a system table are missing", table=".".join(path), kind=kind, what=text)

    def add_error(self, catalog: str, path: RelationPath, error: LakehouseError) -> None:
        """Notes an error, unless it is that of a table that was dropped since it was listed."""
        if error.context.get("missing") != "table":
            self.add(catalog, path, error.kind, error.message)

    def add_all(self, warnings: Iterable[SystemWarning]) -> None:
        """Notes what a listing could not read."""
        for one in warnings:
            self.add(one.catalog, one.path, one.kind, one.message)
