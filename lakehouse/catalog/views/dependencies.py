"""Dependencies of views: what one reads through however many others, and which views read a relation.

Each relation is read once, however many ways lead to it, and circles end: two views that are replaced at the
same moment may come to read each other, since no commit spans two names.

Invariant: a relation that is missing or cannot be read is reported with those that are there, and hides none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from lakehouse.catalog.ids import NodeKind
from lakehouse.errors import FormatError, InvalidInputError, NotFoundError
from lakehouse.format.metadata import NameKind
from lakehouse.io.work import map_bounded
from lakehouse.storage.metadata import TableName
from lakehouse.storage.tables import Environment, Names, ViewDefinition, ViewDraft, read_view

__all__ = [
    "Dependency",
    "ViewDependencies",
    "ViewImpact",
    "dependencies_of",
    "impact_of",
    "refuse_cycle",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A relation that a view reads, directly or through others; or the view itself."""

    name: str
    kind: NodeKind | None = None
    """Table or view; None = it is missing, damaged, or of an attached catalog, which is not asked."""
    reads: tuple[str, ...] = ()
    """Relations that it reads directly; empty for tables, and for views whose dependencies are not known."""
    is_known: bool = True
    """Whether ``reads`` is known."""
    problem: str | None = None
    """Reason for which it cannot be read; None = it is there, or was not asked for."""
    uuid: UUID | None = None
    """Identity of a view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDependencies:
    """Relations that a view depends on; ``str()`` draws them as a tree."""

    of: str
    """Full name of the view."""
    relations: Mapping[str, Dependency]
    """By full name, the view first, then what is nearest to it."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of relations that cannot be read."""
        return tuple(name for name, one in self.relations.items() if one.problem is not None)

    @property
    def base_tables(self) -> tuple[str, ...]:
        """Names of relations that are no views: where the rows come from."""
        return tuple(
            name
            for name, one in self.relations.items()
            if one.kind is not NodeKind.VIEW and one.problem is None
        )

    @property
    def cycles(self) -> tuple[tuple[str, ...], ...]:
        """Circles, each as the names in it, in the order in which they read each other."""
        return tuple(_cycles({name: one.reads for name, one in self.relations.items()}))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        shown: set[str] = set()
        waiting = [(self.of, 0)]
        while waiting:
            name, depth = waiting.pop()
            one = self.relations[name]
            again = "  (see above)" if name in shown and one.reads else ""
            yield f"{'  ' * depth}{name}{f'  ({one.problem})' if one.problem else again}"
            if name not in shown:
                shown.add(name)
                waiting.extend((read, depth + 1) for read in reversed(one.reads))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewImpact:
    """Views that read a relation, so that a change of it concerns them."""

    of: str
    direct: tuple[str, ...] = ()
    """Names of the views that read it themselves."""
    indirect: tuple[str, ...] = ()
    """Names of the views that read it through others only, nearest first."""
    unknown: tuple[str, ...] = ()
    """Names of views whose dependencies are not known, or which cannot be read."""
    ids: Mapping[str, UUID] = field(default_factory=dict, hash=False)
    """Identity of each of the direct and indirect ones."""

    @property
    def views(self) -> tuple[str, ...]:
        """Names of all of them, nearest first."""
        return (*self.direct, *self.indirect)


async def dependencies_of(env: Environment, names: Names, name: TableName) -> ViewDependencies:
    """Reads what a view depends on: one pointer for each relation of the warehouse, level by level."""
    root = await read_view(env, names, name)
    return await _closure(env, names, root.name, _of_view(root))


async def _closure(env: Environment, names: Names, of: str, root: Dependency) -> ViewDependencies:
    relations = {of: root}
    level = [root]
    while level:
        wanted = [name for name in dict.fromkeys(_reads(level)) if name not in relations]
        read = map_bounded(lambda name: _read(env, names, name), wanted, env.settings.table.read_concurrency)
        level = [found async for found in read]
        relations.update((found.name, found) for found in level)
    return ViewDependencies(of=of, relations=relations)


def _reads(level: Iterable[Dependency]) -> Iterator[str]:
    return (name for one in level for name in one.reads)


def _of_view(view: ViewDefinition) -> Dependency:
    return Dependency(
        name=view.name,
        kind=NodeKind.VIEW,
        reads=view.depends_on or (),
        is_known=view.depends_on is not None,
        uuid=view.uuid,
    )


_KINDS = {NameKind.TABLE: NodeKind.TABLE, NameKind.ICEBERG: NodeKind.TABLE}


async def _read(env: Environment, names: Names, full: str) -> Dependency:
    if full.count(".") != 1:
        return Dependency(name=full)
    try:
        name = TableName.parse(full)
        pointer = await names.relation(name)
        if pointer.kind is not NameKind.VIEW:
            return Dependency(name=full, kind=_KINDS[pointer.kind])
        return _of_view(await read_view(env, names, name))
    except (NotFoundError, InvalidInputError, FormatError) as error:
        if error.kind == "missing-bucket":
            raise
        return Dependency(name=full, problem=error.message)


async def refuse_cycle(env: Environment, names: Names, name: TableName, draft: ViewDraft) -> None:
    """Raises InvalidInputError when a view that is made or replaced would read itself, through others too."""
    of = str(name)
    root = Dependency(name=of, kind=NodeKind.VIEW, reads=draft.depends_on or ())
    found = await _closure(env, names, of, root)
    for cycle in found.cycles:
        if of in cycle:
            at = cycle.index(of)
            way = " reads ".join((*cycle[at:], *cycle[:at], of))
            raise InvalidInputError(f"view {of!r} would depend on itself: {way}", table=of)


async def impact_of(env: Environment, names: Names, of: str) -> ViewImpact:
    """Reads all views of the warehouse and returns those that depend on a relation; see ``Lake.impact``."""
    readers, unknown, ids = dict[str, list[str]](), list[str](), dict[str, UUID]()
    databases = [database async for database in names.databases()]
    found = [view for database in databases async for view in names.view_names(database)]
    read = map_bounded(lambda view: _view(env, names, view), found, env.settings.table.read_concurrency)
    async for view in read:
        if view is None:
            continue
        if not view.is_known or view.problem is not None:
            unknown.append(view.name)
        if view.uuid is not None:
            ids[view.name] = view.uuid
        for base in view.reads:
            readers.setdefault(base, []).append(view.name)
    direct = [view for view in readers.get(of, ()) if view != of]
    known, level, indirect = {of, *direct}, direct, list[str]()
    while level:
        above = (view for name in level for view in readers.get(name, ()))
        level = [view for view in dict.fromkeys(above) if view not in known]
        known.update(level)
        indirect += level
    return ViewImpact(
        of=of,
        direct=tuple(direct),
        indirect=tuple(indirect),
        unknown=tuple(unknown),
        ids={name: ids[name] for name in (*direct, *indirect)},
    )


async def _view(env: Environment, names: Names, name: TableName) -> Dependency | None:
    """Reads the view of a name; None when the name is another relation's now, or nobody's."""
    try:
        return _of_view(await read_view(env, names, name))
    except (NotFoundError, InvalidInputError) as error:
        if error.kind == "missing-bucket":
            raise
        return None
    except FormatError as error:
        return Dependency(name=str(name), is_known=False, problem=error.message)


def _cycles(reads: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yields a circle for each step that leads back to a relation on the way to it."""
    done: set[str] = set()
    for start in reads:
        way: list[str] = []
        on_way: set[str] = set()
        # What is left to visit; None = the last of the way is visited whole.
        waiting: list[str | None] = [start]
        while waiting:
            name = waiting.pop()
            if name is None:
                done.add(last := way.pop())
                on_way.discard(last)
            elif name in on_way:
                yield tuple(way[way.index(name) :])
            elif name not in done:
                way.append(name)
                on_way.add(name)
                waiting.append(None)
                waiting.extend(reversed(reads.get(name, ())))
