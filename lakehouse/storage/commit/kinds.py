"""Traits of commits by their kind: the one place that says which of them add, remove or rewrite rows.

Readers of changes, conditional writes, automatic compaction and purges all ask here, so that a new kind is
judged once.

Invariant: every :class:`~lakehouse.format.metadata.snapshot.CommitKind` has its traits.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lakehouse.format.metadata import CommitKind

__all__ = ["TRAITS", "KindTraits", "traits_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTraits:
    """Effects that a commit of a kind may have on the rows of a table."""

    brings_rows: bool = False
    """True when its files hold rows that were in no file before."""
    removes_rows: bool = False
    """True when rows that its parent shows may be gone or replaced, which its own files need not show."""
    removes_by_key: bool = False
    """True when its own files hold the key of every row that it removes, as long as it removes no file."""
    compacts: bool = False
    """True when it merges runs, and so is no reason to compact."""

    may_be_dropped: bool = False
    """True when a table that ends with it is dropped, or is being brought back."""

    @property
    def changes_rows(self) -> bool:
        """True when readers may see other rows after it than before."""
        return self.brings_rows or self.removes_rows


_BRINGS = KindTraits(brings_rows=True)
_REMOVES = KindTraits(removes_rows=True)
_KEEPS = KindTraits()
_MAY_BE_DROPPED = KindTraits(may_be_dropped=True)

TRAITS: Final = MappingProxyType(
    {
        CommitKind.CREATE: _KEEPS,
        CommitKind.APPEND: _BRINGS,
        CommitKind.UPSERT: _BRINGS,
        CommitKind.DELETE: KindTraits(removes_rows=True, removes_by_key=True),
        CommitKind.OVERWRITE: KindTraits(brings_rows=True, removes_rows=True),
        CommitKind.COMPACT: KindTraits(compacts=True),
        CommitKind.ALTER: _KEEPS,
        CommitKind.ROLLBACK: _REMOVES,
        CommitKind.TAG: _KEEPS,
        CommitKind.EXPIRE: _KEEPS,
        CommitKind.ORPHANS: _KEEPS,
        CommitKind.INDEX: _KEEPS,
        # Readers of files see the rows of the log from the flush on; a table without a key reports them then.
        CommitKind.FLUSH: _BRINGS,
        CommitKind.WAL: _KEEPS,
        CommitKind.RESCALE: _KEEPS,
        CommitKind.REPAIR: _REMOVES,
        CommitKind.DROP: _MAY_BE_DROPPED,
        CommitKind.UNDROP: _MAY_BE_DROPPED,
    }
)
"""Traits of every kind. A rescale writes the same rows into other buckets and changes the schema, by which
everybody who depends on buckets notices it. Nobody reads past a drop unless an undrop follows it, and then
neither has changed a row."""


def traits_of(kind: CommitKind) -> KindTraits:
    """Returns the traits of one kind of commit."""
    return TRAITS[kind]
