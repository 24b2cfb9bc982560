"""A fresh clone has what it needs, and nothing of the machine it was written on."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess

import pytest

from tests.house.repository import index_addresses, machine_paths, make_targets, mentioned_targets
from tests.house.source_tree import ROOT, none_of, texts, tracked_files

TARGETS = {
    "bench",
    "chaos",
    "clean",
    "constraints",
    "demo",
    "docs",
    "help",
    "interop",
    "lint",
    "minio",
    "setup",
    "test",
    "type",
}


def makefile() -> str:
    """The Makefile."""
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def test_no_machine_paths() -> None:
    """No file names a path of the machine it was written on."""
    none_of((row for item in texts().items() for row in machine_paths(*item)), "machine paths:")


def test_no_package_index_addresses() -> None:
    """No file says where packages come from."""
    # Jars have no installer whose configuration could say it.
    allowed = {"benchmarks/peer_env.py", "tests/house/repository.py", "tests/house/test_repository.py"}
    rows = (
        row for path, text in texts().items() if path not in allowed for row in index_addresses(path, text)
    )
    none_of(rows, "package index addresses:")


@pytest.mark.parametrize(
    "line",
    ["cd /ho" + "me/someone/x", 'open("/wo' + 'rk/main")', "file:///ro" + "ot/x", "PATH=/Us" + "ers/x/bin"],
)
def test_the_scan_finds_a_machine_path(line: str) -> None:
    """A path is found in text, code and addresses."""
    assert list(machine_paths("x", line))


@pytest.mark.parametrize("line", ["s3://bucket/home/x", "{warehouse}/work/x", "a/root/b", "/home/"])
def test_the_scan_knows_a_key_from_a_path(line: str) -> None:
    """Parts of keys and addresses are no paths."""
    assert not list(machine_paths("x", line))


@pytest.mark.parametrize("line", ["pip install --index-url x", "https://pypi.org/simple", "GOPROXY=direct"])
def test_the_scan_finds_an_index(line: str) -> None:
    """An index is found by address and by option."""
    assert list(index_addresses("x", line))


def test_the_license_is_apache_2() -> None:
    """LICENSE is the Apache License 2.0, word for word."""
    digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


@pytest.mark.parametrize("path", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_documents_are_there(path: str) -> None:
    """The documents a newcomer looks for are in the repository."""
    assert path in tracked_files()


def test_the_changelog_has_an_unreleased_section() -> None:
    """Changes are written down before a release collects them."""
    heads = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heads[0] == "Unreleased"


def test_every_target_is_there_and_listed() -> None:
    """``make help`` lists each target with one line."""
    assert make_targets(makefile()) >= TARGETS
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    listed = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith("make")]
    assert sorted(listed) == sorted(make_targets(makefile()))


def test_every_target_that_is_no_file_is_phony() -> None:
    """A file called like a target does not stop the target."""
    phony = re.search(r"^\.PHONY: (.+)$", makefile(), re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == make_targets(makefile())


def test_documents_mention_targets_that_exist() -> None:
    """What a document tells people to make can be made."""
    rows = [
        f"{path}: make {target}"
        for path, text in texts().items()
        if path.endswith(".md")
        for target in mentioned_targets(text) - make_targets(makefile())
    ]
    none_of(rows, "targets that do not exist:")


def test_targets_are_found_in_code_only() -> None:
    """Prose that makes sense mentions no target."""
    text = "We make sense. Run `make test`, or:\n```sh\ncd x\nmake demo\n```\n"
    assert mentioned_targets(text) == {"test", "demo"}


@pytest.mark.parametrize("target", ["interop", "chaos"])
def test_a_target_without_tests_says_so(target: str) -> None:
    """Asking for tests that do not exist yet fails with a sentence; it is no silent success."""
    # Nothing is installed or built: those steps are declared done.
    command = ["make", target, "--old-file=setup", "--old-file=minio", "--old-file=.venv/.installed", "-n"]
    env = {**os.environ, "MAKEFLAGS": ""}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=env)
    if (ROOT / "tests" / target).exists():
        assert f"-m pytest tests/{target}" in done.stdout
    else:
        assert done.returncode == 2
        assert f"there is nothing to run yet: tests/{target} does not exist" in done.stderr


def test_ci_runs_make_test() -> None:
    """What CI runs is what people run."""
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert text.rstrip().endswith("make --no-print-directory test")
