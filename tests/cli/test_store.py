"""The command line, run as a person runs it: as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse import __version__
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket

QUICK = ("--rounds", "3", "--large-bytes", "1000")
"""Words that make ``check-store`` quick."""


def lakehouse(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs ``lakehouse`` and returns what came of it."""
    command = [sys.executable, "-c", "from lakehouse.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **options)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A directory with three objects."""
    for name, data in (("a/one", b"first line\nlast line\n"), ("a/two", bytes(5000)), ("top", b"x")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return tmp_path


def test_version() -> None:
    """``--version`` prints the version and nothing else."""
    assert lakehouse("--version").stdout.decode() == f"lakehouse {__version__}\n"


def test_check_store_says_yes(tmp_path: Path) -> None:
    """check-store exits with 0 where the engine may commit, and leaves no object behind."""
    done = lakehouse("check-store", str(tmp_path), *QUICK, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["may_commit"], report["rounds"]) == (0, True, 12)
    assert {check["name"] for check in report["checks"]} >= {"create has one winner", "ranged reads"}
    assert [path for path in tmp_path.rglob("*") if path.is_file() and ".lakehouse-" not in path.name] == []


def test_check_store_prints_a_table(tmp_path: Path) -> None:
    """check-store prints every property with what was seen, and the verdict."""
    shown = lakehouse("check-store", str(tmp_path), *QUICK).stdout.decode()
    assert "read after write" in shown
    assert "The store passed 12 rounds: the engine may commit on it." in shown
    assert "safe" not in shown


def test_check_store_races_as_it_is_told(tmp_path: Path) -> None:
    """Rounds, writers and the size of large bodies are options; 0 bytes leave large bodies out."""
    words = ("--rounds", "2", "--writers", "5", "--large-bytes", "0")
    report = json.loads(lakehouse("check-store", str(tmp_path), *words, "--json").stdout)
    races = [check["race"] for check in report["checks"] if check["race"]]
    assert [(race["rounds"], race["writers"], race["bad_rounds"]) for race in races] == [(2, 5, 0)] * 2


def test_check_store_goes_through_every_endpoint(moto: ServerInfo) -> None:
    """An endpoint that does not answer is an error, also when it is not the first."""
    with fresh_bucket(moto) as bucket:
        words = [f"s3://{bucket}", "-o", f"key={moto.key}", "-o", f"secret={moto.secret}", *QUICK]
        words += ["--endpoint-url", moto.endpoint_url, "--endpoint-url", "http://127.0.0.1:9"]
        done = lakehouse("check-store", *words, env={**os.environ, "LAKEHOUSE_IO_RETRY_ATTEMPTS": "1"})
    assert done.returncode == 1
    assert "http://127.0.0.1:9" in " ".join(done.stderr.decode().split())


def test_check_store_needs_a_writer_for_each_endpoint() -> None:
    """An endpoint that no writer would go through is refused, not left out."""
    words = [word for number in range(3) for word in ("--endpoint-url", f"http://127.0.0.1:{number}")]
    done = lakehouse("check-store", "s3://bucket", "--writers", "2", *words)
    assert done.returncode == 1
    assert "--writers 3" in done.stderr.decode()


def test_check_store_says_no() -> None:
    """check-store exits with 3 on a store that cannot take part in commits, and says what is missing."""
    done = lakehouse("check-store", "data://nothing", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["may_commit"]) == (3, False)
    assert [(check["name"], check["holds"]) for check in report["checks"]] == [("takes writes", False)]


def test_ls(warehouse: Path) -> None:
    """Ls shows prefixes and objects, and everything with -r."""
    listed = json.loads(lakehouse("store", "ls", str(warehouse), "--json").stdout)
    assert listed["prefixes"] == ["a/"]
    assert [entry["key"] for entry in listed["objects"]] == ["top"]
    deep = json.loads(lakehouse("store", "ls", "-r", str(warehouse), "--json").stdout)
    assert [(entry["key"], entry["size"]) for entry in deep["objects"]] == [
        ("a/one", 21),
        ("a/two", 5000),
        ("top", 1),
    ]
    assert "4.9 KiB" in lakehouse("store", "ls", "-r", str(warehouse)).stdout.decode()


def test_stat(warehouse: Path) -> None:
    """Stat shows the size and a version."""
    shown = json.loads(lakehouse("store", "stat", f"{warehouse}/a/one", "--json").stdout)
    assert (shown["key"], shown["size"]) == ("one", 21)
    assert shown["version"]


def test_cat_and_tail_write_the_bytes_as_they_are(warehouse: Path) -> None:
    """Cat writes the object, tail its last bytes, with nothing added."""
    assert lakehouse("store", "cat", f"{warehouse}/a/two").stdout == bytes(5000)
    assert lakehouse("store", "tail", f"{warehouse}/a/one", "-n", "10").stdout == b"last line\n"


def test_tail_reports_its_cost(warehouse: Path) -> None:
    """A tail costs one request and says so."""
    told = json.loads(lakehouse("store", "tail", f"{warehouse}/a/one", "-n", "4", "--json").stdout)
    assert told["cost"]["requests"] == {"get": 1}
    assert bytes.fromhex(told["hex"]) == b"ine\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("store", "stat", "/nowhere/at/all"), "there is no such object"),
        (("store", "cat", "nokey"), "names no object"),
        (("store", "ls", "s3://key:sesame@bucket"), "must not hold credentials"),
        (("store", "ls", "nope://x"), "fsspec cannot open nope://"),
        (("store", "ls", "s3://b", "-o", "sesame"), "NAME=VALUE"),
    ],
)
def test_errors_are_one_message(words: tuple[str, ...], said: str) -> None:
    """An error is a message on standard error and exit code 1, without traceback or secrets."""
    done = lakehouse(*words)
    shown = " ".join(done.stderr.decode().split())
    assert done.returncode == 1
    assert said in shown
    assert "Traceback" not in shown
    assert "sesame" not in shown


def test_errors_as_json() -> None:
    """With --json an error is an object with its kind."""
    done = lakehouse("store", "stat", "/nowhere/at/all", "--json")
    assert json.loads(done.stdout)["error"] == "not-found"


def test_wrong_usage() -> None:
    """Wrong usage exits with 2."""
    assert lakehouse("store", "ls").returncode == 2


def test_an_unknown_setting_names_the_nearest() -> None:
    """A misspelt variable of ours is an error that names the right one."""
    done = lakehouse("store", "ls", ".", env={**os.environ, "LAKEHOUSE_IO_MAX_CONCURENCY": "3"})
    assert "LAKEHOUSE_IO_MAX_CONCURRENCY" in done.stderr.decode()
