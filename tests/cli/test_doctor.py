"""``lakehouse doctor``: what is missing is named, with what to do about it."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli import doctor
from lakehouse.io.protocols import Stored
from lakehouse.io.store import ObjectStore
from lakehouse.testing import memory_store
from tests.cli.tables.test_commands import Run, run  # noqa: F401 - fixture


def _named(text: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(text)}


def test_a_good_machine_is_well(run: Run, tmp_path: Path) -> None:  # noqa: F811
    """Where all is well the exit code is 0, and the store is left as it was."""
    done = run("doctor", tmp_path, "--json")
    found = _named(done.out)
    assert done.code == 0
    assert {"python", "lakehouse", "pyarrow", "duckdb", "java", "settings", "store", "clock"} <= {*found}
    assert found["writing"]["is_good"]
    assert [*tmp_path.iterdir()] == []


def test_a_store_that_cannot_be_reached_is_ill(run: Run) -> None:  # noqa: F811
    """A store that does not answer is a failure with its reason, and what to check; exit code 3."""
    done = run("doctor", "s3://nowhere/x", "--endpoint-url", "http://127.0.0.1:9", "--json")
    store = _named(done.out)["store"]
    assert (done.code, store["is_good"]) == (3, False)
    assert "--endpoint-url" in store["todo"]


def test_reading_only_puts_nothing(run: Run, tmp_path: Path) -> None:  # noqa: F811
    """With --read-only nothing is written, and so nothing is said of the clock."""
    assert not {"writing", "clock"} & {*_named(run("doctor", tmp_path, "--read-only", "--json").out)}


def test_missing_packages_say_how_to_install_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A package of an extra that is not there is no failure, and its extra is named."""
    known = metadata.version

    def version(name: str) -> str:
        if name == "duckdb":
            return "1.4.0"
        if name == "numba":
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setenv("LAKEHOUSE_IO_NOTHING", "1")
    done = run("doctor", "--json")
    found = _named(done.out)
    assert "[fast]" in found["numba"]["todo"]
    assert "[sql]" in found["duckdb"]["todo"]
    assert (found["settings"]["is_good"], done.code) == (False, 3)


async def test_a_clock_that_is_off_is_said() -> None:
    """A machine whose clock differs from the store's by more than two seconds is told to set it."""
    store: ObjectStore = memory_store()

    async def put(key: str, data: bytes, **_: object) -> Stored:
        return Stored(key=key, size=len(data), store_time_ms=1_000)

    store.put = put  # type: ignore[method-assign, assignment]
    found = {one.name: one async for one in doctor._of_writes(store)}
    assert not found["clock"].is_good
    assert "ahead of the store" in found["clock"].found
    assert "NTP" in found["clock"].todo
