"""Takes one rule at a time out of the table protocol and sees that a named test fails.

A rule whose test cannot fail is no rule. Each mutant (``tools/mutant_rules``) is a change of a line or two
in a copy of the repository; the tests named with it must pass before the change and fail after it.
``make mutants`` runs all of them; a text after the command (``python -m tools.mutants deadline``) those
whose rule contains it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.mutant_rules import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("lakehouse", "tests", "tools", "benchmarks", "examples", "docs", "pyproject.toml")
TIMEOUT_S = 900


class Copy:
    """A copy of the repository to try mutants in."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._passing: dict[tuple[str, ...], bool] = {}
        for name in COPIED:
            source, target = ROOT / name, directory / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def judge(self, mutant: Mutant) -> str:
        """``killed`` when the tests pass as it is and fail without the rule; else what is wrong."""
        path = self._directory / mutant.path
        text = path.read_text()
        if text.count(mutant.old) != 1:
            return f"STALE: its text stands in {mutant.path} {text.count(mutant.old)} times"
        if mutant.tests not in self._passing:
            self._passing[mutant.tests] = self._run(mutant.tests) == 0
        if not self._passing[mutant.tests]:
            return "BROKEN: its tests fail as it is"
        path.write_text(text.replace(mutant.old, mutant.new))
        try:
            return "killed" if self._run(mutant.tests) == 1 else "SURVIVED"
        finally:
            path.write_text(text)

    def _run(self, tests: tuple[str, ...]) -> int:
        """Exit code of the tests: 0 = all passed, 1 = some failed."""
        minio = ROOT / ".cache" / "bin" / "minio"
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            **({"LAKEHOUSE_TEST_MINIO": str(minio)} if minio.exists() else {}),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode


def main() -> int:
    """Judges the mutants; 1 when one is not killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only rules that contain this text")
    wanted = parser.parse_args().filter
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="lakehouse-mutants-") as directory:
        copy = Copy(Path(directory))
        for mutant in MUTANTS:
            if wanted in mutant.rule:
                started = time.monotonic()
                verdicts.append(copy.judge(mutant))
                print(f"{verdicts[-1]:<10}{time.monotonic() - started:5.0f} s  {mutant.rule}", flush=True)
    return 0 if all(verdict == "killed" for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
