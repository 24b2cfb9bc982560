"""Runs one command for as long as its owner lives, then clears everything away.

Whatever ends the owner (a normal exit, SIGTERM, SIGKILL, a crash of the interpreter),
the command is killed, the parting command is run and the directory is removed: the
keeper holds one end of a pipe whose other end dies with the owner. A fork of the owner
keeps that end open, so the parent's process id is watched as well.

It is a script of its own, started as ``python -I -S keeper.py PLAN``, and imports the
standard library alone: it starts in some 30 ms and has one thread, which is what makes
``preexec_fn`` safe here. ``PLAN`` is JSON: ``owner`` (process id), ``command``,
``remove`` (directory) and ``parting`` (command); all but the owner may be null.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

__all__ = ["kept"]

_POLL_S = 0.1
_PARTING_TIMEOUT_S = 60
_PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def kept(
    command: Sequence[str] | None,
    *,
    log: IO[bytes],
    env: Mapping[str, str] | None = None,
    remove: str | None = None,
    parting: Sequence[str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs ``command`` under a keeper until the block ends; gives the keeper's process.

    Its ``poll()`` is None while the command runs (or, without a command, while the block does).

    Args:
        command: what to run; None keeps nothing running and only tidies up at the end.
        log: receives what the command and the keeper print.
        env: the whole environment of the command; None hands down this process's own.
        remove: directory to delete at the end.
        parting: command to run at the end, before the directory goes.
    """
    plan = {"owner": os.getpid(), "command": command, "remove": remove, "parting": parting}
    keeper = subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-S", __file__, json.dumps(plan)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=env,
        # A session of its own: Ctrl-C is for the owner, which may still need the server to finish.
        start_new_session=True,
    )
    try:
        yield keeper
    finally:
        assert keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            # A byte, not only the end of the file: a fork of this process may hold the pipe open too.
            keeper.stdin.write(b"x")
            keeper.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.close()
        try:
            keeper.wait(timeout=2 * _PARTING_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()


def _main(plan: Mapping[str, Any]) -> int:
    """The keeper's own side: runs ``plan``; gives the command's exit status, 0 when it was stopped."""
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, _leave)
    child: subprocess.Popen[bytes] | None = None
    try:
        if plan["command"]:
            child = subprocess.Popen(  # noqa: S603
                plan["command"],
                stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_keeper if sys.platform == "linux" else None,
            )
        while _owner_lives(plan["owner"]):
            if child is not None and child.poll() is not None:
                return abs(int(child.returncode))
        return 0
    finally:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        if child is not None:
            # The data is thrown away below, so there is nothing a gentler end would save.
            child.kill()
            child.wait()
        if plan["parting"]:
            subprocess.run(plan["parting"], timeout=_PARTING_TIMEOUT_S, check=False)  # noqa: S603
        if plan["remove"]:
            shutil.rmtree(plan["remove"], ignore_errors=True)


def _owner_lives(owner: int) -> bool:
    """Waits a moment; False once the owner wrote to the pipe, closed it or is gone."""
    readable, _, _ = select.select([sys.stdin], [], [], _POLL_S)
    return not readable and os.getppid() == owner


def _leave(signum: int, frame: object) -> None:
    sys.exit(0)


def _die_with_keeper() -> None:
    """Asks the kernel to kill this process when the keeper is killed and cannot do it itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(_main(json.loads(sys.argv[1])))
