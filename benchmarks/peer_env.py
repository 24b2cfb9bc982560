"""Environments of peers that cannot stand beside ours: ``python -m benchmarks.peer_env`` makes them.

A peer that asks for other versions of our dependencies gets a virtual environment under
``.cache/peers``, with exactly what its lists in ``benchmarks/peer_requirements`` name: packages, and
jars of Maven Central with their checksums. An environment counts only when its installation came to
its end with the lists as they are now.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HOME", "REQUIREMENTS", "Jar", "fetch", "jars_of", "make", "names", "parse_jars", "python_of"]

HOME = Path(__file__).parents[1] / ".cache" / "peers"
"""Where environments are made."""
REQUIREMENTS = Path(__file__).parent / "peer_requirements"
"""A list of packages and versions for each peer, and one of jars for some."""
MAVEN = "https://repo1.maven.org/maven2"
_INSTALLED = "installed.txt"
_FETCH_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A file of Maven Central."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Where it is below the repository's root."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file}"


def parse_jars(text: str) -> list[Jar]:
    """A list of jars: ``group:artifact:version sha256`` in each line, ``#`` begins a comment."""
    found = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256 = line.split()
            group, artifact, version = coordinates.split(":")
            found.append(Jar(group=group, artifact=artifact, version=version, sha256=sha256))
    return found


def fetch(jar: Jar, folder: Path, *, repository: str = MAVEN) -> Path:
    """A jar in a folder, fetched unless it is there; ValueError when its bytes are not the ones named."""
    place = folder / jar.file
    if not place.is_file():
        with urllib.request.urlopen(f"{repository}/{jar.path}", timeout=_FETCH_S) as answer:
            data = answer.read()
        found = hashlib.sha256(data).hexdigest()
        if found != jar.sha256:
            raise ValueError(f"{jar.file} has the checksum {found}, and not {jar.sha256}")
        folder.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return place


def names() -> list[str]:
    """Of the peers that have an environment of their own."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def python_of(name: str, *, home: Path = HOME) -> Path | None:
    """The interpreter of a peer's environment; None when it was not made, or from another list."""
    installed = home / name / _INSTALLED
    if not installed.is_file() or installed.read_text() != _wanted(name):
        return None
    return home / name / "bin" / "python"


def jars_of(name: str, *, home: Path = HOME) -> list[Path]:
    """The jars of a peer's environment."""
    return [home / name / "jars" / jar.file for jar in _jars(name)]


def make(name: str, *, home: Path = HOME) -> Path:
    """Makes a peer's environment unless it is there; its interpreter."""
    found = python_of(name, home=home)
    if found is not None:
        return found
    place = home / name
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    packages = REQUIREMENTS / f"{name}.txt"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", packages], check=True)
    for jar in _jars(name):
        fetch(jar, place / "jars")
    (place / _INSTALLED).write_text(_wanted(name))
    return python


def _jars(name: str) -> list[Jar]:
    listed = REQUIREMENTS / f"{name}.jars"
    return parse_jars(listed.read_text()) if listed.is_file() else []


def _wanted(name: str) -> str:
    lists = (REQUIREMENTS / f"{name}.txt", REQUIREMENTS / f"{name}.jars")
    return "".join(one.read_text() for one in lists if one.is_file())


def main(given: Sequence[str]) -> int:
    """Makes the named environments, all of them when none is named."""
    failed = 0
    for name in given or names():
        try:
            print(f"{name}: {make(name)}")
        except (subprocess.CalledProcessError, OSError, ValueError) as error:
            failed += 1
            print(f"{name}: not made, benchmarks will do without it: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
