"""Reports of repairs: the state that was made, and everything it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.storage.maintenance.repair_report import Loss, LossKind, RepairReport

FILE = Loss(
    kind=LossKind.FILE, object="data/a", reason="damaged", rows=1_000, first_key=(1, "a"), last_key=(9, "z")
)
COMMIT = Loss(kind=LossKind.COMMIT, object="snapshot/s", reason="gone")


def report(*losses: Loss, **about: Any) -> RepairReport:
    """A report of a repair that made snapshot 8 of snapshot 6."""
    known = {"snapshot": 8, "changed": True, "base": 6, "files": 2, "rows": 5_000, "rewritten": 1}
    return RepairReport(losses=losses, **{**known, **about})


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (FILE, "file data/a: 1,000 rows with keys from (1, 'a') to (9, 'z'): damaged"),
        (
            Loss(kind=LossKind.MANIFEST, object="manifest/m", reason="gone"),
            "manifest manifest/m: some rows: gone",
        ),
        (COMMIT, "commit snapshot/s: gone"),
        (Loss(kind=LossKind.INDEX, object="index/i", reason="gone", rows=5), "index index/i: gone"),
    ],
)
def test_a_loss_says_what_is_missing(loss: Loss, text: str) -> None:
    """Files and manifests say how many rows, and of which keys, where that is known."""
    assert str(loss) == text


def test_a_repair_without_losses_is_fine() -> None:
    """It says what the repaired state holds."""
    assert report().ok
    assert str(report()).startswith(
        "snapshot 6 repaired as snapshot 8: 2 files, 5,000 rows; "
        "1 files rewritten, 0 entries recovered; lost: 0"
    )


def test_losses_are_listed() -> None:
    """Every loss is a line of the text."""
    found = report(FILE, COMMIT)
    assert not found.ok
    assert f"lost: 2\n  {FILE}\n  {COMMIT}\n" in str(found)


def test_a_dry_run_says_what_would_be_done() -> None:
    """A report of a dry run claims no repair."""
    assert str(report(dry_run=True)).startswith("snapshot 6 would be repaired as snapshot 8")


def test_losses_are_a_relation() -> None:
    """There is one row per loss, with keys as text and nulls for what is not known."""
    assert report(FILE, COMMIT).relation().to_pylist() == [
        {
            "kind": "file",
            "object": "data/a",
            "rows": 1_000,
            "first_key": "(1, 'a')",
            "last_key": "(9, 'z')",
            "reason": "damaged",
        },
        {
            "kind": "commit",
            "object": "snapshot/s",
            "rows": None,
            "first_key": None,
            "last_key": None,
            "reason": "gone",
        },
    ]
    assert report().relation().schema == report(FILE).relation().schema
