"""Access: which namespaces of a catalog may be seen through a source, and a source that shows no others.

A pattern has the parts of a namespace, with ``*`` for any characters of a part and ``?`` for one; it stands
for the namespaces that it fits and for all inside them. Without ``include`` all are seen; what an ``exclude``
fits is not, whatever else fits it. A namespace on the way to an included one is listed, and has no tables.

Invariant: a namespace that may not be seen and one that is not there have the same errors, suggestions
included; nothing of what may not be seen is asked for content.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.sources.source import (
    CatalogSource,
    Page,
    Pointer,
    SnapshotFacts,
    TableFacts,
    ViewFacts,
)
from lakehouse.errors import InvalidInputError, LakehouseError, NotFoundError
from lakehouse.suggest import suggestion

__all__ = ["EVERYTHING", "Access", "AuthoriseNamespace", "RestrictedSource", "restricted"]

R = TypeVar("R")
AuthoriseNamespace = Callable[[RelationPath], bool | Awaitable[bool]]
"""Says whether a namespace may be seen; it is asked each time, so it decides how long an answer is good."""
_ANY, _ONE = "*", "?"
_INSIDE = frozenset({"table", "view", "snapshot"})
"""Facts ``missing`` of errors that speak of one namespace alone."""
_OUTSIDE = ("missing", "database")
"""Facts of errors that speak of other namespaces too, as of our warehouse's databases."""
_UNKNOWN = re.compile(r"[\[\]{}()!^$|\\/]")
_PATTERN_CHARACTERS_MAX = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Restriction to some namespaces of a catalog."""

    include: tuple[RelationPath, ...] = ()
    """Patterns by parts; none = all namespaces."""
    exclude: tuple[RelationPath, ...] = ()
    authorise: AuthoriseNamespace | None = None
    """Asked besides, for namespaces that the patterns allow."""

    @classmethod
    def parse(
        cls,
        include: Iterable[str | RelationPath] | None = None,
        exclude: Iterable[str | RelationPath] | None = None,
        authorise: AuthoriseNamespace | None = None,
    ) -> Access:
        """Checks patterns; text is split at dots, tuples are taken by their parts."""
        if authorise is not None and not callable(authorise):
            raise InvalidInputError("authorise= is a function that is given a namespace", option="authorise")
        return cls(
            include=_patterns(include, "include"), exclude=_patterns(exclude, "exclude"), authorise=authorise
        )

    @property
    def is_everything(self) -> bool:
        """Whether nothing is restricted."""
        return not self.include and not self.exclude and self.authorise is None

    async def shows(self, namespace: RelationPath) -> bool:
        """Returns whether the tables of a namespace may be seen."""
        fits = not self.include or any(_fits(one, namespace) for one in self.include)
        return fits and await self._allows(namespace)

    async def lists(self, namespace: RelationPath) -> bool:
        """Returns whether a namespace is listed: for its own sake, or on the way to one inside."""
        if await self.shows(namespace):
            return True
        leads = any(
            len(one) > len(namespace) and _fits(one[: len(namespace)], namespace) for one in self.include
        )
        return leads and await self._allows(namespace)

    def policy(self) -> dict[str, str]:
        """Returns the restriction as text, for people."""
        told = {"include": self.include, "exclude": self.exclude}
        found = {name: ", ".join(map(".".join, patterns)) for name, patterns in told.items() if patterns}
        return {**found, "authorise": "asked"} if self.authorise is not None else found

    async def _allows(self, namespace: RelationPath) -> bool:
        if any(_fits(one, namespace) for one in self.exclude):
            return False
        if self.authorise is None:
            return True
        answer = self.authorise(namespace)
        return bool(await answer if inspect.isawaitable(answer) else answer)


EVERYTHING = Access()
"""No restriction."""


def restricted(source: CatalogSource, access: Access) -> CatalogSource:
    """Returns a source that shows what may be seen; the source itself where that is everything."""
    return source if access.is_everything else RestrictedSource(source, access)


class RestrictedSource:
    """A source of the namespaces that may be seen.

    Args:
        inner: the source that is asked.
        access: the namespaces that may be seen.
    """

    def __init__(self, inner: CatalogSource, access: Access) -> None:
        self.inner, self.access = inner, access

    def __repr__(self) -> str:
        return f"RestrictedSource({self.inner!r}, {self.access.policy()})"

    @property
    def name(self) -> str:
        """Name it is attached under."""
        return self.inner.name

    @property
    def connector(self) -> str:
        """Sort of catalog."""
        return self.inner.connector

    @property
    def display(self) -> str:
        """Place, for people."""
        return self.inner.display

    @property
    def policy(self) -> dict[str, str]:
        """Restriction, for people."""
        return self.access.policy()

    # --- names --------------------------------------------------------------------

    async def namespaces(self, inside: RelationPath = ()) -> list[RelationPath]:
        """Lists the namespaces that may be seen."""
        if inside:
            await self._check(inside, is_listed=True)
        found = await self._asked(inside, lambda: self.inner.namespaces(inside))
        return [one for one in found if await self.access.lists(one)]

    async def page(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None, limit: int
    ) -> Page:
        """Lists a page of a namespace."""
        await self._check(namespace, is_listed=True)
        page = await self._asked(
            namespace, lambda: self.inner.page(namespace, prefix=prefix, after=after, limit=limit)
        )
        return page if await self.access.shows(namespace) else Page(entries=())

    async def names(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[RelationPath, None]:
        """Yields the tables and views of a namespace."""
        await self._check(namespace, is_listed=True)
        if not await self.access.shows(namespace):
            return
        try:
            async with contextlib.aclosing(self.inner.names(namespace, prefix=prefix, after=after)) as found:
                async for path in found:
                    yield path
        except NotFoundError as error:
            if _is_inside(error):
                raise
        else:
            return
        raise await self._missing(namespace)

    async def locate(self, identity: uuid.UUID) -> RelationPath | None:
        """Finds the name of an incarnation, unless it may not be seen."""
        found = await self.inner.locate(identity)
        return found if found is not None and await self.access.shows(found[:-1]) else None

    # --- pointers -----------------------------------------------------------------

    async def identify(self, path: RelationPath) -> Pointer | None:
        """Reads what a name stands for now; the version may be left empty."""
        await self._check(path[:-1])
        return await self._asked(path[:-1], lambda: self.inner.identify(path))

    async def pointer(self, path: RelationPath) -> Pointer:
        """Reads what a name stands for now."""
        await self._check(path[:-1])
        return await self._asked(path[:-1], lambda: self.inner.pointer(path))

    async def renew(self, pointer: Pointer) -> Pointer:
        """Reads the version that a relation has now."""
        await self._check(pointer.path[:-1])
        return await self._asked(pointer.path[:-1], lambda: self.inner.renew(pointer))

    # --- content ------------------------------------------------------------------

    async def table(self, pointer: Pointer) -> TableFacts:
        """Reads what a version of a table says of it."""
        await self._check(pointer.path[:-1])
        return await self._asked(pointer.path[:-1], lambda: self.inner.table(pointer))

    async def view(self, pointer: Pointer) -> ViewFacts:
        """Reads what a version of a view says of it."""
        await self._check(pointer.path[:-1])
        return await self._asked(pointer.path[:-1], lambda: self.inner.view(pointer))

    async def snapshots(self, pointer: Pointer) -> tuple[SnapshotFacts, ...]:
        """Reads the list of snapshots."""
        await self._check(pointer.path[:-1])
        return await self._asked(pointer.path[:-1], lambda: self.inner.snapshots(pointer))

    async def snapshot(
        self, pointer: Pointer, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Reads one snapshot."""
        await self._check(pointer.path[:-1])
        return await self._asked(
            pointer.path[:-1], lambda: self.inner.snapshot(pointer, number=number, as_of_ms=as_of_ms)
        )

    async def schema(self, pointer: Pointer, *, snapshot: int) -> TableFacts:
        """Reads the schema that a snapshot has."""
        await self._check(pointer.path[:-1])
        return await self._asked(pointer.path[:-1], lambda: self.inner.schema(pointer, snapshot=snapshot))

    async def open(self, pointer: Pointer) -> Any:
        """Opens the relation for reads of rows."""
        await self._check(pointer.path[:-1])
        return await self._asked(pointer.path[:-1], lambda: self.inner.open(pointer))

    async def aclose(self) -> None:
        """Gives connections back."""
        await self.inner.aclose()

    # --- errors -------------------------------------------------------------------

    async def _check(self, namespace: RelationPath, *, is_listed: bool = False) -> None:
        seen = self.access.lists if is_listed else self.access.shows
        if not await seen(namespace):
            raise await self._missing(namespace)

    async def _asked(self, namespace: RelationPath, ask: Callable[[], Awaitable[R]]) -> R:
        """Asks the source; says of a namespace that is not there what is said of one that may not be seen."""
        try:
            return await ask()
        except NotFoundError as error:
            if _is_inside(error):
                raise
        raise await self._missing(namespace)

    async def _missing(self, namespace: RelationPath) -> NotFoundError:
        shown = ".".join(namespace)
        where = f"catalog {self.name!r}" if self.name else "the lake"
        try:
            found = await self.inner.namespaces(namespace[:-1])
            known = [".".join(one) for one in found if await self.access.lists(one)]
            near = f"; {suggestion(shown, known)}"
        except LakehouseError:  # names that may have been meant are a courtesy
            near = ""
        return NotFoundError(
            f"{where} has no namespace {shown!r}{near}",
            missing="namespace",
            catalog=self.name,
            namespace=shown,
        )


def _is_inside(error: NotFoundError) -> bool:
    """Returns whether what is missing is something in a namespace, which is there and may be seen."""
    facts = error.context
    return facts.get("missing") in _INSIDE or ("table" in facts and facts.keys().isdisjoint(_OUTSIDE))


def _patterns(given: Iterable[str | RelationPath] | None, option: str) -> tuple[RelationPath, ...]:
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{option} is a list of patterns, such as ['sales', 'web.*']", option=option)
    return tuple(_pattern(one, option) for one in given)


def _pattern(given: Any, option: str) -> RelationPath:
    parts = tuple(given.split(".")) if isinstance(given, str) else given
    if not isinstance(parts, tuple) or not all(isinstance(part, str) and part for part in parts) or not parts:
        raise InvalidInputError(
            f"{option}: a pattern is a namespace, such as 'sales' or 'web.*', with no empty part, not "
            f"{given!r}",
            option=option,
        )
    text = ".".join(parts)
    if len(text) > _PATTERN_CHARACTERS_MAX or (isinstance(given, str) and _UNKNOWN.search(text)):
        raise InvalidInputError(
            f"{option}: {text[:80]!r} has more in it than names, * and ?, which are all that patterns know; "
            "give a name with other characters as a tuple of its parts",
            option=option,
        )
    return parts


def _fits(pattern: RelationPath, namespace: RelationPath) -> bool:
    """Returns whether a namespace, or one around it, is what a pattern says."""
    return len(namespace) >= len(pattern) and all(
        _part_fits(part, name) for part, name in zip(pattern, namespace, strict=False)
    )


def _part_fits(pattern: str, name: str) -> bool:
    """Returns whether a part of a name is what a part of a pattern says, in the product of their lengths."""
    at, begin, star, taken = 0, 0, -1, 0
    while begin < len(name):
        if at < len(pattern) and pattern[at] == _ANY:
            star, taken = at, begin
            at += 1
        elif at < len(pattern) and pattern[at] in (_ONE, name[begin]):
            at, begin = at + 1, begin + 1
        elif star >= 0:  # the last star takes one character more
            taken += 1
            at, begin = star + 1, taken
        else:
            return False
    return not pattern[at:].strip(_ANY)
