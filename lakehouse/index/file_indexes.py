"""The indexes of one file that can be searched: their metadata, read when first asked for and kept.

Invariant: all indexes of a file are about the same number of rows; a file where they are not, or
where a caller knows better, is damaged. A target whose key cannot be read is as if it were not
there, which loses nothing but speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.bloom import BloomMeta
from lakehouse.format.fulltext import FULLTEXT_CONFIG, FulltextConfig
from lakehouse.format.inverted import InvertedMetas
from lakehouse.format.puffin import BlobMeta
from lakehouse.format.tail import NeedMore
from lakehouse.format.target_key import ColumnSetTarget, ExpressionTarget, IndexTarget, decode_target_key
from lakehouse.index.classify import classify
from lakehouse.index.models import IndexType
from lakehouse.index.reader import PuffinReader, naming
from lakehouse.index.tantivy import OWN_TOKENS
from lakehouse.index.target_rows import expression_columns

__all__ = ["BloomIndex", "FileIndexReader", "FileIndexes", "InvertedIndex", "TantivyIndex"]

_GUESS_BYTES = 8192
"""How much of a blob's end is fetched when nothing of it is at hand; upstream's own number."""

_Meta: TypeAlias = BloomMeta | InvertedMetas
_Open: TypeAlias = tuple[BlobMeta, type[BloomMeta] | type[InvertedMetas], int]
"""A blob, what its metadata is, and the byte of the file from which its tail is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BloomIndex:
    """A bloom blob of a file."""

    blob: BlobMeta
    meta: BloomMeta
    config: FulltextConfig | None = None
    """Of a fulltext index."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InvertedIndex:
    """The inverted blob of a file."""

    blob: BlobMeta
    metas: InvertedMetas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TantivyIndex:
    """A tantivy directory of a file."""

    blob: BlobMeta
    config: FulltextConfig
    own_tokens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexes:
    """What can be searched in a file, by target key."""

    row_count: int
    """Rows of the data file."""
    blooms: Mapping[str, BloomIndex] = field(default_factory=dict)
    fulltexts: Mapping[str, BloomIndex] = field(default_factory=dict)
    tantivys: Mapping[str, TantivyIndex] = field(default_factory=dict)
    inverted: InvertedIndex | None = None
    sets: tuple[tuple[int, ...], ...] = ()
    """Ids of columns that are indexed together."""
    expressions: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    """Target keys of expressions, with the ids of the columns their texts name, where known."""


class FileIndexReader:
    """Reads what a file says of its indexes.

    Args:
        reader: the index file.
        row_count: rows of the data file; from the indexes when not given.
        settings: limits.
    """

    def __init__(self, reader: PuffinReader, *, row_count: int | None, settings: IndexSettings) -> None:
        self._reader = reader
        self._settings = settings
        self._row_count = row_count
        self._metas: dict[int, _Meta] = {}

    async def load(self, wanted: Callable[[IndexTarget], bool], *, inverted: bool) -> FileIndexes:
        """The indexes of the wanted targets; one coalesced read for metadata that is not at hand yet.

        Args:
            wanted: whether an index of that target is of use.
            inverted: whether the inverted indexes are, which are one blob for all targets.
        """
        targets = [
            (blob, kind, target)
            for blob, kind, target in _targets((await self._reader.footer()).blobs)
            if (inverted if target is None else wanted(target))
        ]
        await self._read([blob for blob, kind, _ in targets if kind is not IndexType.FULLTEXT_TANTIVY])
        if self._row_count is None:
            await self._read_any()
        assert self._row_count is not None
        with naming(self._reader.key):
            return self._indexes(targets, self._row_count)

    def _indexes(
        self, targets: list[tuple[BlobMeta, IndexType, IndexTarget | None]], row_count: int
    ) -> FileIndexes:
        blooms: dict[str, BloomIndex] = {}
        fulltexts: dict[str, BloomIndex] = {}
        tantivys: dict[str, TantivyIndex] = {}
        inverted: InvertedIndex | None = None
        found: dict[str, tuple[IndexTarget, Mapping[str, str]]] = {}
        for blob, kind, target in targets:
            meta = self._metas.get(blob.offset)
            if isinstance(meta, InvertedMetas):
                inverted = InvertedIndex(blob=blob, metas=meta)
                found |= {key: (one, blob.properties) for key, one in _columns(meta)}
                continue
            assert target is not None
            key = target.key
            found[key] = (target, blob.properties)
            config = None if kind is IndexType.BLOOM_SKIPPING else _config(blob)
            if kind is IndexType.BLOOM_SKIPPING and isinstance(meta, BloomMeta):
                blooms[key] = BloomIndex(blob=blob, meta=meta)
            elif config is not None and isinstance(meta, BloomMeta):
                fulltexts[key] = BloomIndex(blob=blob, meta=meta, config=config)
            elif config is not None:
                own = blob.properties.get(OWN_TOKENS) == "row"
                tantivys[key] = TantivyIndex(blob=blob, config=config, own_tokens=own)
        return FileIndexes(
            row_count=row_count,
            blooms=blooms,
            fulltexts=fulltexts,
            tantivys=tantivys,
            inverted=inverted,
            sets=tuple(one.column_ids for one, _ in found.values() if isinstance(one, ColumnSetTarget)),
            expressions={
                key: expression_columns(key, properties)
                for key, (one, properties) in found.items()
                if isinstance(one, ExpressionTarget)
            },
        )

    async def _read_any(self) -> None:
        """Reads the metadata of some index, for its number of rows."""
        for blob, kind, _ in _targets((await self._reader.footer()).blobs):
            if kind is not IndexType.FULLTEXT_TANTIVY:
                await self._read([blob])
                return
        raise InvalidInputError(
            f"{self._reader.key!r} has no index that says how many rows there are: pass row_count",
            key=self._reader.key,
        )

    async def _read(self, blobs: list[BlobMeta]) -> None:
        """Reads metadata at the ends of blobs, together."""
        window = self._reader.window[0]
        wanted: list[_Open] = []
        for blob in blobs:
            if blob.offset not in self._metas:
                found = classify(blob.type)
                assert found is not None
                kind = InvertedMetas if found[0] is IndexType.INVERTED else BloomMeta
                start = window if blob.end > window else blob.end - _GUESS_BYTES
                wanted.append((blob, kind, max(blob.offset, start)))
        while wanted:
            spans = [(start, blob.end) for blob, _, start in wanted]
            tails = await self._reader.ranges(spans, gap_bytes=self._settings.metadata_gap_bytes)
            with naming(self._reader.key):
                wanted = [
                    (blob, kind, blob.offset + more.start)
                    for (blob, kind, _), tail in zip(wanted, tails, strict=True)
                    if (more := self._parse(blob, kind, tail)) is not None
                ]

    def _parse(
        self, blob: BlobMeta, kind: type[BloomMeta] | type[InvertedMetas], tail: bytes
    ) -> NeedMore | None:
        """Keeps the metadata a tail holds, or says which tail would hold it."""
        meta = kind.from_tail(tail, blob.length)
        if isinstance(meta, NeedMore):
            return meta
        rows = meta.row_count if isinstance(meta, BloomMeta) else meta.total_row_count
        if self._row_count is None:
            self._row_count = rows
        elif self._row_count != rows:
            raise CorruptionError(
                f"index blob {blob.type!r} is about {rows} rows, the data file has {self._row_count}: it is "
                "of another file, or damaged",
                blob=blob.type,
                expected=self._row_count,
                got=rows,
            )
        self._metas[blob.offset] = meta
        return None


def _targets(blobs: tuple[BlobMeta, ...]) -> Iterator[tuple[BlobMeta, IndexType, IndexTarget | None]]:
    """The indexes among the blobs; without a target the blob of all inverted ones."""
    for blob in blobs:
        found = classify(blob.type)
        if found is None:
            continue
        kind, key = found
        target = None if key is None else _decoded(key, blob.properties)
        if key is None or target is not None:
            yield blob, kind, target


def _columns(metas: InvertedMetas) -> Iterator[tuple[str, IndexTarget]]:
    for key in metas.columns:
        target = _decoded(key, {})
        if target is not None:
            yield key, target


def _decoded(key: str, properties: Mapping[str, str]) -> IndexTarget | None:
    try:
        return decode_target_key(key, properties)
    except FormatError:
        return None


def _config(blob: BlobMeta) -> FulltextConfig | None:
    """How the index made tokens; None where it says something that is not understood."""
    try:
        return FulltextConfig.parse(blob.properties.get(FULLTEXT_CONFIG))
    except FormatError:
        return None
