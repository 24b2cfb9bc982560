"""Java of this machine: found, and of a version that Spark runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.java import java_problem


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        ('openjdk version "17.0.15" 2025-04-15', None),
        ('openjdk version "21" 2023-09-19', None),
        ('java version "1.8.0_402"', "is Java 8"),
        ("something else", "does not say its version"),
    ],
)
def test_the_version_of_java_is_looked_at(
    says: str, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java 17 or newer is right; what is wrong with another one is said."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = java_problem()
    assert (found is None) if problem is None else (found is not None and problem in found)


def test_a_machine_without_java_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word is a clear one, and says where Java was looked for."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_problem() == "Spark needs Java 17 or newer: there is none in PATH"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_problem() == f"Spark needs Java 17 or newer: there is none in JAVA_HOME ({tmp_path})"
