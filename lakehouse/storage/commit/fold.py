"""Folds: entries that a snapshot lists itself go into manifests, and small manifests together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakehouse.format.metadata import FileEntry, ManifestRef, Snapshot

__all__ = ["Fold", "fold_is_due", "plan_fold"]

_INLINE_ENTRIES_MAX = 128
"""Maximum entries of older commits in a snapshot; with more, they are folded into a manifest."""


_REMOVED_MAX = 512
"""Maximum removed paths in a snapshot; with more, the manifests that list them are written anew."""


_MANIFESTS_MAX = 32
"""Maximum manifests; with more, small ones are merged."""


_MANIFEST_ENTRIES = 8_192
"""Entries of a full manifest; one with fewer is small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Entries of snapshots and of small or worn manifests, rewritten into new manifests."""

    inline: frozenset[tuple[str, str | None]]
    """Files, with their index files, whose entries the snapshot lists itself no more."""
    replaced: frozenset[str]
    """Manifests that the snapshot refers to no more."""
    forgotten: frozenset[str]
    """Removed paths that no manifest lists any more, so that they need not be remembered."""
    outputs: tuple[tuple[FileEntry, ...], ...]
    """Entries of the new manifests, positions filled in."""
    manifests: tuple[ManifestRef, ...] = ()
    """The new manifests, set once they are written."""

    def fits(self, head: Snapshot) -> bool:
        """Returns whether no other commit has folded or removed any of the folded entries."""
        return (
            self.inline <= _marks(head.added)
            and self.replaced <= {one.path for one in head.manifests}
            and self.forgotten <= set(head.removed)
        )


def plan_fold(
    head: Snapshot, inline: Sequence[FileEntry], listed: Mapping[str, Sequence[FileEntry]]
) -> Fold | None:
    """Plans the entries to write into new manifests with the next commit; None = there are none.

    Args:
        head: the newest snapshot.
        inline: the entries that it lists itself, positions filled in.
        listed: the entries of each of its manifests; asked for only if :func:`fold_is_due`.
    """
    removed = frozenset(head.removed)
    replaced, entries, forgotten = set[str](), list(inline), set[str]()
    # What a manifest lists and the snapshot carries itself must not be in two manifests.
    twice = removed & {one.path for one in inline}
    many = len(head.manifests) > _MANIFESTS_MAX
    for ref in head.manifests:
        mine = listed[ref.path]
        dead = {one.path for one in mine if one.path in removed}
        # Full manifests stay as they are, however many: most of a large table is in them.
        small = many and ref.entries < _MANIFEST_ENTRIES
        if small or (dead and len(removed) > _REMOVED_MAX) or dead & twice:
            replaced.add(ref.path)
            forgotten |= dead
            entries += [one for one in mine if one.path not in dead]
    if not entries and not replaced:
        return None
    # Files of a partition side by side: so each manifest has narrow bounds of partitions.
    entries.sort(key=lambda one: (one.partition, one.bucket, one.lo or (0, 0, 0)))
    cuts = range(0, len(entries), _MANIFEST_ENTRIES)
    return Fold(
        inline=_marks(inline),
        replaced=frozenset(replaced),
        forgotten=frozenset(forgotten),
        outputs=tuple(tuple(entries[at : at + _MANIFEST_ENTRIES]) for at in cuts),
    )


def _marks(entries: Sequence[FileEntry]) -> frozenset[tuple[str, str | None]]:
    """Returns the identities of entries: data and index file, as a file may be listed with a new index."""
    return frozenset((one.path, None if one.index is None else one.index.path) for one in entries)


def fold_is_due(head: Snapshot) -> bool:
    """Returns whether the head lists more itself than a snapshot should."""
    return (
        len(head.added) > _INLINE_ENTRIES_MAX
        or len(head.removed) > _REMOVED_MAX
        or len(head.manifests) > _MANIFESTS_MAX
    )
