"""Reports: plain data, costs, and the tense of a dry run."""

from __future__ import annotations

import datetime as dt
import enum
import json
import pickle
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse import reports
from lakehouse.io import measure, open_store
from lakehouse.io.cost import Cost
from lakehouse.io.work import CostReport, DryRunReport, Report, measured


class Kind(enum.Enum):
    """A kind."""

    ODD = "odd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a report."""

    kind: Kind
    at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sweep(DryRunReport):
    """A report."""

    rows: int
    uuid: uuid.UUID | None = None
    parts: tuple[Part, ...] = ()
    by_kind: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self._did('deleted')}, {self._did('became', 'become')}"


def test_plain_data_is_json() -> None:
    """Members come in their order, ``dry_run`` and the cost's last; nested values are plain too."""
    moment, number = dt.datetime(2026, 1, 31, tzinfo=dt.UTC), uuid.UUID(int=7)
    report = Sweep(rows=3, uuid=number, parts=(Part(kind=Kind.ODD, at=moment),), by_kind={"a": 1})
    plain = report.as_dict()
    assert [*plain] == ["rows", "uuid", "parts", "by_kind", "dry_run", *Cost().as_dict()]
    assert json.loads(json.dumps(plain)) == {
        "rows": 3,
        "uuid": str(number),
        "parts": [{"kind": "odd", "at": "2026-01-31 00:00:00+00:00"}],
        "by_kind": {"a": 1},
        "dry_run": False,
        **Cost().as_dict(),
    }


def test_a_dry_run_says_what_would_be() -> None:
    """The sentence of a dry run is about what would be done."""
    assert str(Sweep(rows=3)) == "deleted, became"
    assert str(Sweep(rows=3, dry_run=True)) == "would be deleted, would become"


def test_reports_show_their_own_members_first() -> None:
    """The cost, which is long, ends what a prompt shows; reports are equal whatever they cost, and travel."""
    report = Sweep(rows=3)
    assert repr(report).startswith("Sweep(rows=3, uuid=None,")
    assert repr(report).endswith("dry_run=False, cost=Cost(operations={}))")
    dear = Cost()
    dear.record("get", 1.0)
    assert pickle.loads(pickle.dumps(report)) == report == Sweep(rows=3, cost=dear)


async def test_the_requests_of_a_call_are_in_its_report() -> None:
    """A measured call fills in what it cost."""

    @measured
    async def put(count: int) -> CostReport:
        """Puts objects."""
        for number in range(count):
            await store.put(f"{number}", b"x")
        return CostReport()

    async with open_store("memory://measured") as store:
        with measure() as cost:
            report = await put(3)
    assert report.cost.requests == cost.requests == 3
    assert put.__doc__ == "Puts objects."


def test_every_public_report_is_plain_data() -> None:
    """What calls on tables return has ``as_dict``."""
    classes = {name: one for name in reports.__all__ if isinstance(one := getattr(reports, name), type)}
    told = {name for name, one in classes.items() if issubclass(one, Report)}
    assert {name for name in classes if name.endswith(("Report", "Result"))} - told == {"CheckResult"}
