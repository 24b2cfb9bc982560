"""``python -m benchmarks``: runs benches and shows what they found."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import machine, registry, render
from benchmarks.runner import Plan, Scale, say

_OUT = Path("build") / "benchmarks"


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measures, side by side with peers."
    )
    parser.add_argument("names", nargs="*", metavar="name", help="which benches; all when none is named")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="seconds: does it run at all")
    size.add_argument("--full", action="store_true", help="every cell of every grid: for results to keep")
    parser.add_argument(
        "--out", type=Path, default=_OUT, help="directory for JSON, page and plot (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the reports as JSON instead of the page")
    parser.add_argument("--list", action="store_true", help="name the benches and end")
    return parser.parse_args(given)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Waits until no other run of the benchmarks is under way on this machine, and keeps others waiting."""
    with (Path(tempfile.gettempdir()) / "lakehouse-benchmarks.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another run of the benchmarks is under way: waiting for its end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(given: Sequence[str]) -> int:
    """Runs the named benches; the exit status."""
    asked = _arguments(given)
    known = registry.names()
    if asked.list:
        print("\n".join(f"{name:20} {registry.bench(name).TITLE}" for name in known))
        return 0
    if unknown := sorted(set(asked.names) - set(known)):
        say(f"there is no bench {', '.join(unknown)}: choose from {', '.join(known)}")
        return 2
    scale: Scale = "quick" if asked.quick else "full" if asked.full else "default"
    for name in asked.names or known:
        module = registry.bench(name)
        with _alone():
            described = machine.describe()
            started = time.perf_counter()
            report = asyncio.run(module.run(Plan(scale=scale))).with_machine(described)
        say(f"{name}: {time.perf_counter() - started:.0f} s; written to {asked.out}")
        render.save(report, module, asked.out)
        print(json.dumps(report.to_json()) if asked.json else render.page(report, module))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
