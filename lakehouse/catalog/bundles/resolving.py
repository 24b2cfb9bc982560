"""Resolving of one relation for a planner: which candidate is there, at which snapshot, in which columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.catalog.bundles.chunks import (
    FailureCode,
    RelationInfo,
    RelationResolution,
    RelationStatus,
    ResolutionFailure,
    ViewText,
)
from lakehouse.catalog.bundles.columns import columns_of, projected
from lakehouse.catalog.bundles.requests import Candidate, RelationRequest, UserObjectsRequest
from lakehouse.catalog.bundles.tokens import possession_token
from lakehouse.catalog.hints import EngineHintManager
from lakehouse.catalog.nodes import EngineHint, RelationNode, TableNode, ViewNode
from lakehouse.catalog.pins import Query, SnapshotPin
from lakehouse.errors import LakehouseError, NotFoundError, PermissionDeniedError, UnavailableError

__all__ = ["Resolved", "Resolver", "failure_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Answer for one relation, and the tables that are to be sent along."""

    resolution: RelationResolution
    node: RelationNode | None = None
    below: tuple[TableNode, ...] = ()
    """Tables that a view reads."""


class Resolver:
    """Resolves the relations of one request in one query.

    Args:
        query: pins what is resolved.
        request: who asks, and what they hold.
        hints: provider of what decorates relations; None = there is none.
    """

    def __init__(self, query: Query, request: UserObjectsRequest, hints: EngineHintManager | None) -> None:
        self._query, self._request, self._hints = query, request, hints

    async def resolved(self, asked: tuple[int, RelationRequest]) -> Resolved:
        """Resolves a relation: the first candidate that is there."""
        index, relation = asked
        tried: list[str] = []
        for candidate in relation.candidates:
            tried.append(candidate.name)
            try:
                return await self._candidate(index, candidate, relation.columns)
            except NotFoundError as error:
                missing = error
            except LakehouseError as error:
                if error.kind in ("query-ended", "closed"):
                    raise
                return _failed(index, RelationStatus.ERROR, failure_of(error, tried))
        message = missing.message if len(tried) == 1 else f"none of {', '.join(tried)} is there"
        failure = replace(failure_of(missing, tried), message=message)
        return _failed(index, RelationStatus.NOT_FOUND, failure)

    async def pushed(self, node: TableNode) -> Resolved:
        """Resolves a table that a view reads, with all of its columns."""
        try:
            pin = await self._query.pin(node.id)
            return await self._found(None, node, pin, None)
        except LakehouseError as error:
            if error.kind in ("query-ended", "closed"):
                raise
            return _failed(None, RelationStatus.ERROR, failure_of(error, [node.display]))

    async def _candidate(self, index: int, candidate: Candidate, columns: Sequence[str] | None) -> Resolved:
        query = self._query
        node = await query.relation(candidate.ref)
        if isinstance(node, TableNode):
            pin = await query.pin(candidate.ref, snapshot=candidate.snapshot, as_of=candidate.as_of)
            return await self._found(index, node, pin, columns)
        below: tuple[TableNode, ...] = ()
        if isinstance(node, ViewNode):
            await query.pin_all(candidate.ref, snapshot=candidate.snapshot, as_of=candidate.as_of)
            below = tuple(await query.tables_of(node))
        found = await self._found(index, node, None, columns)
        return replace(found, below=below)

    async def _found(
        self,
        index: int | None,
        node: RelationNode,
        pin: SnapshotPin | None,
        columns: Sequence[str] | None,
    ) -> Resolved:
        """Returns what is said of a relation, or that the planner holds it."""
        schema_json = ""
        if isinstance(node, TableNode):
            facts = await self._query.facts(node.id)
            schema_json = node.schema_json if facts is None else facts.schema_json
        info = _identity(node, pin)
        request = self._request
        token = (
            "" if columns is not None else possession_token(node, schema_json, request.engine, request.epoch)
        )
        if token in request.known:
            info = replace(info, token=token, is_identity_only=True)
        else:
            info = await self._whole(info, node, schema_json, columns, token)
        resolution = RelationResolution(index=index, status=RelationStatus.FOUND, relation=info)
        return Resolved(resolution=resolution, node=node)

    async def _whole(
        self,
        info: RelationInfo,
        node: RelationNode,
        schema_json: str,
        columns: Sequence[str] | None,
        token: str,
    ) -> RelationInfo:
        every = columns_of(node, schema_json)
        shown = every if columns is None else projected(every, columns, _newest(node))
        hints, failure = await self._decorated(node)
        if failure is not None:
            shown = tuple(column if column.failure else replace(column, failure=failure) for column in shown)
        is_complete = all(column.failure is None for column in shown)
        view = _view_text(node) if isinstance(node, ViewNode) else None
        return replace(info, token=token if is_complete else "", columns=shown, view=view, hints=hints)

    async def _decorated(self, node: RelationNode) -> tuple[tuple[EngineHint, ...], ResolutionFailure | None]:
        """Returns the hints that the planner needs, or why it does not get all of them."""
        found: list[EngineHint] = []
        for payload_type in self._request.payload_types:
            try:
                hint = None
                if self._hints is not None:
                    hint = await self._hints.hint(node, self._request.engine, payload_type)
            except PermissionDeniedError as error:
                return tuple(found), failure_of(error)
            except UnavailableError as error:
                return tuple(found), replace(failure_of(error), code=FailureCode.DECORATOR_UNAVAILABLE)
            except LakehouseError as error:
                return tuple(found), replace(failure_of(error), code=FailureCode.ENGINE_EXTENSION)
            if hint is None:
                message = (
                    f"no provider has a hint {payload_type} of {node.display} for {self._request.engine}"
                )
                return tuple(found), ResolutionFailure(
                    code=FailureCode.PAYLOAD_REQUIRED_MISSING, message=message
                )
            found.append(hint)
        return tuple(found), None


def failure_of(error: LakehouseError, attempted: Sequence[str] = ()) -> ResolutionFailure:
    """Returns what is told of an error."""
    code = FailureCode.INTERNAL_ERROR
    if isinstance(error, NotFoundError):
        code = FailureCode.NOT_FOUND
    elif isinstance(error, PermissionDeniedError):
        code = FailureCode.PERMISSION_DENIED
    elif error.kind == "pin-conflict":
        code = FailureCode.SCHEMA_MISMATCH
    return ResolutionFailure(
        code=code, message=error.message, attempted=tuple(attempted), details={"kind": error.kind}
    )


def _failed(index: int | None, status: RelationStatus, failure: ResolutionFailure) -> Resolved:
    return Resolved(resolution=RelationResolution(index=index, status=status, failure=failure))


def _identity(node: RelationNode, pin: SnapshotPin | None) -> RelationInfo:
    """Returns what every answer says."""
    is_newest = isinstance(node, TableNode) and pin is not None and pin.snapshot == node.current_snapshot
    return RelationInfo(
        id=node.id,
        name=node.display,
        kind=node.kind,
        origin=node.origin,
        backend=node.format if isinstance(node, TableNode) else "",
        pin=pin,
        rows=node.summary.rows if is_newest and isinstance(node, TableNode) else None,
        bytes=node.summary.bytes if is_newest and isinstance(node, TableNode) else None,
    )


def _newest(node: RelationNode) -> Mapping[str, Any]:
    return node.field_ids if isinstance(node, TableNode) else {}


def _view_text(node: ViewNode) -> ViewText:
    return ViewText(
        sql=node.sql,
        dialect=node.dialect,
        texts=node.texts,
        base_relations=node.base_relations,
        search_path=node.search_path,
        owner=node.owner,
    )
