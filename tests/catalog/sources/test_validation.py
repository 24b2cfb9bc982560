"""Validation of catalogs: what each check finds, what it says, and that it ends."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.catalog.sources import Access, CatalogReport, restricted, validate_source
from lakehouse.errors import CorruptionError, PermissionDeniedError
from lakehouse.testing import MemoryCatalog

_ID = pa.schema({"id": pa.int64()})


def _catalog() -> MemoryCatalog:
    catalog = MemoryCatalog("ice")
    catalog.add_namespace("empty")
    catalog.add_table("sales.eu.orders", _ID)
    catalog.commit("sales.eu.orders")
    return catalog


def _statuses(report: CatalogReport) -> dict[str, str]:
    return {check.name: check.status.value for check in report.checks}


async def test_a_good_catalog_passes() -> None:
    """A catalog that answers, lists and can be read has four good checks, found in a nested namespace too."""
    report = await validate_source(_catalog(), timeout_s=5)
    assert _statuses(report) == dict.fromkeys(("connection", "credential", "discovery", "storage"), "ok")
    assert report.is_ok
    assert "sales.eu.orders" in report["storage"].text


async def test_a_catalog_that_is_down_fails_its_connection() -> None:
    """Where nothing answers, what depends on an answer is skipped."""
    catalog = _catalog()
    catalog.is_down = True
    report = await validate_source(catalog, timeout_s=5)
    assert _statuses(report) == {
        "connection": "failed",
        "credential": "skipped",
        "discovery": "skipped",
        "storage": "skipped",
    }
    assert (report.is_ok, report["connection"].kind) == (False, "unreachable")


async def test_refused_credentials_are_told_from_a_catalog_that_is_down() -> None:
    """A refusal is an answer: the connection is good and the credential is not."""
    catalog = _catalog()
    catalog.break_relation((), PermissionDeniedError("no such token"))
    report = await validate_source(catalog, timeout_s=5)
    assert _statuses(report) == {
        "connection": "ok",
        "credential": "failed",
        "discovery": "skipped",
        "storage": "skipped",
    }


@pytest.mark.parametrize("error", [PermissionDeniedError("refused"), CorruptionError("damaged", key="m")])
async def test_files_that_cannot_be_read_fail_the_storage(error: Exception) -> None:
    """A catalog that lists and whose files are refused or damaged fails in its last check alone."""
    catalog = _catalog()
    catalog.break_relation("sales.eu.orders", error)  # type: ignore[arg-type]
    report = await validate_source(catalog, timeout_s=5)
    assert [name for name, status in _statuses(report).items() if status == "failed"] == ["storage"]


async def test_an_empty_catalog_has_nothing_to_read() -> None:
    """A catalog without a table passes, and its storage is not judged."""
    report = await validate_source(MemoryCatalog("new"), timeout_s=5)
    assert (report.is_ok, _statuses(report)["storage"]) == (True, "skipped")


@pytest.mark.parametrize(("verb", "check"), [("namespaces", "connection"), ("page", "discovery")])
async def test_whatever_hangs_it_ends(verb: str, check: str) -> None:
    """A catalog that never answers fails the check within its time."""
    catalog = _catalog()
    held = catalog.hold(verb)
    report = await validate_source(catalog, timeout_s=0.05)
    assert (report[check].status.value, report[check].kind) == ("failed", "timeout")
    held.release()


async def test_hidden_namespaces_are_not_looked_into() -> None:
    """A report speaks of nothing that access hides."""
    report = await validate_source(restricted(_catalog(), Access.parse(exclude=["sales"])), timeout_s=5)
    assert "sales" not in str(report)
