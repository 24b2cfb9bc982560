"""The suite's own object stores: one for all workers, and nothing skipped silently."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.testing.endpoint import ServerInfo

ROOT = Path(__file__).parents[2]


def run_pytest(directory: Path, test: str, *arguments: str, **environment: str) -> str:
    """Runs a test file with the fixtures in a pytest of its own; gives what it prints."""
    (directory / "test_it.py").write_text(test)
    (directory / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.plugins.fix_servers", "-rs", *arguments],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_workers_share_one_store(object_store_server: ServerInfo, tmp_path: Path) -> None:
    """With xdist every worker uses the store that the controller started, and its end is reported."""
    if object_store_server.kind == "moto":
        pytest.skip("no real object store can be had here")
    test = """
import os, pathlib, pytest
@pytest.mark.parametrize("number", range(4))
def test_it(minio, worker_id, number):
    pathlib.Path(f"seen-{worker_id}-{number}").write_text(minio.endpoint_url)
"""
    printed = run_pytest(tmp_path, test, "-p", "xdist", "-n", "2", "--dist", "each")
    seen = {path.read_text() for path in tmp_path.glob("seen-*")}
    assert len({path.name.split("-")[1] for path in tmp_path.glob("seen-*")}) == 2
    assert len(seen) == 1
    assert f"at {seen.pop()}" in printed


def test_a_run_without_a_real_store_says_so(tmp_path: Path) -> None:
    """The header, the skipped test and the end of the run all give the reason."""
    test = """
def test_real(minio): raise AssertionError
def test_best(bucket_url, object_store_server): assert object_store_server.kind == "moto"
"""
    printed = run_pytest(tmp_path, test, LAKEHOUSE_TEST_STORE="moto")
    header, _, rest = printed.partition("collected 2 items")
    assert "moto alone; tests that need a real store are skipped" in header
    assert "not minio: LAKEHOUSE_TEST_STORE asks for moto" in header
    assert "1 passed, 1 skipped" in rest
    assert "were skipped: no object store can be had here (environment: LAKEHOUSE_TEST_STORE" in rest


def test_the_header_says_what_will_run(object_store_server: ServerInfo, tmp_path: Path) -> None:
    """The header names the store's kind and why each better one is not used."""
    printed = run_pytest(tmp_path, "def test_nothing(): pass")
    if object_store_server.kind != "moto":
        assert f"object store: {object_store_server.kind}, and moto where a test asks for it" in printed
    for kind, _ in object_store_server.passed_over:
        assert f"not {kind}: " in printed
