"""Servers of tests: built or fetched once, at one version, and whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
GO = """#!/bin/sh
echo "$@" >>"$LOG"
case "$1 $2" in
"env GOVERSION") echo "$GO_VERSION" ;;
"version -m") [ -e "$3" ] && printf 'path x\\n\\tmod\\tx\\t%s\\n\\tdep\\ty\\tv1.8.0\\n' "$(cat "$3")" ;;
install*) if [ "$GO_FAILS" = yes ]; then echo half >"$GOBIN/half"; exit 1; fi
    for last; do :; done; name=${last%@*}; echo "${last#*@}" >"$GOBIN/${name##*/}"
    chmod +x "$GOBIN/${name##*/}" ;;
esac
"""
MVN = """#!/bin/sh
echo "install $@" >>"$LOG"
for word; do case "$word" in
    -DoutputDirectory=*) jars=${word#*=} ;;
    */pom.xml) grep -o '<version>[0-9.]*' "$word" >>"$LOG" ;;
esac; done
mkdir -p "$jars"; echo half >"$jars/half.jar"; [ "$GO_FAILS" != yes ]
"""


PROGRAMS = ("sh", "dirname", "grep", "sed", "mktemp", "mkdir", "mv", "rm", "cat", "chmod", "true")


@dataclass(frozen=True)
class Server:
    """A server that is built with Go."""

    name: str
    package: str
    version: str
    without: str
    """Where it is missing."""


SERVERS = [
    Server("minio", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c", "Docker or moto"),
    Server("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0", "make interop skips"),
    Server("rclone", "github.com/rclone/rclone", "v1.75.1", "make interop skips"),
]


@pytest.fixture(params=SERVERS, ids=lambda server: server.name)
def server(request: pytest.FixtureRequest) -> Server:
    """Each of them."""
    found: Server = request.param
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the scripts in it."""
    (tmp_path / "tools").mkdir()
    for script in TOOLS.glob("build_*.sh"):
        shutil.copy(script, tmp_path / "tools")
    return tmp_path


def build(
    checkout: Path, name: str, *, go: str | None = "go1.26.8", mvn: bool = True, fails: bool = False
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Runs a script with a Go and a Maven that only note what they are asked for; gives outcome and notes."""
    tools = checkout / "path"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    for program in PROGRAMS:
        (tools / program).symlink_to(shutil.which(program) or program)
    (tools / "java").symlink_to(tools / "true")
    for program, script in (("go", GO if go else None), ("mvn", MVN if mvn else None)):
        if script is not None:
            (tools / program).write_text(script)
            (tools / program).chmod(0o755)
    log = checkout / "log"
    log.write_text("")
    done = subprocess.run(
        [str(checkout / "tools" / f"build_{name}.sh")],
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
    return done, [line for line in log.read_text().splitlines() if not line.startswith(("env", "version"))]


def test_a_server_is_built_at_the_pinned_version(checkout: Path, server: Server) -> None:
    """Go installs exactly that version, and the binary ends up in .cache/bin."""
    done, installs = build(checkout, server.name)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in installs] == [f"{server.package}@{server.version}"]
    assert os.access(checkout / ".cache" / "bin" / server.name, os.X_OK)
    assert [path.name for path in (checkout / ".cache" / "bin").iterdir()] == [server.name]


def test_a_server_is_built_once(checkout: Path, server: Server) -> None:
    """A second run finds the binary and builds nothing."""
    build(checkout, server.name)
    done, installs = build(checkout, server.name)
    assert (done.returncode, installs) == (0, [])


def test_another_version_is_replaced(checkout: Path, server: Server) -> None:
    """A binary of another version is built anew, also when a dependency of it has the pinned one."""
    build(checkout, server.name)
    binary = checkout / ".cache" / "bin" / server.name
    binary.write_text("v0.0.0-older\n")
    build(checkout, server.name)
    assert binary.read_text() == f"{server.version}\n"


@pytest.mark.parametrize("name", ["minio", "versitygw", "rclone", "s3proxy"])
def test_a_build_that_fails_leaves_nothing(checkout: Path, name: str) -> None:
    """A failed build is an error and leaves neither a binary nor its directory."""
    done, _ = build(checkout, name, fails=True)
    assert done.returncode != 0
    assert list((checkout / ".cache" / "bin").iterdir()) == []


@pytest.mark.parametrize(
    ("go", "reason"), [(None, "Go is not installed"), ("go1.19.2", "Go 1.19 is too old")]
)
def test_without_go_nothing_is_built_and_that_is_said(
    checkout: Path, server: Server, go: str | None, reason: str
) -> None:
    """Those who need the server have others or are skipped, so it is no error, but it is never silent."""
    done, installs = build(checkout, server.name, go=go)
    assert (done.returncode, installs) == (0, [])
    assert reason in done.stderr
    assert server.without in done.stderr


def test_a_binary_is_kept_without_go(checkout: Path, server: Server) -> None:
    """A machine that has the binary and no Go is told that it is there."""
    build(checkout, server.name)
    done, _ = build(checkout, server.name, go=None)
    assert f"{server.name} is there" in done.stdout


def test_jars_are_fetched_once_at_the_pinned_version(checkout: Path) -> None:
    """Maven copies the jars of that version into a directory named for it; a second run asks nothing."""
    done, asked = build(checkout, "s3proxy")
    assert done.returncode == 0, done.stderr
    assert {"<version>4.1.0", "<version>2.21"} <= set(asked)
    assert [path.name for path in (checkout / ".cache" / "bin").iterdir()] == ["s3proxy-4.1.0"]
    done, asked = build(checkout, "s3proxy")
    assert (done.returncode, asked) == (0, [])


def test_without_maven_nothing_is_fetched_and_that_is_said(checkout: Path) -> None:
    """Those who need the jars can do without, so it is no error, but it is never silent."""
    done, asked = build(checkout, "s3proxy", mvn=False)
    assert (done.returncode, asked) == (0, [])
    assert "mvn is not installed" in done.stderr
