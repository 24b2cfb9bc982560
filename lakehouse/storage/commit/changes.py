"""Changes of commits that read no rows: new files, tags, a rollback, a drop and its undoing.

Invariant: a draft is right for the head it was made against; for another head it is made again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from lakehouse.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from lakehouse.format.metadata import CommitKind, FileEntry, FileFormat, Ref, SchemaRef, Snapshot
from lakehouse.storage.commit.committer import Base, Change
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.files.uploaded_files import UploadedFiles

__all__ = [
    "UNFLUSHED",
    "AddFiles",
    "ChangeRefs",
    "DropTable",
    "FilesChange",
    "ReplacePartitions",
    "Rollback",
    "Undrop",
    "check_flushed",
]

UNFLUSHED = "unflushed"
"""Kind of the conflict with rows that are still in WAL segments, where they cannot be removed."""


def check_flushed(removed: Iterable[FileEntry]) -> None:
    """Refuses to remove rows of WAL segments: a flush has to put them into files first."""
    for entry in removed:
        if entry.format is FileFormat.WAL:
            segment = entry.path.partition("#")[0]
            raise ConflictError(
                f"rows to be taken away are in WAL segment {segment} and in no file yet: flush the table, "
                "then do it again",
                kind=UNFLUSHED,
                path=entry.path,
            )


class FilesChange(Change, Protocol):
    """Change that adds files which were uploaded for it."""

    written: UploadedFiles
    """Files that the last draft adds, and the number of rows that the commit reports."""

    def uploaded(self) -> Sequence[str]:
        """Returns the paths of all files that were uploaded for it, for whatever head."""
        return self.written.paths


@dataclass(frozen=True, kw_only=True)
class AddFiles(FilesChange):
    """Adds files, whatever the head is: append, upsert, delete by keys, overwrite of everything."""

    kind: CommitKind
    written: UploadedFiles
    clears: bool = False
    """True to remove every file of the head it is committed on, and the segments it covers."""

    @property
    def blind(self) -> bool:
        """True unless it clears: then the head decides whether there is anything to do."""
        return not self.clears

    async def draft(self, base: Base) -> Draft | None:
        """Returns the same draft for every head; None when there is nothing to add or clear."""
        nothing = not self.written.entries and not (
            self.clears and (base.snapshot.total.files or base.segments)
        )
        if nothing and not base.must_commit:
            return None
        return Draft(kind=self.kind, added=self.written.entries, clears=self.clears)


@dataclass(frozen=True, kw_only=True)
class ReplacePartitions(FilesChange):
    """Replaces all files that some partitions have in the head by other files.

    It is for tables whose partitions have merge units of their own, or that have no key: only there does
    no file of a partition hide rows of another.
    """

    kind: CommitKind
    holds: Callable[[tuple[bytes, ...]], bool]
    """Function that returns whether a partition is replaced."""
    written: UploadedFiles
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Returns a draft that removes the files live in the head it is committed on, and adds the others.

        Raises:
            InvalidInputError: a new file is of a partition that is not replaced.
            ConflictError: rows to remove are in WAL segments and in no file yet.
        """
        outside = [entry for entry in self.written.entries if not self.holds(entry.partition)]
        if outside:
            raise InvalidInputError(
                "the new rows do not all lie in the partitions to be replaced: "
                f"{outside[0].path.rpartition('/')[0]!r} is outside. Leave those rows out, or widen the "
                "condition."
            )
        # The files of the head, not of the state the caller saw: a blind overwrite replaces what is there.
        # Partitions are few beside their files, so each is judged once.
        verdicts: dict[tuple[bytes, ...], bool] = {}
        removed = []
        for one in await base.entries():
            if one.partition not in verdicts:
                verdicts[one.partition] = self.holds(one.partition)
            if verdicts[one.partition]:
                removed.append(one)
        check_flushed(removed)
        if not removed and not self.written.entries and not base.must_commit:
            return None
        return Draft(kind=self.kind, added=self.written.entries, removed=tuple(removed))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRefs:
    """Makes and drops tags and pins."""

    make: Mapping[str, Ref] = dataclasses.field(default_factory=dict)
    drop: Collection[str] = ()
    replace: bool = False
    """True when a tag that exists may be moved."""
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Returns the changed tags and pins; None when the head has them already.

        Raises:
            AlreadyExistsError: a name is taken by another snapshot.
            NotFoundError: the head does not have the snapshot, or the tag to drop.
        """
        refs = base.snapshot.refs
        for name, ref in self.make.items():
            known = refs.get(name)
            if known is not None and not self.replace:
                if known == ref:
                    continue  # the call was repeated
                raise AlreadyExistsError(
                    f"there is a {known.kind} {name!r} already, of snapshot {known.snapshot}: drop it first, "
                    "or pass replace=True",
                    tag=name,
                    snapshot=known.snapshot,
                )
            # A tag keeps what is there; objects of an expired snapshot that no other name keeps may be gone.
            is_kept = any(other.snapshot == ref.snapshot for other in refs.values())
            if not is_kept and not base.snapshot.earliest <= ref.snapshot <= base.snapshot.id:
                raise NotFoundError(
                    f"snapshot {ref.snapshot} cannot be tagged: there are {base.snapshot.earliest} to "
                    f"{base.snapshot.id}",
                    snapshot=ref.snapshot,
                )
        for name in self.drop:
            if name not in refs:
                raise NotFoundError(f"there is no tag {name!r}; there are {sorted(refs) or 'none'}", tag=name)
        if all(refs.get(name) == ref for name, ref in self.make.items()) and not self.drop:
            return None
        return Draft(kind=CommitKind.TAG, refs={**self.make, **dict.fromkeys(self.drop)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """Makes an older state the newest; the snapshots in between stay reachable by their ids."""

    target: Snapshot
    schema: Callable[[Base], Awaitable[SchemaRef | None]]
    """Function that writes a schema like the target's with a new id; None = the head's is the same."""
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Returns the files of the target; writers, tags and the covered log stay those of the head."""
        refs = base.snapshot.refs.values()
        kept = any(ref.snapshot == self.target.id for ref in refs)
        # It existed when the call began; since then its files may have been deleted.
        if self.target.id < base.snapshot.earliest and not kept:
            raise NotFoundError(
                f"snapshot {self.target.id} has expired meanwhile; the earliest is {base.snapshot.earliest}",
                snapshot=self.target.id,
            )
        return Draft(kind=CommitKind.ROLLBACK, files=self.target, schema=await self.schema(base))


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """Ends the table: every commit after it finds no table."""

    blind: ClassVar[bool] = True

    async def draft(self, base: Base) -> Draft | None:
        """Returns the last draft of a table."""
        return Draft(kind=CommitKind.DROP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrop:
    """Brings a dropped table back as it was, by the commit right after the drop and no other.

    After any other head there is nothing to do: somebody has brought the table back, and what was done to
    it since, another drop included, must not be undone.
    """

    drop: Snapshot
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Returns an empty draft right after the drop, which still lists the table's files; else None."""
        return Draft(kind=CommitKind.UNDROP) if base.snapshot.token == self.drop.token else None
