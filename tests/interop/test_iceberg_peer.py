"""Spark with Iceberg's runtime, as a peer: where it cannot run, why is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import peer_env
from tests.interop.iceberg import peer


def test_a_missing_environment_is_said_with_what_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the environment, the command, and the two places that it fetches from."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(peer_env, "python_of", lambda name: None)
    problem = peer.problem()
    assert problem is not None
    for said in (peer.ENVIRONMENT, "`make peers`", "PyPI", "Maven Central"):
        assert said in problem


def test_missing_java_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java the environment would be of no use."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "no java on the path" in str(peer.problem())


def test_a_program_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error holds what the peer's Python said."""
    monkeypatch.setattr(peer_env, "python_of", lambda name: Path(shutil.which("python3") or "python3"))
    with pytest.raises(RuntimeError, match="No module named"):
        peer.run("there_is_no_such_program", tmp_path)


def test_the_list_of_jars_names_the_runtime() -> None:
    """The peer's jars are the ones of its list: Iceberg's runtime is among them."""
    names = [jar.name for jar in peer_env.jars_of(peer.ENVIRONMENT)]
    assert any(name.startswith("iceberg-spark-runtime-4.1_2.13") for name in names)
