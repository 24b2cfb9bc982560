"""The memory limit of a container, and the caches' share of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.config import CacheSettings, Settings
from lakehouse.io import load_settings
from lakehouse.io.work.memory_limit import cache_bytes, memory_limit, physical_memory

MB, GB = 1 << 20, 1 << 30
USUAL = CacheSettings().max_bytes


def put(path: Path, text: str) -> None:
    """Writes a file and the directories that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_version_2_has_the_lowest_limit_on_the_way_up(tmp_path: Path) -> None:
    """A group is bound by its own limit and by those of all groups that it is in."""
    put(tmp_path / "self", "0::/pods/one/app\n")
    put(tmp_path / "tree/pods/one/app/memory.max", "max\n")
    put(tmp_path / "tree/pods/one/memory.max", f"{2 * GB}\n")
    put(tmp_path / "tree/pods/memory.max", f"{8 * GB}\n")
    assert memory_limit(tmp_path / "self", tmp_path / "tree") == 2 * GB


def test_inside_a_container_the_limit_is_at_the_root(tmp_path: Path) -> None:
    """Where the path that the process knows is not there, the limit is at the root of the tree."""
    put(tmp_path / "self", "0::/docker/0123\n")
    put(tmp_path / "tree/memory.max", f"{512 * MB}\n")
    assert memory_limit(tmp_path / "self", tmp_path / "tree") == 512 * MB


def test_version_1_has_a_tree_for_memory(tmp_path: Path) -> None:
    """The limit of version 1 is found under the controller's own tree; its number for none is none."""
    put(tmp_path / "self", "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n")
    put(tmp_path / "tree/memory/docker/0123/memory.limit_in_bytes", f"{GB}\n")
    put(tmp_path / "tree/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit(tmp_path / "self", tmp_path / "tree") == GB


@pytest.mark.parametrize("text", ["", "nonsense", "0::/../..\n", "4:memory:/x\n"])
def test_nothing_known_is_no_limit(tmp_path: Path, text: str) -> None:
    """Files that are missing or say something else are no limit, and no error."""
    put(tmp_path / "self", text)
    assert memory_limit(tmp_path / "self", tmp_path / "tree") is None
    assert memory_limit(tmp_path / "none", tmp_path / "tree") is None


@pytest.mark.parametrize(
    ("limit", "physical", "expected"),
    [
        (None, None, USUAL),
        (None, 64 * GB, USUAL),
        (None, 512 * MB, 128 * MB),
        (512 * MB, 64 * GB, 128 * MB),
        (GB, 64 * GB, USUAL),
        (4 * GB, 64 * GB, 512 * MB),
        (512 * GB, 512 * GB, 4 * GB),
        (64 * GB, 4 * GB, 512 * MB),
    ],
)
def test_the_caches_share(limit: int | None, physical: int | None, expected: int) -> None:
    """An eighth of a container's memory, at least the default, never more than a quarter or 4 GiB."""
    assert cache_bytes(limit, physical) == expected


def test_what_is_set_wins_over_what_is_derived() -> None:
    """Arguments, environment and file go before the machine, and the machine before the default."""
    derived = {"cache.max_bytes": 7}
    assert Settings.resolve(derived=derived).cache.max_bytes == 7
    assert Settings.resolve(derived=derived, file={"cache": {"max_bytes": 8}}).cache.max_bytes == 8
    assert Settings.resolve(derived=derived, env={"LAKEHOUSE_CACHE_MAX_BYTES": "9"}).cache.max_bytes == 9
    assert load_settings({"cache.max_bytes": 10}).cache.max_bytes == 10


def test_loaded_settings_are_those_of_this_machine() -> None:
    """Settings that are loaded have the share of the memory that this process has."""
    expected = cache_bytes(memory_limit(), physical_memory())
    assert load_settings(env={}).cache.max_bytes == expected
