"""Commands that fail end with their own exit code, and processes of the library do so too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse.sync
from tests.kit.failing_commands import exit_codes


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, storage_options: dict[str, Any]) -> None:
    """Commands find the store in the environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", storage_options["endpoint_url"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", storage_options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", storage_options["secret"])


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_failing_commands_end_with_their_own_exit_code(bucket_url: str) -> None:
    """A command that fails ends with 1, however fast the interpreter ends after its last request."""
    assert exit_codes(100, "table", "tag", f"{bucket_url}/warehouse", "shop.orders", "v1") == {1: 100}


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """``lakehouse … | head -1`` says nothing on standard error, and is ended by no signal."""
    with lakehouse.sync.connect(str(tmp_path)) as lake:
        lake.create_database("db")
        lake.create_table("db.t", pa.schema({"id": pa.int64()})).append(
            [{"id": one} for one in range(20_000)]
        )
    command = [sys.executable, "-c", "from lakehouse.cli import main; main()"]
    scan = [*command, "table", "scan", str(tmp_path), "db.t", "--json"]
    with subprocess.Popen(scan, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline()
        reading.stdout.close()
        assert reading.stderr.read() == b""
    assert reading.returncode in (0, 1)
