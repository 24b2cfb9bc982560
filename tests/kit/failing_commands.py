"""A program that runs many commands that fail: ``python -m tests.kit.failing_commands COUNT WORDS…``.

Loading the command line takes ten times longer than a command that fails, so it is loaded once and every
command is a fork of the program, made before anything of obstore was loaded. It ends as a command ends: by
``sys.exit`` and the end of the interpreter. Prints how many ended with which exit code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import subprocess
import sys
from collections import Counter

from lakehouse.cli import main as command

__all__ = ["exit_codes"]

_AT_ONCE = 4


def exit_codes(count: int, *words: str) -> dict[int, int]:
    """How many of the commands, run one like the other, ended with which exit code."""
    program = [sys.executable, "-m", __name__, str(count), *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error: ") == count, done.stderr[-2000:]
    return {int(code): number for code, number in json.loads(done.stdout).items()}


def _load(words: list[str]) -> None:
    """Runs the command here, without obstore."""
    sys.argv = ["lakehouse", *words]
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        os.environ["LAKEHOUSE_IO_FAST_READS"] = "off"
        command()
    del os.environ["LAKEHOUSE_IO_FAST_READS"]
    importlib.import_module("lakehouse.io.backends.fast")
    assert "obstore" not in sys.modules
    gc.freeze()


def main(count: int, words: list[str]) -> None:
    """Keeps a few commands under way until all have ended."""
    _load(words)
    codes: Counter[int] = Counter()
    begun = 0
    while codes.total() < count:
        if begun < count and begun - codes.total() < _AT_ONCE:
            begun += 1
            if os.fork() == 0:
                command()
                raise SystemExit(0)
        else:
            codes[os.waitstatus_to_exitcode(os.wait()[1])] += 1
    print(json.dumps(codes))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
