"""``make minio``: built once, at one version, and whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "build_minio.sh"
VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
GO = """#!/bin/sh
echo "$@" >>"$LOG"
case "$1 $2" in
"env GOVERSION") echo "$GO_VERSION" ;;
"version -m") [ -e "$3" ] && echo "mod github.com/minio/minio $(cat "$3")" ;;
install*) if [ "$GO_FAILS" = yes ]; then echo half >"$GOBIN/half"; exit 1; fi
    for last; do :; done; echo "${last#*@}" >"$GOBIN/minio"; chmod +x "$GOBIN/minio" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the script in it."""
    (tmp_path / "tools").mkdir()
    shutil.copy(SCRIPT, tmp_path / "tools")
    return tmp_path


def build(
    checkout: Path, *, go: str | None = "go1.26.8", fails: bool = False
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Runs the script with a Go that only notes what it is asked for; gives the outcome and the notes."""
    tools = checkout / "path"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    for name in ("sh", "dirname", "grep", "sed", "mktemp", "mkdir", "mv", "rm", "cat", "chmod"):
        (tools / name).symlink_to(shutil.which(name) or name)
    if go is not None:
        (tools / "go").write_text(GO)
        (tools / "go").chmod(0o755)
    log = checkout / "log"
    log.write_text("")
    done = subprocess.run(
        [str(checkout / "tools" / "build_minio.sh")],
        env={
            "PATH": str(tools),
            "LOG": str(log),
            "GO_VERSION": go or "",
            "GO_FAILS": "yes" if fails else "no",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done, [line for line in log.read_text().splitlines() if line.startswith("install")]


def test_minio_is_built_at_the_pinned_version(checkout: Path) -> None:
    """Go installs exactly that version, and the binary ends up in .cache/bin."""
    done, installs = build(checkout)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in installs] == [f"github.com/minio/minio@{VERSION}"]
    assert os.access(checkout / ".cache" / "bin" / "minio", os.X_OK)
    assert [path.name for path in (checkout / ".cache" / "bin").iterdir()] == ["minio"]


def test_minio_is_built_once(checkout: Path) -> None:
    """A second run finds the binary and builds nothing."""
    build(checkout)
    done, installs = build(checkout)
    assert (done.returncode, installs) == (0, [])


def test_another_version_is_replaced(checkout: Path) -> None:
    """A binary of another version is built anew."""
    build(checkout)
    binary = checkout / ".cache" / "bin" / "minio"
    binary.write_text("v0.0.0-older\n")
    build(checkout)
    assert binary.read_text() == f"{VERSION}\n"


def test_a_build_that_fails_leaves_nothing(checkout: Path) -> None:
    """A failed build is an error and leaves neither a binary nor its directory."""
    done, _ = build(checkout, fails=True)
    assert done.returncode != 0
    assert list((checkout / ".cache" / "bin").iterdir()) == []


@pytest.mark.parametrize(
    ("go", "reason"), [(None, "Go is not installed"), ("go1.19.2", "Go 1.19 is too old")]
)
def test_without_go_nothing_is_built_and_that_is_said(checkout: Path, go: str | None, reason: str) -> None:
    """Tests and demo have other stores, so it is no error, but it is never silent."""
    done, installs = build(checkout, go=go)
    assert (done.returncode, installs) == (0, [])
    assert reason in done.stderr
    assert "Docker or moto" in done.stderr


def test_a_binary_is_kept_without_go(checkout: Path) -> None:
    """A machine that has the binary and no Go is told that it is there."""
    build(checkout)
    done, _ = build(checkout, go=None)
    assert "MinIO is there" in done.stdout
