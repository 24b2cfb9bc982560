"""Many names at once: lists of them, and the names below a namespace, in pages.

Each name has its own fate: one that is broken among thousands is an error of its own. A list keeps its order;
a listing is in the order of its names, and goes on behind the last one that was given out.

Invariant: between two pages no name is lost or repeated that was there all the time, whatever is made,
dropped or renamed meanwhile.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Sequence
from dataclasses import replace

from lakehouse.catalog.graph.hydration import full_path
from lakehouse.catalog.graph.listings import Listings
from lakehouse.catalog.graph.meanings import container_meanings, missing_error
from lakehouse.catalog.graph.page_tokens import malformed_token_error, page_token, read_page_token
from lakehouse.catalog.graph.references import NameRef, Reference, reference_parts
from lakehouse.catalog.graph.results import Resolution, ResolutionPage, ResolutionStatus
from lakehouse.catalog.graph.system_side import Engines
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import NamespaceNode, RelationPath
from lakehouse.catalog.sources import ListedName, SourceSet
from lakehouse.catalog.system import UserPage, merged_page, plan_page
from lakehouse.errors import InvalidInputError, LakehouseError, NotFoundError
from lakehouse.io.work import map_bounded

__all__ = ["BulkGraph"]

_LIMIT_MAX = 10_000
_PAGE = 1_000
"""Names of a page where the caller does not say."""


class BulkGraph(abc.ABC):
    """Base of the graph with its calls for many names."""

    account: str
    sources: SourceSet
    engines: Engines
    _listings: Listings
    _at_once: int
    """Names that one call resolves at once."""

    @abc.abstractmethod
    async def resolve_name(self, ref: Reference, kind: NodeKind | None = None) -> ResourceId:
        """Returns the id of a name."""

    async def resolve_tables(
        self,
        names: Sequence[Reference] | None = None,
        *,
        prefix: Reference | None = None,
        begins: str = "",
        limit: int | None = None,
        page_token: str | None = None,
        count: bool = False,
    ) -> ResolutionPage:
        """Resolves a list of names of tables, or the names of the tables of a namespace.

        Names that are not there, or that fail, are reported each for itself. Relations of the system are
        found among tables and among views, before what users have in a namespace of that name.

        Args:
            names: full names, in the order of the result.
            prefix: a namespace instead: a database, ``catalog.namespace`` or ``information_schema``.
            begins: of these only tables whose names begin so.
            limit: names of a page; None = all of a list, 1,000 of a namespace.
            page_token: ``next_token`` of the page before.
            count: count all names of the namespace: by listing them all, unless that is kept.

        Example::

            page = await lake.graph.resolve_tables(["sales.orders", "sales.bills"])
            print([(item.name, item.status, item.id) for item in page.items])
        """
        return await self._resolve_many(NodeKind.TABLE, names, prefix, begins, limit, page_token, count)

    async def resolve_views(
        self,
        names: Sequence[Reference] | None = None,
        *,
        prefix: Reference | None = None,
        begins: str = "",
        limit: int | None = None,
        page_token: str | None = None,
        count: bool = False,
    ) -> ResolutionPage:
        """Resolves a list of names of views, or the names of the views of a namespace.

        The arguments are those of :meth:`resolve_tables`.
        """
        return await self._resolve_many(NodeKind.VIEW, names, prefix, begins, limit, page_token, count)

    async def _resolve_many(
        self,
        kind: NodeKind,
        names: Sequence[Reference] | None,
        prefix: Reference | None,
        begins: str,
        limit: int | None,
        token: str | None,
        count: bool,
    ) -> ResolutionPage:
        if (names is None) == (prefix is None):
            raise InvalidInputError("give a list of names, or prefix=, and one of them only")
        if limit is not None and not 1 <= limit <= _LIMIT_MAX:
            raise InvalidInputError(f"limit is from 1 to {_LIMIT_MAX:,}, not {limit}", option="limit")
        if prefix is not None:
            catalog, namespace = self._namespace(prefix)
            page = await self._below(kind, catalog, namespace, begins, limit or _PAGE, token)
            if not count:
                return page
            total = await self._count(kind, catalog, namespace, begins)
            return ResolutionPage(items=page.items, next_token=page.next_token, total=total)
        if isinstance(names, str):
            raise InvalidInputError(f"names is a list, such as [{names!r}]")
        return await self._of_list(kind, list(names or ()), limit, token)

    # --- lists --------------------------------------------------------------------

    async def _of_list(
        self, kind: NodeKind, refs: list[Reference], limit: int | None, token: str | None
    ) -> ResolutionPage:
        scope = ("list", self.account, kind.value, _digest(refs))
        first = 0 if token is None else _place(read_page_token(scope, token), refs)
        last = len(refs) if limit is None else min(first + limit, len(refs))

        async def resolve(index: int) -> Resolution:
            return await self._fate(kind, index, refs[index])

        items = [one async for one in map_bounded(resolve, range(first, last), self._at_once)]
        following = page_token(scope, str(last)) if last < len(refs) else None
        return ResolutionPage(items=tuple(items), next_token=following, total=len(refs))

    async def _fate(self, kind: NodeKind, index: int, ref: Reference) -> Resolution:
        """Returns what becomes of one name; errors of ours only, since others are no fate of a name."""
        path: RelationPath = ()
        try:
            path = _written(ref)
            found = await self.resolve_name(ref, kind)
        except NotFoundError as error:
            return Resolution(index=index, path=path, status=ResolutionStatus.NOT_FOUND, error=error)
        except LakehouseError as error:
            return Resolution(index=index, path=path, status=ResolutionStatus.ERROR, error=error)
        return Resolution(index=index, path=path, status=ResolutionStatus.FOUND, id=found, kind=found.kind)

    # --- listings -----------------------------------------------------------------

    def _namespace(self, ref: Reference) -> tuple[str, RelationPath]:
        parts = reference_parts(ref)
        if isinstance(parts, ResourceId):
            raise InvalidInputError("prefix= is the name of a namespace, not an id", option="prefix")
        for meaning in container_meanings(parts, self.sources):
            if meaning.kind is NodeKind.NAMESPACE:
                return meaning.catalog, meaning.path
        raise missing_error(parts, "namespace")

    async def _below(
        self,
        kind: NodeKind,
        catalog: str,
        namespace: RelationPath,
        begins: str,
        limit: int,
        token: str | None,
    ) -> ResolutionPage:
        scope = ("prefix", self.account, kind.value, catalog, *namespace, "", begins)
        behind = None if token is None else read_page_token(scope, token)
        plan = plan_page(
            self._system_relations(catalog, namespace, begins),
            behind,
            limit=limit,
            name=lambda one: one.path[-1],
        )
        users = None
        if plan.user_limit:
            users = await self._users_below(
                kind, catalog, namespace, begins, plan.user_limit, plan.user_after
            )
        page = merged_page(plan, users)
        following = None if page.token is None else page_token(scope, page.token)
        items = tuple([replace(one, index=at) for at, one in enumerate(page.rows)])
        return ResolutionPage(items=items, next_token=following)

    async def _users_below(
        self,
        kind: NodeKind,
        catalog: str,
        namespace: RelationPath,
        begins: str,
        limit: int,
        after: str | None,
    ) -> UserPage[Resolution]:
        """Resolves a page of what users made; where the system has a namespace, users need not have it."""
        rows = list[Resolution]()
        while True:
            left = limit - len(rows)
            try:
                page = await self._listings.page(catalog, namespace, begins=begins, after=after, limit=left)
            except NotFoundError:
                if not self._is_system(catalog, namespace):
                    raise
                return UserPage(rows=tuple(rows))
            rows += await self._listed(kind, catalog, page.entries)
            after = page.after
            if after is None or len(rows) >= limit:
                return UserPage(rows=tuple(rows), after=after)

    def _is_system(self, catalog: str, namespace: RelationPath) -> bool:
        return not catalog and isinstance(self.engines.named(namespace), NamespaceNode)

    def _system_relations(self, catalog: str, namespace: RelationPath, begins: str) -> list[Resolution]:
        """Returns the system's relations of a namespace, which are listed as tables and as views."""
        if not self._is_system(catalog, namespace):
            return []
        found = ResolutionStatus.FOUND
        return [
            Resolution(index=0, path=node.path, status=found, id=node.id, kind=node.kind)
            for node in self.engines.relations()
            if node.name.startswith(begins)
        ]

    async def _count(self, kind: NodeKind, catalog: str, namespace: RelationPath, begins: str) -> int:
        own = len(self._system_relations(catalog, namespace, begins))
        try:
            return own + await self._listings.count(catalog, namespace, kind=kind, begins=begins)
        except NotFoundError:
            if not self._is_system(catalog, namespace):
                raise
            return own

    async def _listed(self, kind: NodeKind, catalog: str, entries: Sequence[ListedName]) -> list[Resolution]:
        """Resolves listed names; what is of another kind, or gone since it was listed, is left out."""
        named = [entry for entry in entries if entry.kind in (None, kind)]

        async def resolve(entry: ListedName) -> Resolution:
            return await self._fate(kind, 0, full_path(catalog, entry.path))

        found = [one async for one in map_bounded(resolve, named, self._at_once)]
        return [one for one in found if one.status is not ResolutionStatus.NOT_FOUND]


def _written(ref: Reference) -> RelationPath:
    """Returns the parts of the name that a reference has, whether or not it has an id besides."""
    if isinstance(ref, NameRef):
        return _written(ref.name)
    parts = reference_parts(ref)
    return () if isinstance(parts, ResourceId) else parts


def _place(text: str, refs: Sequence[Reference]) -> int:
    """Returns the place in a list that a token names."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(len(refs)))) or int(text) > len(refs):
        raise malformed_token_error()
    return int(text)


def _digest(refs: Sequence[Reference]) -> str:
    digest = hashlib.sha256()
    for ref in refs:
        digest.update(repr(ref).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
