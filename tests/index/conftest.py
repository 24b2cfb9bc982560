"""What every test of indexes stands on."""

from __future__ import annotations

import logging

import pytest

from lakehouse.log import Logger


@pytest.fixture(autouse=True)
def fresh_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that other tests logged do not hold back those of this one."""
    monkeypatch.setattr("lakehouse.index.metas.enumerate._log", Logger(logging.getLogger("lakehouse.index")))
