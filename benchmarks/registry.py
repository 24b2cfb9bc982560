"""Finds benches: every module ``benchmarks/bench_{name}.py`` is one.

A bench module has ``TITLE`` and ``async def run(plan) -> Report``, whose ``name`` is the
module's; how it is shown may be said in the functions of :mod:`benchmarks.render`. Nothing
is registered by hand, so a new file is a new bench.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import benchmarks

__all__ = ["bench", "names"]

_PREFIX = "bench_"


def names() -> list[str]:
    """Of all benches, in order."""
    modules = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name.removeprefix(_PREFIX) for name in modules if name.startswith(_PREFIX))


def bench(name: str) -> ModuleType:
    """The bench's module; a ValueError that names the others when there is none."""
    if name not in names():
        raise ValueError(f"there is no bench {name!r}: choose from {', '.join(names())}")
    return importlib.import_module(f"benchmarks.{_PREFIX}{name}")
