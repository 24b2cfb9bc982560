"""Registry of system objects: files of builtins, and what an engine of some version sees of them.

Files are laid over each other in the order in which they were added, those of the package below: a definition
that comes again replaces the earlier one and keeps its rules, to which its own are added.

Invariant: information_schema is there for every engine, known or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakehouse._version import __version__
from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec
from lakehouse.catalog.engines.engine import EngineKey
from lakehouse.catalog.engines.rules import EngineRule
from lakehouse.catalog.engines.versions import version_key
from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.system.definitions import Builtin, BuiltinKey
from lakehouse.catalog.system.files import BuiltinFile, read_builtins
from lakehouse.catalog.system.objects import SystemObjects, builtin_node
from lakehouse.catalog.system.packaged import PACKAGED, packaged_file
from lakehouse.catalog.system.problems import Severity
from lakehouse.catalog.system.relations import system_relations
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io.work import in_thread
from lakehouse.suggest import suggestion

__all__ = ["Overlay", "SystemRegistry"]

_NODE_BYTES = 800
"""Bytes that a node takes with its places in dictionaries: measured over those of DuckDB."""
_NO_ENGINE = EngineKey("")
_ALONE = CacheSpec(name="overlay", max_bytes=64 * 1024 * 1024, weigh=lambda overlay: int(overlay.weight))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """System objects of one engine and version, with the rules that go with them."""

    objects: SystemObjects
    rules: Mapping[ResourceId, tuple[EngineRule, ...]]
    """Rules by the id of the builtin; builtins without rules are left out."""

    @property
    def weight(self) -> int:
        """Bytes that it takes: told, because a walk through thousands of nodes would hold the loop up."""
        return _NODE_BYTES * (len(self.objects) + sum(map(len, self.rules.values())))


class SystemRegistry:
    """System objects by engine.

    Args:
        region: cache of overlays by engine and version; None = one of its own.
    """

    def __init__(self, region: CacheRegion[Any, Any] | None = None) -> None:
        self._cache = region or CacheBudget().region(_ALONE)
        self._added: list[BuiltinFile] = []

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of engines whose builtins are known, in order."""
        return tuple(sorted({*PACKAGED, *(file.engine for file in self._added if file.engine is not None)}))

    @property
    def revision(self) -> str:
        """Text that is another one when files are others."""
        return f"{__version__}+{len(self._added)}"

    def add(self, data: bytes | str, *, name: str) -> None:
        """Lays a file of builtins over those that are there.

        Args:
            data: its text, as ``lakehouse builtins validate`` takes it.
            name: how errors call it.
        """
        probe = read_builtins(data, name=name)
        file = read_builtins(data, name=name, types=self.type_names(probe.engine))
        errors = [problem for problem in file.problems if problem.severity is Severity.ERROR]
        if errors:
            raise InvalidInputError(
                f"{name} has {len(errors):,} errors; the first is {errors[0]}", problems=[*map(str, errors)]
            )
        self._added.append(file)
        self._cache.invalidate_all()

    def type_names(self, kind: str | None) -> dict[str, str]:
        """Returns the canonical names of an engine's types by all their names in lower case."""
        names: dict[str, str] = {}
        for file in self._files(kind or ""):
            names |= file.type_names
        return names

    async def system_objects(
        self, engine_kind: str | None, engine_version: str | None = None
    ) -> SystemObjects:
        """Returns what an engine has; see ``lake.graph.system_objects``."""
        engine = EngineKey.of(engine_kind, engine_version)
        if not engine.kind:
            raise InvalidInputError(
                f"system objects are those of an engine: name its kind, such as {', '.join(self.kinds)}"
            )
        if engine.kind not in self.kinds:
            raise NotFoundError(
                f"no builtins of an engine {engine.kind!r} are known: {suggestion(engine.kind, self.kinds)}",
                engine=engine.kind,
            )
        return (await self.overlay(engine)).objects

    async def overlay(self, engine: EngineKey | None = None) -> Overlay:
        """Returns the overlay that names are resolved with; one that is not known has relations only."""
        if engine is None or engine.kind not in self.kinds:
            engine = _NO_ENGINE
        overlay: Overlay | None = await self._cache.get(engine, self._load)
        return overlay or await self._load(engine)

    async def _load(self, engine: EngineKey) -> Overlay:
        # Files are a snapshot: one that is added meanwhile makes this load land nowhere.
        return await in_thread(_overlay, engine, [*self._added])

    def _files(self, kind: str) -> list[BuiltinFile]:
        return _files_of(kind, self._added)


def _files_of(kind: str, added: Iterable[BuiltinFile]) -> list[BuiltinFile]:
    packaged = [packaged_file(kind)] if kind in PACKAGED else []
    return [*packaged, *(file for file in added if file.engine in (None, kind))]


def _overlay(engine: EngineKey, added: Iterable[BuiltinFile]) -> Overlay:
    """Makes the overlay of an engine; runs in a thread, since reading a file takes a tenth of a second."""
    builtins = (builtin for file in _files_of(engine.kind, added) for builtin in file.builtins)
    merged = _merged(builtins, engine) if engine.kind else []
    nodes = [(builtin_node(engine.kind, builtin), builtin.rules) for builtin in merged]
    return Overlay(
        objects=SystemObjects(engine, system_relations(), (node for node, _ in nodes)),
        rules={node.id: rules for node, rules in nodes if rules},
    )


def _merged(builtins: Iterable[Builtin], engine: EngineKey) -> list[Builtin]:
    """Returns the builtins that a version has, each once."""
    merged: dict[BuiltinKey, Builtin] = {}
    for builtin in builtins:
        if not builtin.window.includes(engine.version):
            continue
        earlier = merged.get(builtin.key)
        if earlier is not None:
            newest = earlier if not engine.version and _is_newer(earlier, builtin) else builtin
            builtin = replace(newest, rules=(*earlier.rules, *builtin.rules))
        merged[builtin.key] = builtin
    return list(merged.values())


def _is_newer(one: Builtin, other: Builtin) -> bool:
    """Returns whether a definition is for versions behind those of another."""
    first, last = one.window.first, other.window.last
    return first is not None and last is not None and version_key(first) > version_key(last)
