"""Reports: what a call did, as a value that prints as a sentence and reads as plain data.

Invariant: wherever the members of a report are listed, its own come first and those of every report last.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from lakehouse.io.cost import Cost, measure

__all__ = ["CostReport", "DryRunReport", "Report", "field_names", "measured"]

P = ParamSpec("P")
R = TypeVar("R", bound="CostReport")


class Report:
    """Report of a call; its classes are dataclasses, with ``repr=False`` if they inherit fields."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain data; those of the cost stand among them."""
        plain = {name: _plain(getattr(self, name)) for name in field_names(type(self))}
        cost = plain.pop("cost", {})
        return {**plain, **cost}

    def __repr__(self) -> str:
        members = ", ".join(f"{name}={getattr(self, name)!r}" for name in field_names(type(self)))
        return f"{type(self).__qualname__}({members})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CostReport(Report):
    """Report of a call that makes requests."""

    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DryRunReport(CostReport):
    """Report of a call, or of what it would do."""

    dry_run: bool = False
    """Whether nothing was done."""

    def _did(self, done: str, do: str | None = None) -> str:
        """Returns what was done, or in a dry run would be: ``deleted``, ``would be deleted``."""
        return done if not self.dry_run else f"would {do or f'be {done}'}"


def field_names(report: type[Any]) -> list[str]:
    """Returns the names of a dataclass's fields, those of its base classes last."""
    names, own = [one.name for one in dataclasses.fields(report)], report.__annotations__
    return [*(name for name in names if name in own), *(name for name in reversed(names) if name not in own)]


def measured(work: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Makes a coroutine function fill in what the call cost, in the report that it returns."""

    @functools.wraps(work)
    async def with_cost(*args: P.args, **kwargs: P.kwargs) -> R:
        with measure() as cost:
            report = await work(*args, **kwargs)
        return dataclasses.replace(report, cost=cost)

    return with_cost


def _plain(value: object) -> Any:
    match value:
        case Report() | Cost():
            return value.as_dict()
        case enum.Enum():
            return value.value
        case uuid.UUID() | dt.datetime():
            return str(value)
        case tuple() | list():
            return [_plain(item) for item in value]
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in field_names(type(value))}
    return value
