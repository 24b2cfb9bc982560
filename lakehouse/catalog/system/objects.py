"""System objects: what the catalog has without anybody's having made it, as nodes.

Invariant: ids are made of what an object is (engine, sort, signature; or the name of a relation), so that
they are the same in every process and for ever. System objects belong to no account:
:data:`SYSTEM_ACCOUNT` is in their ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.catalog.engines.engine import EngineKey
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import Node, Origin, RelationPath, SystemViewNode
from lakehouse.catalog.system.definitions import Builtin, BuiltinKey, BuiltinSort

__all__ = ["SYSTEM_ACCOUNT", "BuiltinNode", "SystemObjects", "builtin_id", "builtin_node"]

SYSTEM_ACCOUNT = "_system"
"""Account in the ids of system objects; no account of users can be called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinNode(Node):
    """A builtin of an engine. Hints that go with it are asked for like those of other nodes."""

    kind = NodeKind.BUILTIN
    origin: Origin = Origin.SYSTEM
    engine: str
    """Kind of the engine that it was asked for."""
    builtin: Builtin
    """Its definition, in the version that it was asked for."""

    @property
    def sort(self) -> BuiltinSort:
        """Sort of builtin."""
        return self.builtin.sort

    @property
    def name(self) -> str:
        """Name; a cast has none."""
        return self.builtin.name

    @property
    def signature(self) -> str:
        """Text that people know it by, such as ``abs(INTEGER) -> INTEGER``."""
        return self.builtin.signature


def builtin_id(engine: str, key: BuiltinKey) -> ResourceId:
    """Returns the id of a builtin: its signature decides, in all versions of the engine."""
    return ResourceId.named(SYSTEM_ACCOUNT, NodeKind.BUILTIN, engine, *key)


def builtin_node(engine: str, builtin: Builtin) -> BuiltinNode:
    """Returns a definition as a node."""
    return BuiltinNode(
        id=builtin_id(engine, builtin.key),
        version=f"{builtin.window.first or ''}-{builtin.window.last or ''}",
        engine=engine,
        builtin=builtin,
    )


class SystemObjects:
    """System objects as an engine of some version sees them; never changes.

    Args:
        engine: kind and version that they are for.
        relations: relations that the catalog computes, such as ``information_schema.tables``.
        builtins: those of the engine.
    """

    __slots__ = ("_by_id", "_by_name", "_by_path", "builtins", "engine", "relations")

    def __init__(
        self, engine: EngineKey, relations: Iterable[SystemViewNode], builtins: Iterable[BuiltinNode]
    ) -> None:
        self.engine = engine
        self.relations = tuple(relations)
        self.builtins = tuple(builtins)
        self._by_id: dict[ResourceId, SystemViewNode | BuiltinNode] = {
            **{node.id: node for node in self.relations},
            **{node.id: node for node in self.builtins},
        }
        self._by_path = {node.path: node for node in self.relations}
        self._by_name: dict[tuple[BuiltinSort, str], list[BuiltinNode]] = {}
        for node in self.builtins:
            for name in (node.name, *node.builtin.aliases):
                self._by_name.setdefault((node.sort, name.lower()), []).append(node)

    def __len__(self) -> int:
        return len(self.relations) + len(self.builtins)

    def __repr__(self) -> str:
        return f"SystemObjects({self.engine}, {len(self.relations)} relations, {len(self.builtins)} builtins)"

    def of(self, sort: BuiltinSort | str) -> tuple[BuiltinNode, ...]:
        """Returns the builtins of a sort, in the order of their files."""
        return tuple(node for node in self.builtins if node.sort == sort)

    def named(self, sort: BuiltinSort | str, name: str) -> tuple[BuiltinNode, ...]:
        """Returns the builtins of a sort and name, whatever its case: all overloads of a function."""
        return tuple(self._by_name.get((BuiltinSort(sort), name.lower()), ()))

    def node(self, resource: ResourceId) -> SystemViewNode | BuiltinNode | None:
        """Returns the object of an id; None where there is none in this version."""
        return self._by_id.get(resource)

    def relation(self, path: RelationPath) -> SystemViewNode | None:
        """Returns the relation of a name, whatever its case; None where there is none."""
        return self._by_path.get(tuple(part.lower() for part in path))
