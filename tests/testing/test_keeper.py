"""The keeper: a command that never outlives its owner, whatever becomes of either."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from lakehouse.testing.keeper import kept
from lakehouse.testing.servers import obstacle
from tests.kit.owners import eventually, owner

# Writes its process id where the test looks, then stays.
STAY = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w')); time.sleep(600)"
OWNER = f"""
import os, sys, tempfile, time
from lakehouse.testing.keeper import kept
pid_file, directory, parted, forks = sys.argv[1:]
command = [sys.executable, "-c", {STAY!r}, pid_file]
parting = [sys.executable, "-c", "import sys; open(sys.argv[1], 'w')", parted]
with tempfile.TemporaryFile() as log, kept(command, log=log, remove=directory, parting=parting):
    if forks == "yes" and os.fork() == 0:
        time.sleep(20)  # holds the pipe to the keeper open
        os._exit(0)
    print("ready", flush=True)
    sys.stdin.read()
"""
MINIO_OWNER = """
import sys
from lakehouse.testing.servers import minio_server
with minio_server() as info:
    print(info.endpoint_url, flush=True)
    sys.stdin.read()
"""


def alive(pid: int) -> bool:
    """True while a process of that id runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: it ended between opening and reading
        return False


def pid_in(path: Path) -> int:
    """The process id that a command writes to a file once it runs."""
    eventually(lambda: path.exists() and path.read_text().endswith("\n"), "the command started")
    return int(path.read_text())


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")


@pytest.mark.parametrize("forks", ["no", "yes"])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_command_ends_with_its_owner(tmp_path: Path, end: signal.Signals, forks: str) -> None:
    """An owner that is killed leaves no process and no directory, even when a fork of it lives on."""
    directory = tmp_path / "data"
    directory.mkdir()
    with owner(OWNER, tmp_path / "pid", directory, tmp_path / "parted", forks) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pid = pid_in(tmp_path / "pid")
        process.send_signal(end)
        eventually(lambda: not alive(pid), "the command ended")
        eventually(lambda: not directory.exists(), "the directory went")
        assert (tmp_path / "parted").exists()


@pytest.mark.skipif(obstacle("minio") is not None, reason=f"MinIO cannot be had: {obstacle('minio')}")
def test_no_minio_outlives_a_killed_owner(tmp_path: Path) -> None:
    """MinIO's process and its data go when the process that started it is killed."""
    with owner(f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}{MINIO_OWNER}") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        (data,) = tmp_path.iterdir()
        process.kill()
        eventually(lambda: not data.exists(), "the data went")
        eventually(lambda: not processes_naming(data), "its processes ended")


def processes_naming(directory: Path) -> list[int]:
    """Processes that have the directory in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(FileNotFoundError, ProcessLookupError):
            if str(directory).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's death signal")
def test_the_command_ends_with_its_keeper(tmp_path: Path) -> None:
    """A keeper that is killed takes the command with it."""
    with (
        tempfile.TemporaryFile() as log,
        kept([sys.executable, "-c", STAY, str(tmp_path / "pid")], log=log) as keeper,
    ):
        pid = pid_in(tmp_path / "pid")
        keeper.kill()
        eventually(lambda: not alive(pid), "the command ended")


def test_the_command_ends_with_the_block(tmp_path: Path) -> None:
    """After the block the command is gone, and the directory with it."""
    directory = tmp_path / "data"
    directory.mkdir()
    command = [sys.executable, "-c", STAY, str(tmp_path / "pid")]
    with tempfile.TemporaryFile() as log, kept(command, log=log, remove=str(directory)) as keeper:
        pid = pid_in(tmp_path / "pid")
        assert keeper.poll() is None
    assert not alive(pid)
    assert not directory.exists()


def test_the_end_of_the_command_is_seen() -> None:
    """The keeper ends with the command's status, and the log has what it printed."""
    with (
        tempfile.TemporaryFile() as log,
        kept([sys.executable, "-c", "import sys; print('so long'); sys.exit(7)"], log=log) as keeper,
    ):
        assert keeper.wait(15) == 7
        log.seek(0)
        assert log.read() == b"so long\n"


def test_an_interrupt_from_the_terminal_is_for_the_owner(tmp_path: Path) -> None:
    """The command is in another session, so Ctrl-C leaves the owner's server to the owner."""
    with (
        tempfile.TemporaryFile() as log,
        kept([sys.executable, "-c", STAY, str(tmp_path / "pid")], log=log),
    ):
        assert os.getsid(pid_in(tmp_path / "pid")) != os.getsid(0)
