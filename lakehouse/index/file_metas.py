"""The metadata of every index in one puffin file, without the bodies of the indexes.

One request when everything lies in the fetched tail. Otherwise the tails of all blobs that
are still needed are fetched together; only metadata longer than expected costs a further
round. A blob that cannot be read costs its own targets, never the others.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

from lakehouse.config import IndexSettings
from lakehouse.errors import FormatError
from lakehouse.format.bloom import BloomSummary
from lakehouse.format.fulltext import FULLTEXT_CONFIG, FulltextConfig
from lakehouse.format.inverted import InvertedMetas
from lakehouse.format.puffin import BlobMeta
from lakehouse.format.tail import NeedMore
from lakehouse.format.target_key import TARGET_EXPR, IndexTarget, decode_target_key
from lakehouse.index.classify import classify
from lakehouse.index.models import (
    BloomInfo,
    FulltextInfo,
    IndexEntry,
    IndexFileLocator,
    IndexType,
    InvertedInfo,
    MetaInfo,
)
from lakehouse.index.reader import PuffinReader

__all__ = ["BrokenBlob", "FileMetas", "TargetMeta", "read_file_metas"]

Meta = TypeVar("Meta", BloomSummary, InvertedMetas)

_GUESS_BYTES = 8192
"""How much of a blob's end is fetched when nothing of it is at hand; upstream's own number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMeta:
    """One index of a file: an :class:`IndexEntry` without the place."""

    index_type: IndexType
    target_key: str
    target: IndexTarget | None
    blob_size: int
    meta: MetaInfo | None
    error: str | None = None

    def entry(self, locator: IndexFileLocator) -> IndexEntry:
        """The entry of this index in that file."""
        return IndexEntry(
            locator=locator,
            index_type=self.index_type,
            target=self.target,
            target_key=self.target_key,
            blob_size=self.blob_size,
            meta=self.meta,
            error=self.error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenBlob:
    """A blob whose metadata cannot be read."""

    blob: str
    """Its type."""
    offset: int
    """Where it begins in the file."""
    message: str
    kind: str
    """A word of :data:`lakehouse.errors.KINDS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetas:
    """All indexes of a file, by index type and target key."""

    targets: tuple[TargetMeta, ...]
    broken: tuple[BrokenBlob, ...]
    size: int
    """Of the file, as the store has it."""
    tail_bytes: int
    """How much of the file's end would have held all of this."""


async def read_file_metas(
    reader: PuffinReader, *, settings: IndexSettings, kinds: Collection[IndexType] | None = None
) -> FileMetas:
    """Reads the footer and the metadata of the indexes of the given kinds (all by default).

    Raises:
        FormatError: the footer cannot be read, so the file gives nothing.
    """
    footer = await reader.footer()
    wanted: list[tuple[BlobMeta, IndexType, str | None]] = []
    for blob in footer.blobs:
        found = classify(blob.type)
        if found is not None and (kinds is None or found[0] in kinds):
            wanted.append((blob, *found))
    tails = _Tails(reader)
    blooms: dict[int, BloomSummary] = {}
    inverteds: dict[int, InvertedMetas] = {}
    for blob, kind, _ in wanted:
        if kind is IndexType.INVERTED:
            tails.want(blob, InvertedMetas, inverteds)
        elif kind is not IndexType.FULLTEXT_TANTIVY:
            tails.want(blob, BloomSummary, blooms)
    await tails.read(settings.metadata_gap_bytes)
    targets: list[TargetMeta] = []
    for blob, kind, key in wanted:
        broken = tails.broken.get(blob.offset)
        error = broken.message if broken is not None else None
        if key is None:
            if error is None:
                targets += _inverted_targets(blob, inverteds[blob.offset])
        else:
            targets.append(_target(blob, kind, key, blooms.get(blob.offset), error))
    targets.sort(key=lambda target: (target.index_type.value, target.target_key))
    return FileMetas(
        targets=tuple(targets),
        broken=tuple(tails.broken.values()),
        size=reader.size,
        tail_bytes=reader.size - min(tails.start, reader.footer_start),
    )


def _target(
    blob: BlobMeta, kind: IndexType, key: str, bloom: BloomSummary | None, error: str | None
) -> TargetMeta:
    info = BloomInfo.of(bloom) if bloom is not None else None
    if kind is IndexType.BLOOM_SKIPPING:
        meta = MetaInfo(bloom=info) if info is not None else None
    elif kind is IndexType.FULLTEXT_BLOOM:
        meta = MetaInfo.of_fulltext_bloom(info, _fulltext(blob))
    else:
        meta = MetaInfo(fulltext=_fulltext(blob))
    return TargetMeta(
        index_type=kind,
        target_key=key,
        target=_decoded(key, blob),
        blob_size=blob.length,
        meta=meta,
        error=error,
    )


def _inverted_targets(blob: BlobMeta, metas: InvertedMetas) -> Iterator[TargetMeta]:
    for key, column in metas.columns.items():
        yield TargetMeta(
            index_type=IndexType.INVERTED,
            target_key=key,
            target=_decoded(key, blob),
            blob_size=blob.length,
            meta=MetaInfo(inverted=InvertedInfo.of(column, metas)),
        )


def _decoded(key: str, blob: BlobMeta) -> IndexTarget | None:
    return _decoded_key(key, blob.properties.get(TARGET_EXPR))


def _fulltext(blob: BlobMeta) -> FulltextInfo:
    return _fulltext_info(blob.properties.get(FULLTEXT_CONFIG))


# The files of a table repeat the same few keys and configurations.


@functools.lru_cache(maxsize=4096)
def _decoded_key(key: str, expr: str | None) -> IndexTarget | None:
    try:
        return decode_target_key(key, None if expr is None else {TARGET_EXPR: expr})
    except FormatError:
        return None


@functools.lru_cache(maxsize=256)
def _fulltext_info(raw: str | None) -> FulltextInfo:
    """The configuration; English and in any case where it is missing or broken, as upstream reads it."""
    try:
        config = FulltextConfig.parse(raw)
    except FormatError:
        config = FulltextConfig()
    return FulltextInfo(
        analyzer=config.analyzer.value.lower(),
        case_sensitive=config.case_sensitive,
        granularity=config.granularity,
        false_positive_rate=config.false_positive_rate,
        raw_config=raw,
    )


class _Tails:
    """Metadata at the ends of blobs, as few reads as possible."""

    def __init__(self, reader: PuffinReader) -> None:
        self._reader = reader
        self._open: list[tuple[BlobMeta, type, dict[int, object]]] = []
        self.broken: dict[int, BrokenBlob] = {}
        """By offset of the blob."""
        self.start = reader.size
        """First byte of the file that was needed."""

    def want(self, blob: BlobMeta, kind: type[Meta], found: dict[int, Meta]) -> None:
        """Asks for a blob's metadata, which :meth:`read` puts into ``found`` by its offset."""
        self._open.append((blob, kind, found))  # type: ignore[arg-type]

    async def read(self, gap_bytes: int) -> None:
        """Parses what is at hand, fetches what is missing, until nothing is."""
        base, window = self._reader.window
        at_hand = memoryview(window)
        needs: list[tuple[tuple[BlobMeta, type, dict[int, object]], tuple[int, int]]] = []
        for want in self._open:
            blob = want[0]
            tail = at_hand[max(0, blob.offset - base) : max(0, blob.end - base)]
            if not len(tail) and blob.length:
                needs.append((want, (max(blob.offset, blob.end - _GUESS_BYTES), blob.end)))
            elif (span := self._parse(want, tail)) is not None:
                needs.append((want, span))
        while needs:
            fetched = await self._reader.ranges([span for _, span in needs], gap_bytes=gap_bytes)
            needs = [
                (want, span)
                for (want, _), data in zip(needs, fetched, strict=True)
                if (span := self._parse(want, memoryview(data))) is not None
            ]

    def _parse(
        self, want: tuple[BlobMeta, type, dict[int, object]], tail: memoryview
    ) -> tuple[int, int] | None:
        """Parses a blob's tail; the range of the file still needed, if it does not reach."""
        blob, kind, found = want
        try:
            meta = kind.from_tail(tail, blob.length)  # type: ignore[attr-defined]
        except FormatError as error:
            message = f"{self._reader.key}, blob {blob.type!r} at byte {blob.offset}: {error.message}"
            self.broken[blob.offset] = BrokenBlob(
                blob=blob.type, offset=blob.offset, message=message, kind=error.kind
            )
            return None
        if isinstance(meta, NeedMore):
            return blob.offset + meta.start, blob.offset + meta.end
        found[blob.offset] = meta
        self.start = min(self.start, blob.end - len(tail))
        return None
