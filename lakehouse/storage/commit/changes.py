"""What commits want that needs no rows to be read: new files, tags, an older state, an end.

Invariant: a draft made here is right for the head it was made against; asked again for another head,
it decides again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakehouse.errors import AlreadyExistsError, ConflictError, NotFoundError
from lakehouse.format.metadata import CommitKind, FileEntry, FileFormat, Ref, SchemaRef, Snapshot
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.commit.spilled_manifest import SpilledManifest

__all__ = [
    "UNFLUSHED",
    "AddFiles",
    "ChangeRefs",
    "DropTable",
    "ReplacePartitions",
    "Rollback",
    "Undrop",
    "check_flushed",
]

UNFLUSHED = "unflushed"
"""Kind of the conflict with rows that are in no file that could be taken away."""


def check_flushed(removed: Iterable[FileEntry]) -> None:
    """Refuses to take rows of WAL segments away: they have to be put into files first."""
    for one in removed:
        if one.format is FileFormat.WAL:
            raise ConflictError(
                f"rows to be taken away are in WAL segment {one.path.partition('#')[0]} and in no file yet: "
                "flush the table, then do it again",
                kind=UNFLUSHED,
                path=one.path,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFiles:
    """Adds files, whatever the head is: append, upsert, delete by keys, overwrite of everything."""

    kind: CommitKind
    entries: tuple[FileEntry, ...]
    own: SpilledManifest
    clears: bool = False
    """Takes away every file of the head it is committed on, and the segments it covers."""
    must_commit: bool = False
    """Also when there is nothing to add: the commit carries a sequence."""
    message: str | None = None

    @property
    def blind(self) -> bool:
        """Only whether there is anything to clear depends on the head."""
        return not self.clears

    async def draft(self, base: Base) -> Draft | None:
        """The same for every head."""
        nothing = not self.entries and not (self.clears and (base.snapshot.total.files or base.segments))
        if nothing and not self.must_commit:
            return None
        return Draft(
            kind=self.kind,
            added=self.entries,
            manifest=await self.own.of(self.entries, base.snapshot),
            clears=self.clears,
            message=self.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePartitions:
    """Takes away whatever files whole partitions have in the head, and adds files.

    Only where a partition has merge units of its own (or the table no key): files of a partition
    then hide no row of another.
    """

    kind: CommitKind
    holds: Callable[[tuple[bytes, ...]], bool]
    """Whether a partition is one of them."""
    entries: tuple[FileEntry, ...]
    own: SpilledManifest
    must_commit: bool = False
    message: str | None = None
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """What is live in the head, as TABLES §5 asks of blind overwrites."""
        verdicts: dict[tuple[bytes, ...], bool] = {}
        removed = []
        for one in await base.entries():
            if one.partition not in verdicts:
                verdicts[one.partition] = self.holds(one.partition)
            if verdicts[one.partition]:
                removed.append(one)
        check_flushed(removed)
        if not removed and not self.entries and not self.must_commit:
            return None
        return Draft(
            kind=self.kind,
            added=self.entries,
            manifest=await self.own.of(self.entries, base.snapshot),
            removed=tuple(removed),
            message=self.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRefs:
    """Makes and drops tags and pins."""

    make: Mapping[str, Ref] = dataclasses.field(default_factory=dict)
    drop: Collection[str] = ()
    replace: bool = False
    """Whether a tag that exists may be moved."""
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Refuses what the head does not allow."""
        refs = base.snapshot.refs
        for name, ref in self.make.items():
            known = refs.get(name)
            if known is not None and not self.replace:
                if known == ref:
                    continue
                raise AlreadyExistsError(
                    f"there is a {known.kind} {name!r} already, of snapshot {known.snapshot}: drop it first, "
                    "or pass replace=True",
                    tag=name,
                    snapshot=known.snapshot,
                )
            if not base.snapshot.earliest <= ref.snapshot <= base.snapshot.id:
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
    """Makes an older state the newest; what came between stays reachable by its id."""

    target: Snapshot
    schema: Callable[[Base], Awaitable[SchemaRef | None]]
    """A schema like the target's with an id of its own; None = the head's is the same."""
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """The files of the target, and of the head what a rollback must not undo."""
        refs = base.snapshot.refs.values()
        kept = any(ref.snapshot == self.target.id for ref in refs)
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
        """The last draft of a table."""
        return Draft(kind=CommitKind.DROP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrop:
    """Brings a dropped table back as it was, by the commit right behind the drop and no other.

    Behind any other head there is nothing to do: somebody has brought the table back, and what became
    of it since, another drop included, is not to be undone.
    """

    drop: Snapshot
    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """The drop's own files, which are those the table had."""
        return Draft(kind=CommitKind.UNDROP) if base.snapshot.token == self.drop.token else None
