"""Memory that this process may use, as its container says, and settings that follow from it.

Only a limit that somebody set for this process counts: the memory of a machine belongs to its other programs
too, and merely bounds what is taken.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakehouse.config import CacheSettings

__all__ = ["cache_bytes", "memory_limit", "physical_memory", "settings_of_memory"]

_GROUPS = Path("/proc/self/cgroup")
_TREE = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""Version 1 writes a number about as large as an address where there is no limit."""
_CACHE_PART, _CACHE_PART_MAX = 8, 4
"""Caches take an eighth of the memory, or the default where that is more, and never more than a quarter."""
_CACHE_BYTES_MAX = 4 << 30


def memory_limit(groups: Path = _GROUPS, tree: Path = _TREE) -> int | None:
    """Returns the lowest limit of the control groups that this process is in; None where there is none.

    Args:
        groups: file that says in which groups it is.
        tree: directory in which groups are.
    """
    return min(_limits(groups, tree), default=None)


def cache_bytes(limit: int | None, physical: int | None) -> int:
    """Returns ``cache.max_bytes`` for a container's limit and a machine's memory; None = not known."""
    usual: int = CacheSettings().max_bytes
    if limit is not None:
        memory = limit if physical is None else min(limit, physical)
        return min(max(memory // _CACHE_PART, usual), memory // _CACHE_PART_MAX, _CACHE_BYTES_MAX)
    return usual if physical is None else min(usual, physical // _CACHE_PART_MAX)


def physical_memory() -> int | None:
    """Returns the memory of the machine; None where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


@functools.cache
def settings_of_memory() -> Mapping[str, object]:
    """Returns the settings that follow from the memory of this process."""
    return {"cache.max_bytes": cache_bytes(memory_limit(), physical_memory())}


def _limits(groups: Path, tree: Path) -> Iterator[int]:
    for line in _text(groups).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        # Version 2 has one tree and no controllers, version 1 a tree for each.
        names = controllers.split(",")
        if not controllers:
            yield from _limits_above(tree, path, "memory.max")
        elif "memory" in names:
            yield from _limits_above(tree / "memory", path, "memory.limit_in_bytes")


def _limits_above(tree: Path, path: str, name: str) -> Iterator[int]:
    """Yields the limits of a group and of all that it is in; a container sees its own at the root."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        said = _text(tree.joinpath(*parts[:depth], name)).strip()
        if said.isdecimal() and int(said) < _UNLIMITED:
            yield int(said)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
