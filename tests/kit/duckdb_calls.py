"""DuckDB that tells on which thread it is called: a call on the loop's thread holds up everybody else."""

from __future__ import annotations

import threading
import types
from typing import Any

import duckdb
import pytest

from lakehouse.sql.engine import database

__all__ = ["calls_on_this_thread"]


class _Watched:
    """An object of DuckDB whose calls are noted when the watched thread makes them."""

    def __init__(self, inner: Any, thread: int, noted: list[str]) -> None:
        self._inner, self._thread, self._noted = inner, thread, noted

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == self._thread:
                self._noted.append(name)
            return self._wrapped(value(*args, **kwargs))

        return called

    def _wrapped(self, value: Any) -> Any:
        home = type(value).__module__
        is_watched = home.startswith(("duckdb", "_duckdb")) or type(value).__name__ == "RecordBatchReader"
        return _Watched(value, self._thread, self._noted) if is_watched else value


def calls_on_this_thread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Watches every DuckDB that is made from now on; the list fills with calls made on this thread."""
    noted: list[str] = []
    here = threading.get_ident()

    def connect(*args: Any, **kwargs: Any) -> _Watched:
        if threading.get_ident() == here:
            noted.append("connect")
        return _Watched(duckdb.connect(*args, **kwargs), here, noted)

    monkeypatch.setattr(database, "duckdb", types.SimpleNamespace(connect=connect))
    return noted
