"""The next snapshot as a pure function of the head and of a commit's draft.

Invariant: the child's files are the parent's without those the draft removes and with those it adds,
whether or not older entries are folded into manifests on the way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakehouse.errors import ConflictError
from lakehouse.format.metadata import (
    CommitKind,
    Counts,
    FileEntry,
    ManifestRef,
    ParentRef,
    Ref,
    SchemaRef,
    SegmentRange,
    Snapshot,
    StatisticsRef,
    WalRef,
    WriterMark,
)
from lakehouse.storage.commit.fold import Fold
from lakehouse.storage.wal.tail import Tail, covered, wal_after

__all__ = ["Draft", "child_of", "counts_of"]

_GONE_MAX = 256
"""Maximum removed paths that a snapshot names; more are found by comparing it with its parent."""
_WRITERS_MAX = 1_000
"""Maximum writers whose last sequence a snapshot remembers; the newest stay."""
_WRITER_IDLE_MS = 7 * 24 * 3_600_000
"""Time after which a writer that has not committed is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Changes of a commit, decided against one snapshot."""

    kind: CommitKind
    added: tuple[FileEntry, ...] = ()
    """New files; ``at`` is not set, nor the interval unless it is compaction's."""
    removed: tuple[FileEntry, ...] = ()
    """Live files of that snapshot."""
    replaced: tuple[FileEntry, ...] = ()
    """New entries for live files of that snapshot, positions filled in: with other indexes, for example."""
    clears: bool = False
    """Whether every live file is removed, unread."""
    files: Snapshot | None = None
    """Snapshot whose files replace the head's, in a rollback."""
    flushed: frozenset[int] = frozenset()
    """WAL segments whose rows ``added`` holds."""
    begins_log: bool = False
    """Whether the table has a write-ahead log from this commit on."""
    log_epoch: int | None = None
    """Epoch of the writer that has taken the log over; None = unchanged."""
    statistics: StatisticsRef | None = None
    """New statistics of the columns; None = those of the head stay."""
    lost_statistics: str | None = None
    """Path of a statistics file that the head's reference is dropped to, if it is to that one."""
    schema: SchemaRef | None = None
    refs: Mapping[str, Ref | None] = dataclasses.field(default_factory=dict)
    """Tags and pins made or, with None, dropped."""
    earliest: int | None = None
    """Oldest snapshot that has not expired; None = unchanged."""
    orphan_horizon_ms: int | None = None
    uploaded_ms: int | None = None
    """Time at which the store answered the first upload for this draft, by its clock."""


def child_of(
    head: Snapshot,
    draft: Draft,
    *,
    token: str,
    now_ms: int,
    manifest: ManifestRef | None = None,
    fold: Fold | None = None,
    writer: tuple[str, int] | None = None,
    message: str | None = None,
    tail: Tail | None = None,
) -> Snapshot:
    """Returns the snapshot after ``head`` with the draft's changes, covering the log's tail.

    Its time is after the head's even if the clock is behind: times grow with numbers. With a ``manifest``
    the draft's new files are in that, since they are too many for the snapshot itself.
    """
    number, time_ms = head.id + 1, max(head.time_ms + 1, now_ms)
    # Entries without a position of their own mean the snapshot that added them, which the child is not.
    base = head.with_positions() if draft.files is None else draft.files.with_positions()
    inline, manifests, removed = _files(base, draft, manifest, fold if draft.files is None else None)
    plus = counts_of(draft.added)
    if draft.files is not None:
        plus, minus, gone = base.total, head.total, None
    elif draft.clears:
        minus, gone = head.total, None
    else:
        minus = counts_of(draft.removed)
        gone = tuple(entry.path for entry in draft.removed) if len(draft.removed) <= _GONE_MAX else None
    # What the draft does not name is the head's, in a rollback too: writers, tags, the covered log.
    return dataclasses.replace(
        head,
        id=number,
        token=token,
        parent=ParentRef(id=head.id, token=head.token),
        kind=draft.kind,
        time_ms=time_ms,
        schema=draft.schema or head.schema,
        statistics=_statistics(head, draft),
        manifests=manifests,
        added=inline,
        removed=removed,
        gone=gone,
        segments=_segments(head, draft, tail),
        wal=_wal(head, draft, tail),
        writers=_writers(head, writer, number, time_ms),
        refs=_refs(head, draft, now_ms),
        earliest=max(draft.earliest or 0, head.earliest),
        orphan_horizon_ms=_latest(draft.orphan_horizon_ms, head.orphan_horizon_ms),
        total=head.total + plus - minus,
        plus=plus,
        minus=minus,
        message=message,
    )


def _files(
    base: Snapshot, draft: Draft, manifest: ManifestRef | None, fold: Fold | None
) -> tuple[tuple[FileEntry, ...], tuple[ManifestRef, ...], tuple[str, ...]]:
    """Returns the inline entries, the manifests and the removed paths of the child."""
    own_inline = () if manifest else draft.added
    own_manifests = (manifest,) if manifest else ()
    if draft.clears:
        return own_inline, own_manifests, ()
    inline, manifests, removed = base.added, base.manifests, base.removed
    if fold is not None and fold.fits(base):
        folded = {path for path, _ in fold.inline}
        inline = tuple(entry for entry in inline if entry.path not in folded)
        manifests = (*(ref for ref in manifests if ref.path not in fold.replaced), *fold.manifests)
        removed = tuple(path for path in removed if path not in fold.forgotten)
    if draft.removed or draft.replaced:
        away = {entry.path for entry in (*draft.removed, *draft.replaced)}
        carried = {entry.path for entry in inline}
        # A replaced entry moves from its manifest into the snapshot, so the manifest's counts as removed.
        inline = (*(entry for entry in inline if entry.path not in away), *draft.replaced)
        listed = away - carried
        if listed & set(removed):
            raise ConflictError("a file to be removed is no longer live", paths=sorted(listed & set(removed)))
        removed = (*removed, *sorted(listed))
    return (*inline, *own_inline), (*manifests, *own_manifests), removed


def _statistics(head: Snapshot, draft: Draft) -> StatisticsRef | None:
    kept = head.statistics
    if kept is not None and kept.path == draft.lost_statistics:
        kept = None
    return draft.statistics or kept


def _segments(head: Snapshot, draft: Draft, tail: Tail | None) -> tuple[SegmentRange, ...]:
    """Returns the child's log segments: a clear or a rollback takes the tail away, too."""
    if draft.clears:
        return ()
    if draft.files is not None:
        return draft.files.with_positions().segments
    ranges = covered(head, tail, at=None)
    if not draft.flushed:
        return ranges
    return tuple(left for segments in ranges for left in segments.without(draft.flushed))


def _wal(head: Snapshot, draft: Draft, tail: Tail | None) -> WalRef | None:
    """Returns the covered part of the log, and the epoch that is announced: neither ever goes back."""
    wal = WalRef(epoch=0, upto=0) if draft.begins_log and head.wal is None else wal_after(head, tail)
    if wal is None or draft.log_epoch is None:
        return wal
    return dataclasses.replace(wal, epoch=max(wal.epoch, draft.log_epoch))


def counts_of(entries: Sequence[FileEntry]) -> Counts:
    """Sums files, rows and bytes of these entries."""
    return Counts(
        files=len(entries),
        rows=sum(entry.rows for entry in entries),
        bytes=sum(entry.size for entry in entries),
    )


def _writers(
    head: Snapshot, writer: tuple[str, int] | None, number: int, time_ms: int
) -> Mapping[str, WriterMark]:
    kept = {name: mark for name, mark in head.writers.items() if time_ms - mark.time_ms <= _WRITER_IDLE_MS}
    if writer is not None:
        name, sequence = writer
        kept[name] = WriterMark(sequence=sequence, snapshot=number, time_ms=time_ms)
    if len(kept) > _WRITERS_MAX:
        newest = sorted(kept.items(), key=lambda item: item[1].time_ms)[-_WRITERS_MAX:]
        kept = dict(newest)
    return kept


def _refs(head: Snapshot, draft: Draft, now_ms: int) -> Mapping[str, Ref]:
    """Returns tags, and pins that have not ended; snapshots' times may be ahead of the store's clock."""
    # A pin that has ended goes with the next commit: no commit of its own is made for that.
    merged: dict[str, Ref | None] = {**head.refs, **draft.refs}
    return {
        name: ref
        for name, ref in merged.items()
        if ref is not None and (ref.expires_ms is None or ref.expires_ms > now_ms)
    }


def _latest(first: int | None, second: int | None) -> int | None:
    known = [value for value in (first, second) if value is not None]
    return max(known) if known else None
