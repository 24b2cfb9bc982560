"""Environments of peers that cannot stand beside ours: ``python -m benchmarks.peer_env`` makes them.

A peer that asks for other versions of our dependencies gets a virtual environment under
``.cache/peers``, with exactly what its list in ``benchmarks/peer_requirements`` names. An
environment counts only when its installation came to its end with the list as it is now.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

__all__ = ["HOME", "REQUIREMENTS", "make", "names", "python_of"]

HOME = Path(__file__).parents[1] / ".cache" / "peers"
"""Where environments are made."""
REQUIREMENTS = Path(__file__).parent / "peer_requirements"
"""A list of packages and versions for each peer."""
_INSTALLED = "installed.txt"


def names() -> list[str]:
    """Of the peers that have an environment of their own."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def python_of(name: str, *, home: Path = HOME) -> Path | None:
    """The interpreter of a peer's environment; None when it was not made, or from another list."""
    installed = home / name / _INSTALLED
    if not installed.is_file() or installed.read_text() != _wanted(name).read_text():
        return None
    return home / name / "bin" / "python"


def make(name: str, *, home: Path = HOME) -> Path:
    """Makes a peer's environment unless it is there; its interpreter."""
    found = python_of(name, home=home)
    if found is not None:
        return found
    place = home / name
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", _wanted(name)], check=True)
    (place / _INSTALLED).write_text(_wanted(name).read_text())
    return python


def _wanted(name: str) -> Path:
    return REQUIREMENTS / f"{name}.txt"


def main(given: Sequence[str]) -> int:
    """Makes the named environments, all of them when none is named."""
    failed = 0
    for name in given or names():
        try:
            print(f"{name}: {make(name)}")
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f"{name}: not made, benchmarks will do without it: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
