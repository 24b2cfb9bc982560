"""Folds: entries that a snapshot lists itself go into manifests, and small manifests together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakehouse.format.metadata import FileEntry, ManifestRef, Snapshot

__all__ = ["Fold", "fold_is_due", "plan_fold"]

_INLINE_ENTRIES_MAX = 128
"""Entries of older commits that a snapshot carries before they are folded into a manifest."""


_REMOVED_MAX = 512
"""Removed paths that a snapshot carries before the manifests that list them are written anew."""


_MANIFESTS_MAX = 32
"""Manifests before small ones are put together."""


_MANIFEST_ENTRIES = 8_192
"""Entries of a manifest that is not small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Entries that stood in snapshots and small or worn manifests, put into new manifests."""

    inline: frozenset[tuple[str, str | None]]
    """Files whose entries are not carried any more, with their index files."""
    replaced: frozenset[str]
    """Manifests that are not referred to any more."""
    forgotten: frozenset[str]
    """Removed paths that no manifest lists any more."""
    outputs: tuple[tuple[FileEntry, ...], ...]
    """Entries of the new manifests, positions filled in."""
    manifests: tuple[ManifestRef, ...] = ()
    """The new manifests, once they are written."""

    def fits(self, head: Snapshot) -> bool:
        """Whether what was folded is still as it was; else another commit folded or removed some of it."""
        return (
            self.inline <= _marks(head.added)
            and self.replaced <= {one.path for one in head.manifests}
            and self.forgotten <= set(head.removed)
        )


def plan_fold(
    head: Snapshot, inline: Sequence[FileEntry], listed: Mapping[str, Sequence[FileEntry]]
) -> Fold | None:
    """What to put into new manifests with the next commit; None = it is not due.

    Args:
        head: the newest snapshot.
        inline: the entries it carries, positions filled in.
        listed: the entries of each of its manifests; asked for only when :func:`fold_is_due`.
    """
    removed = frozenset(head.removed)
    replaced, entries, forgotten = set[str](), list(inline), set[str]()
    # What a manifest lists and the snapshot carries itself must not be in two manifests.
    twice = removed & {one.path for one in inline}
    many = len(head.manifests) > _MANIFESTS_MAX
    for ref in head.manifests:
        mine = listed[ref.path]
        dead = {one.path for one in mine if one.path in removed}
        small = many and ref.entries < _MANIFEST_ENTRIES
        if small or (dead and len(removed) > _REMOVED_MAX) or dead & twice:
            replaced.add(ref.path)
            forgotten |= dead
            entries += [one for one in mine if one.path not in dead]
    if not entries and not replaced:
        return None
    entries.sort(key=lambda one: (one.partition, one.bucket, one.lo or (0, 0, 0)))
    cuts = range(0, len(entries), _MANIFEST_ENTRIES)
    return Fold(
        inline=_marks(inline),
        replaced=frozenset(replaced),
        forgotten=frozenset(forgotten),
        outputs=tuple(tuple(entries[at : at + _MANIFEST_ENTRIES]) for at in cuts),
    )


def _marks(entries: Sequence[FileEntry]) -> frozenset[tuple[str, str | None]]:
    """What tells entries apart, also where one says something else of the file than another."""
    return frozenset((one.path, None if one.index is None else one.index.path) for one in entries)


def fold_is_due(head: Snapshot) -> bool:
    """Whether the head has become long."""
    return (
        len(head.added) > _INLINE_ENTRIES_MAX
        or len(head.removed) > _REMOVED_MAX
        or len(head.manifests) > _MANIFESTS_MAX
    )
