"""Traits of commits by their kind."""

from __future__ import annotations

from lakehouse.format.metadata.snapshot import CommitKind
from lakehouse.storage.commit.kinds import TRAITS, traits_of


def test_every_kind_of_commit_has_its_traits() -> None:
    """A kind without traits cannot be added: readers of changes would pass over it."""
    assert set(TRAITS) == set(CommitKind)


def test_only_dropped_tables_may_be_purged() -> None:
    """A purge looks closer at tables that end with a drop or an undrop, and at no others."""
    ending = {kind for kind in CommitKind if traits_of(kind).may_be_dropped}
    assert ending == {CommitKind.DROP, CommitKind.UNDROP}


def test_what_may_remove_rows_is_known() -> None:
    """These kinds, and no others, may leave out rows that their parents show."""
    removing = {kind for kind in CommitKind if traits_of(kind).removes_rows}
    assert removing == {
        CommitKind.DELETE,
        CommitKind.OVERWRITE,
        CommitKind.ROLLBACK,
        CommitKind.REPAIR,
    }
