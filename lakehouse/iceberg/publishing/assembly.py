"""Assembly of a published snapshot: its manifests, of which only those with changed files are written anew.

Manifests of the publication before stay as they are while all of their files do. Files that are gone are
marked as deleted in the manifest that replaces theirs; small manifests are put together when they are many.

Invariant: the live entries of the manifests are the published files, each once, and for each of them at most
one deletion vector, the newest.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.iceberg.manifests.manifest_list import ManifestFile
from lakehouse.iceberg.publishing.manifests import Content, PublishedFile, live_files

__all__ = [
    "MANIFEST_FILES",
    "Assembly",
    "KeptManifest",
    "assemble",
    "coverage_digest",
    "summary_of",
    "with_row_ids",
]

MANIFEST_FILES = 4_000
"""Number of files of a manifest."""
_SMALL = MANIFEST_FILES // 2
_SMALL_MAX = 16
"""Number of small manifests from which on they are put together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptManifest:
    """A manifest of the publication before, and its live entries."""

    listed: ManifestFile
    files: Sequence[PublishedFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The manifests of a snapshot."""

    kept: tuple[ManifestFile, ...]
    """Manifests that stay as they are."""
    written: tuple[tuple[Content, tuple[PublishedFile, ...]], ...]
    """Entries of manifests to write."""
    added: tuple[PublishedFile, ...]
    """Data files and vectors that are new."""
    removed: tuple[PublishedFile, ...]
    """Data files and vectors that are gone."""


def assemble(
    files: Mapping[str, PublishedFile],
    vectors: Mapping[str, PublishedFile],
    before: Sequence[KeptManifest],
    *,
    snapshot: int,
) -> Assembly:
    """Returns the manifests of a snapshot.

    Args:
        files: entries of the data files to be shown, by URL, as if all were new. vectors: entries of their
        deletion vectors, by URL of the data file; those that exist already are equal
            to the ones in ``before``.
        before: the manifests of the publication before.
        snapshot: id of the snapshot.
    """
    wanted = {Content.DATA: dict(files), Content.DELETES: dict(vectors)}
    kept: list[ManifestFile] = []
    loose: dict[Content, list[PublishedFile]] = {Content.DATA: [], Content.DELETES: []}
    removed: list[PublishedFile] = []
    merging = _crowded(before)
    for manifest in before:
        content, new = Content(manifest.listed.content), wanted[Content(manifest.listed.content)]
        stay = [file for file in manifest.files if _is_wanted(file, new)]
        gone = [file for file in manifest.files if not _is_wanted(file, new)]
        for file in stay:
            del new[file.data_file]
        removed += gone
        if gone or (merging and live_files(manifest.listed) < _SMALL):
            loose[content] += [file.as_existing() for file in stay]
            loose[content] += [file.as_deleted(snapshot) for file in gone if file.entry is not None]
        elif stay:
            kept.append(manifest.listed)
    added = [file for new in wanted.values() for file in new.values()]
    written = [
        (content, tuple(part))
        for content in Content
        for part in _parts([*wanted[content].values(), *loose[content]])
    ]
    return Assembly(kept=tuple(kept), written=tuple(written), added=tuple(added), removed=tuple(removed))


def _is_wanted(file: PublishedFile, new: Mapping[str, PublishedFile]) -> bool:
    match = new.get(file.data_file)
    return match is not None and match.vector == file.vector


def _crowded(before: Sequence[KeptManifest]) -> bool:
    return sum(live_files(manifest.listed) < _SMALL for manifest in before) >= _SMALL_MAX


def _parts(files: Sequence[PublishedFile]) -> Iterable[Sequence[PublishedFile]]:
    return (files[at : at + MANIFEST_FILES] for at in range(0, len(files), MANIFEST_FILES))


def coverage_digest(files: Iterable[str], *, schema: int, version: int) -> str:
    """Returns a digest of what a snapshot shows: equal ones need no other publication.

    Which rows are hidden follows from which files there are, so vectors are no part of it.
    """
    text = "\n".join([f"{version} {schema}", *sorted(files)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def summary_of(
    assembly: Assembly, shown: Iterable[PublishedFile], members: Mapping[str, str]
) -> dict[str, str]:
    """Returns the summary of a snapshot: what it changed and what it shows, in the words of the trade."""
    added, removed, total = _sums(assembly.added), _sums(assembly.removed), _sums(shown)
    changes: dict[str, int] = {
        "added-data-files": added["files"],
        "deleted-data-files": removed["files"],
        "added-records": added["rows"],
        "deleted-records": removed["rows"],
        "added-files-size": added["bytes"],
        "removed-files-size": removed["bytes"],
        "added-dvs": added["vectors"],
        "removed-dvs": removed["vectors"],
        "added-position-deletes": added["hidden"],
        "removed-position-deletes": removed["hidden"],
    }
    return {
        "operation": "overwrite" if assembly.removed or added["vectors"] else "append",
        **members,
        **{name: str(count) for name, count in changes.items() if count},
        "total-data-files": str(total["files"]),
        "total-delete-files": str(total["vectors"]),
        "total-records": str(total["rows"]),
        "total-files-size": str(total["bytes"]),
        "total-position-deletes": str(total["hidden"]),
        "total-equality-deletes": "0",
    }


def _sums(files: Iterable[PublishedFile]) -> dict[str, int]:
    sums = {"files": 0, "rows": 0, "bytes": 0, "vectors": 0, "hidden": 0}
    for file in files:
        if file.vector is None:
            sums["files"] += 1
            sums["rows"] += file.rows
            sums["bytes"] += file.entry.size if file.entry is not None else 0
        else:
            sums["vectors"] += 1
            sums["hidden"] += file.rows
            sums["bytes"] += file.vector.length
    return sums


def with_row_ids(manifests: Sequence[ManifestFile], first: int) -> tuple[list[ManifestFile], int]:
    """Numbers the rows of manifests of data files that have no number yet; returns also the next number."""
    numbered = []
    for listed in manifests:
        if listed.content == Content.DATA and listed.first_row_id is None:
            listed = dataclasses.replace(listed, first_row_id=first)
            first += (listed.existing_rows or 0) + (listed.added_rows or 0)
        numbered.append(listed)
    return numbered, first
