"""Environments of peers: what is fetched is what was named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from benchmarks.peer_env import fetch, parse_jars

_DATA = b"a jar"


def _line(data: bytes) -> str:
    return f"# a peer\norg.example.lake:lake-runtime_2.13:1.2 {hashlib.sha256(data).hexdigest()}\n"


def _repository(root: Path) -> str:
    place = root / "org" / "example" / "lake" / "lake-runtime_2.13" / "1.2"
    place.mkdir(parents=True)
    (place / "lake-runtime_2.13-1.2.jar").write_bytes(_DATA)
    return root.as_uri()


def test_a_jar_is_fetched_by_its_coordinates(tmp_path: Path) -> None:
    """Group, artifact and version say where it is; it is fetched once."""
    repository = _repository(tmp_path / "maven")
    [jar] = parse_jars(_line(_DATA))
    place = fetch(jar, tmp_path / "jars", repository=repository)
    assert place.read_bytes() == _DATA
    assert fetch(jar, tmp_path / "jars", repository="file:///nowhere") == place


def test_a_jar_with_other_bytes_is_refused(tmp_path: Path) -> None:
    """What has another checksum is not kept."""
    repository = _repository(tmp_path / "maven")
    [jar] = parse_jars(_line(b"another jar"))
    with pytest.raises(ValueError, match="has the checksum"):
        fetch(jar, tmp_path / "jars", repository=repository)
    assert not (tmp_path / "jars").exists()
