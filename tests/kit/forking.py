"""Processes forked from a server that has loaded the engine already: each begins at once."""

from __future__ import annotations

import gc
import multiprocessing
import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

__all__ = ["FORKING", "run_program"]

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(
    [
        # Modules rather than doors, which would load nothing.
        *(__name__, "lakehouse.lake.lake", "lakehouse.sync.lake.lake", "lakehouse.sync.table"),
        *("lakehouse.iceberg.table", "lakehouse.storage.table", "lakehouse.io.backends.s3"),
        *("anyio._backends._asyncio", "numba", "pandas", "sqlglot"),
    ]
)


def run_program(program: Path, environment: Mapping[str, str], *, timeout: float) -> tuple[int | None, str]:
    """Runs a program in its own folder; returns its exit code (None = it took too long) and its stderr."""
    process = FORKING.Process(target=_child, args=(program, dict(environment)))
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        return None, f"{program} took more than {timeout} s"
    return process.exitcode, program.with_suffix(".err").read_text()


def _child(program: Path, environment: Mapping[str, str]) -> None:
    os.chdir(program.parent)
    os.environ.clear()
    os.environ.update(environment)
    for number, suffix in ((1, ".out"), (2, ".err")):
        opened = os.open(program.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    sys.path[:0] = [str(program.parent)]
    warnings.filterwarnings("error", category=ResourceWarning)
    try:
        runpy.run_path(str(program), run_name="__main__")
        gc.collect()  # finds what was left open, as the end of an interpreter does
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
