"""Requests of bundles: the relations that a planner wants to know, and what it knows already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from lakehouse.catalog.engines import EngineKey, PayloadType
from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.pins import Moment
from lakehouse.errors import InvalidInputError

__all__ = ["Candidate", "RelationRequest", "UserObjectsRequest"]

_RELATIONS_MAX = 100_000
_CANDIDATES_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One thing that a reference of a query's text may mean."""

    ref: str | tuple[str, ...] | ResourceId
    """Full name, its parts, or an id."""
    snapshot: int | None = None
    """Id of the snapshot that the text asks for."""
    as_of: Moment | None = None
    """Moment that the text asks for."""

    @property
    def name(self) -> str:
        """The reference, for people."""
        if isinstance(self.ref, str | ResourceId):
            return str(self.ref)
        return ".".join(self.ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationRequest:
    """A relation that is asked for."""

    candidates: tuple[Candidate, ...]
    """In order: the first that is there is the one meant."""
    columns: tuple[str, ...] | None = None
    """Names of the columns wanted; None = all."""

    @classmethod
    def of(cls, given: RelationRequest | Candidate | str | tuple[str, ...] | ResourceId) -> RelationRequest:
        """Returns the request that a name, an id or a candidate stands for."""
        if isinstance(given, RelationRequest):
            if not 1 <= len(given.candidates) <= _CANDIDATES_MAX:
                raise InvalidInputError(
                    f"a relation has 1 to {_CANDIDATES_MAX} candidates, not {len(given.candidates)}"
                )
            if isinstance(given.columns, str):
                raise InvalidInputError(f"columns are a list of names, not the text {given.columns!r}")
            return given
        candidate = given if isinstance(given, Candidate) else Candidate(ref=given)
        return cls(candidates=(candidate,))


@dataclass(frozen=True, slots=True, kw_only=True)
class UserObjectsRequest:
    """Relations that one planner asks for at once; made by :meth:`of`."""

    relations: tuple[RelationRequest, ...]
    engine: EngineKey = field(default_factory=lambda: EngineKey.of(None))
    """Planner that asks."""
    payload_types: tuple[str, ...] = ()
    """Hints that it needs with each relation."""
    known: frozenset[str] = frozenset()
    """Possession tokens of what it holds: relations that still have one of these are not sent again."""
    epoch: str = ""
    """Version of what decorates relations for the planner; another one makes other tokens."""

    @classmethod
    def of(
        cls,
        relations: Iterable[RelationRequest | Candidate | str | tuple[str, ...] | ResourceId],
        *,
        engine_kind: str | None = None,
        engine_version: str | None = None,
        payload_types: Sequence[str] = (),
        known: Collection[str] = (),
        epoch: str = "",
    ) -> Self:
        """Returns a checked request.

        Args:
            relations: names, ids, candidates or requests, in the order of the answers.
            engine_kind: kind of the planner, such as ``postgres``.
            engine_version: version of the planner; None = any.
            payload_types: hints that it needs with each relation.
            known: possession tokens of what it holds.
            epoch: version of what decorates relations for it.
        """
        if isinstance(relations, str) or isinstance(known, str):
            raise InvalidInputError("relations and known are lists, not texts")
        asked = tuple(RelationRequest.of(one) for one in relations)
        if len(asked) > _RELATIONS_MAX:
            raise InvalidInputError(f"a request has up to {_RELATIONS_MAX:,} relations, not {len(asked):,}")
        for payload_type in payload_types:
            PayloadType.parse(payload_type)
        return cls(
            relations=asked,
            engine=EngineKey.of(engine_kind, engine_version),
            payload_types=tuple(payload_types),
            known=frozenset(known) - {""},
            epoch=epoch,
        )
