"""Reader of the metadata of every index in one puffin file, without the bodies of the indexes.

It makes one request when everything lies in the fetched tail. Otherwise the tails of all blobs that
are still needed are fetched together; only metadata longer than expected costs a further
round. A blob that cannot be read costs its own targets, never the others.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.index import BloomSummary, InvertedMetas
from lakehouse.format.puffin import BlobMeta
from lakehouse.format.schema import TARGET_EXPR, IndexTarget, decode_target_key, expression_text
from lakehouse.format.text import FULLTEXT_CONFIG, FulltextConfig
from lakehouse.index.models import (
    BloomInfo,
    FulltextInfo,
    IndexEntry,
    IndexFileLocator,
    IndexType,
    InvertedInfo,
    MetaInfo,
)
from lakehouse.index.puffin.blob_tails import TailMetas, TailParser, read_tails
from lakehouse.index.puffin.blob_types import classify
from lakehouse.index.puffin.reader import PuffinReader, about

__all__ = ["FileMetas", "TargetMeta", "read_file_metas"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMeta:
    """Metadata of an index of a file: an :class:`IndexEntry` without the locator."""

    index_type: IndexType
    target_key: str
    target: IndexTarget | None
    blob_size: int
    meta: MetaInfo | None
    error: str | None = None

    def entry(self, locator: IndexFileLocator) -> IndexEntry:
        """Returns the entry of this index in the file at ``locator``."""
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
class FileMetas:
    """Metadata of all indexes of a file."""

    targets: tuple[TargetMeta, ...]
    """Metadata of each index, by index type and target key, ascending."""
    broken: tuple[FormatError, ...]
    """Errors of metadata that cannot be read, of each blob, and of each target whose key is wrong."""
    size: int
    """Size of the file in bytes, from the store."""
    tail_bytes: int
    """Bytes of the file's end that hold all of the metadata."""


_PARSERS: Mapping[IndexType, TailParser[BloomSummary | InvertedMetas]] = {
    IndexType.BLOOM_SKIPPING: BloomSummary.from_tail,
    IndexType.FULLTEXT_BLOOM: BloomSummary.from_tail,
    IndexType.INVERTED: functools.partial(InvertedMetas.from_tail, stats=False),
}
"""Parsers of the metadata at a blob's end, by kind; a tantivy index has its metadata in properties."""


async def read_file_metas(
    reader: PuffinReader, *, settings: IndexSettings, kinds: Collection[IndexType] | None = None
) -> FileMetas:
    """Reads the footer and the metadata of the indexes of the given kinds (all by default).

    Raises:
        FormatError: the footer cannot be read, and so nothing of the file.
    """
    footer = await reader.footer()
    wanted = [
        (blob, *kind_and_key)
        for blob in footer.blobs
        if (kind_and_key := classify(blob.type)) is not None and (kinds is None or kind_and_key[0] in kinds)
    ]
    tails: TailMetas[BloomSummary | InvertedMetas] = await read_tails(
        reader,
        [(blob, _PARSERS.get(kind)) for blob, kind, _ in wanted],
        settings=settings,
    )
    targets: list[TargetMeta] = []
    broken: list[FormatError] = []
    for (blob, kind, key), meta in zip(wanted, tails.metas, strict=True):
        if isinstance(meta, FormatError):
            broken.append(meta)
        for target_key, info in _infos(blob, kind, key, meta):
            error = meta if isinstance(meta, FormatError) else None
            target, mistaken = _decoded(target_key, blob.properties)
            if mistaken is not None:
                error = about(mistaken, reader.key, blob)
                broken.append(error)
            targets.append(
                TargetMeta(
                    index_type=kind,
                    target_key=target_key,
                    target=target,
                    blob_size=blob.length,
                    meta=info,
                    error=None if error is None else error.message,
                )
            )
    targets.sort(key=lambda target: (target.index_type, target.target_key))
    return FileMetas(
        targets=tuple(targets),
        broken=tuple(broken),
        size=reader.size,
        tail_bytes=reader.size - min(tails.start, reader.footer_start),
    )


def _infos(
    blob: BlobMeta, kind: IndexType, key: str | None, meta: BloomSummary | InvertedMetas | FormatError | None
) -> list[tuple[str, MetaInfo | None]]:
    """Returns the target keys of a blob, each with the metadata of its index."""
    if key is None:
        if not isinstance(meta, InvertedMetas):
            return []  # only the metadata, which cannot be read, have the targets
        return [
            (name, MetaInfo(inverted=InvertedInfo.of(column, meta))) for name, column in meta.columns.items()
        ]
    bloom = BloomInfo.of(meta) if isinstance(meta, BloomSummary) else None
    if kind is IndexType.BLOOM_SKIPPING:
        return [(key, MetaInfo(bloom=bloom) if bloom is not None else None)]
    config = blob.properties.get(FULLTEXT_CONFIG)
    return [(key, MetaInfo(bloom=bloom, fulltext=_fulltext_info(config, bloom and bloom.rows_per_segment)))]


def _decoded(key: str, properties: Mapping[str, str]) -> tuple[IndexTarget | None, CorruptionError | None]:
    """Returns the target of a valid key; an error where the blob has the text of another expression."""
    return _decoded_key(key, expression_text(key, properties) if properties else None)


# Cached, because the files of a table repeat the same few keys and configurations.


@functools.lru_cache(maxsize=4096)
def _decoded_key(key: str, expr: str | None) -> tuple[IndexTarget | None, CorruptionError | None]:
    try:
        return decode_target_key(key, None if expr is None else {TARGET_EXPR: expr}), None
    except CorruptionError as error:
        return None, error.with_traceback(None)
    except FormatError:
        return None, None


@functools.lru_cache(maxsize=256)
def _fulltext_info(raw: str | None, rows_per_segment: int | None) -> FulltextInfo:
    """Returns the configuration; if it is missing or broken, English and not case sensitive, as upstream.

    Without a granularity it gets that of the filters.
    """
    try:
        config = FulltextConfig.parse(raw)
    except FormatError:
        config = FulltextConfig()
    return FulltextInfo(
        analyzer=config.analyzer.value.lower(),
        case_sensitive=config.case_sensitive,
        granularity=config.granularity or rows_per_segment,
        false_positive_rate=config.false_positive_rate,
        raw_config=raw,
    )
