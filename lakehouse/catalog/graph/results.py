"""Results of resolving many names: one for each, in the order asked for, each with its own fate."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from lakehouse.catalog.graph.references import show_name
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import RelationPath
from lakehouse.errors import LakehouseError

__all__ = ["Resolution", "ResolutionPage", "ResolutionStatus"]


class ResolutionStatus(enum.StrEnum):
    """Fate of one name."""

    FOUND = "found"
    NOT_FOUND = "not_found"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A name, and what it was resolved to."""

    index: int
    """Place among the names that were asked for, or in the page of a listing."""
    path: RelationPath
    """Parts of the full name, the catalog's first where it is one of an attached catalog; empty where the
    reference was an id that nothing has, or no name at all."""
    status: ResolutionStatus
    id: ResourceId | None = None
    kind: NodeKind | None = None
    error: LakehouseError | None = None
    """Reason, where it was not found or failed."""

    @property
    def name(self) -> str:
        """Full name as users write it."""
        return show_name(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionPage:
    """A page of resolutions."""

    items: tuple[Resolution, ...]
    next_token: str | None = None
    """Token of the next page; None = this is the last."""
    total: int | None = None
    """Number of names in all pages; of a listing only where it was asked for."""
