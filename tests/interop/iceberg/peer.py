"""Runs programs of this folder by the peers' Python.

``python -m tests.interop.iceberg.peer fixtures DIRECTORY`` makes the tables of ``tests/data/iceberg``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import peer_env

__all__ = ["ENVIRONMENT", "problem", "run", "tables"]

ENVIRONMENT = "spark_4_1"
_RUNTIME = "iceberg-spark-runtime"
_MAKERS = {"answers", "axes", "equality_deletes", "generate", "recipes", "spark_session", "values"}
"""Modules that say what the tables are."""
_ROOT = Path(__file__).parents[3]


def problem() -> str | None:
    """Why Spark with Iceberg's runtime cannot run here; None when it can."""
    if shutil.which("java") is None:
        return "Spark needs Java, and there is no java on the path"
    if peer_env.python_of(ENVIRONMENT) is None:
        return (
            f"the environment {ENVIRONMENT!r} of Spark and Iceberg's runtime is not made: "
            "`make peers` makes it, for which PyPI and Maven Central must be reached"
        )
    return None


def run(program: str, warehouse: Path, *, timeout: float = 1800) -> None:
    """Runs a program of this folder; RuntimeError with the end of what it said when it fails."""
    python = peer_env.python_of(ENVIRONMENT)
    if python is None:
        raise RuntimeError(problem())
    jars = ":".join(str(jar) for jar in peer_env.jars_of(ENVIRONMENT) if jar.name.startswith(_RUNTIME))
    command = [str(python), "-m", f"tests.interop.iceberg.{program}", str(warehouse), jars]
    # Spark's workers would be those of this environment otherwise.
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}
    ended = subprocess.run(
        command, cwd=_ROOT, env=kept, capture_output=True, text=True, timeout=timeout, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{program} ended with {ended.returncode}: {ended.stderr[-20000:]}")


def tables() -> Path:
    """The directory of the tables that ``generate`` makes; made once for each state of its statements.

    They stay where they were made, because their metadata name their files by absolute paths.
    """
    sources = sorted(path for path in Path(__file__).parent.glob("*.py") if path.stem in _MAKERS)
    text = b"".join(path.read_bytes() for path in sources)
    lists = sorted(peer_env.REQUIREMENTS.glob(f"{ENVIRONMENT}.*"))
    digest = hashlib.sha256(text + b"".join(path.read_bytes() for path in lists)).hexdigest()
    place = _ROOT.joinpath(".cache").resolve() / "iceberg-spark" / digest[:16]
    place.parent.mkdir(parents=True, exist_ok=True)
    # Two runs of tests may ask at once: the second one waits, and finds them.
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "made.json").is_file():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            run("generate", place)
    return place / "db"


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
