"""Searchable indexes of one file: their metadata, read on first use and kept.

Invariant: all indexes of a file have the same number of rows, that of the data file if the caller
gives it; otherwise the file is damaged. A target whose key cannot be read is ignored, which costs
nothing but speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.index import BloomMeta, InvertedMetas
from lakehouse.format.puffin import BlobMeta
from lakehouse.format.schema import ColumnSetTarget, ExpressionTarget, IndexTarget, decode_target_key
from lakehouse.format.text import FULLTEXT_CONFIG, FulltextConfig
from lakehouse.index.building.target_rows import expression_columns
from lakehouse.index.models import IndexType
from lakehouse.index.puffin.blob_tails import TailMetas, TailParser, read_tails
from lakehouse.index.puffin.blob_types import classify
from lakehouse.index.puffin.reader import PuffinReader, naming
from lakehouse.index.puffin.tantivy import OWN_TOKENS

__all__ = ["BloomIndex", "FileIndexReader", "FileIndexes", "InvertedIndex", "TantivyIndex"]

_Meta: TypeAlias = BloomMeta | InvertedMetas
_Target: TypeAlias = tuple[BlobMeta, IndexType, IndexTarget | None]
"""A blob, with kind and target of its index; the blob of all inverted indexes has no target."""
_PARSERS: Mapping[IndexType, TailParser[_Meta]] = {
    IndexType.BLOOM_SKIPPING: BloomMeta.from_tail,
    IndexType.FULLTEXT_BLOOM: BloomMeta.from_tail,
    IndexType.INVERTED: InvertedMetas.from_tail,
}
"""Parsers of the metadata at a blob's end, by kind; a tantivy index has its metadata in properties."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BloomIndex:
    """A bloom filter index, of values or of tokens, with its metadata."""

    blob: BlobMeta
    meta: BloomMeta
    config: FulltextConfig | None = None
    """Configuration of a fulltext index; None for an index of values."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InvertedIndex:
    """The blob of all inverted indexes of a file, with its metadata."""

    blob: BlobMeta
    metas: InvertedMetas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TantivyIndex:
    """A tantivy index, by its directory blob."""

    blob: BlobMeta
    config: FulltextConfig
    own_tokens: bool
    """True if the index has all our own tokens of Chinese text, beside those of GreptimeDB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexes:
    """The searchable indexes of a file, by target key."""

    row_count: int
    """Rows of the data file."""
    blooms: Mapping[str, BloomIndex] = field(default_factory=dict)
    fulltexts: Mapping[str, BloomIndex] = field(default_factory=dict)
    tantivys: Mapping[str, TantivyIndex] = field(default_factory=dict)
    inverted: InvertedIndex | None = None
    sets: tuple[tuple[int, ...], ...] = ()
    """Ids of columns that are indexed together."""
    expressions: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    """Target keys of expressions, with the ids of the columns their texts name; None where not known."""


class FileIndexReader:
    """Reader of the metadata of a file's indexes.

    Args:
        reader: reader of the index file.
        row_count: rows of the data file; taken from the indexes when not given.
        settings: limits of requests.
    """

    def __init__(self, reader: PuffinReader, *, row_count: int | None, settings: IndexSettings) -> None:
        self._reader = reader
        self._settings = settings
        self._row_count = row_count
        self._metas: dict[tuple[str, int], _Meta] = {}
        """Metadata by type and offset of the blob: blobs without bytes may share an offset."""

    async def load(self, wanted: Callable[[IndexTarget], bool], *, inverted: bool) -> FileIndexes:
        """Returns the indexes of the wanted targets; fetches metadata not read before in one coalesced read.

        Args:
            wanted: tells whether an index of that target is of use.
            inverted: True if the inverted indexes are, which are one blob for all targets.
        """
        targets = await self._targets()
        chosen = [
            (blob, kind, target)
            for blob, kind, target in targets
            if (inverted if target is None else wanted(target))
        ]
        await self._read(chosen)
        if self._row_count is None:  # any other index has it, too
            await self._read([target for target in targets if target[1] in _PARSERS][:1])
        if self._row_count is None:
            raise InvalidInputError(
                f"{self._reader.key!r} has no index that says how many rows there are: pass row_count",
                key=self._reader.key,
            )
        with naming(self._reader.key):
            return self._indexes(chosen, self._row_count)

    def _indexes(self, targets: list[_Target], row_count: int) -> FileIndexes:
        blooms: dict[str, BloomIndex] = {}
        fulltexts: dict[str, BloomIndex] = {}
        tantivys: dict[str, TantivyIndex] = {}
        inverted: InvertedIndex | None = None
        by_key: dict[str, tuple[IndexTarget, Mapping[str, str]]] = {}
        # In reverse, so that of blobs of one type the first counts, as it does for GreptimeDB.
        for blob, kind, target in reversed(targets):
            meta = self._metas.get((blob.type, blob.offset))
            if isinstance(meta, InvertedMetas):
                inverted = InvertedIndex(blob=blob, metas=meta)
                for name in meta.columns:
                    if (column := _decoded(name, blob.properties)) is not None:
                        by_key[name] = (column, blob.properties)
                continue
            assert target is not None
            key = target.key
            by_key[key] = (target, blob.properties)
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
            sets=tuple(
                target.column_ids for target, _ in by_key.values() if isinstance(target, ColumnSetTarget)
            ),
            expressions={
                key: expression_columns(key, properties)
                for key, (target, properties) in by_key.items()
                if isinstance(target, ExpressionTarget)
            },
        )

    async def _targets(self) -> list[_Target]:
        """Returns the indexes of the file, without those whose key cannot be read."""
        targets: list[_Target] = []
        for blob in (await self._reader.footer()).blobs:
            kind_and_key = classify(blob.type)
            if kind_and_key is None:
                continue
            kind, key = kind_and_key
            target = None if key is None else _decoded(key, blob.properties)
            if key is None or target is not None:
                targets.append((blob, kind, target))
        return targets

    async def _read(self, targets: list[_Target]) -> None:
        """Reads the metadata that were not read before, all together."""
        wanted: list[tuple[BlobMeta, TailParser[_Meta] | None]] = [
            (blob, _PARSERS[kind])
            for blob, kind, _ in targets
            if kind in _PARSERS and (blob.type, blob.offset) not in self._metas
        ]
        tails: TailMetas[_Meta] = await read_tails(self._reader, wanted, settings=self._settings)
        for (blob, _), meta in zip(wanted, tails.metas, strict=True):
            if isinstance(meta, FormatError):
                raise meta
            assert meta is not None
            with naming(self._reader.key, blob):
                self._check_rows(meta)
            self._metas[blob.type, blob.offset] = meta

    def _check_rows(self, meta: _Meta) -> None:
        rows = meta.row_count if isinstance(meta, BloomMeta) else meta.total_row_count
        if self._row_count is None:
            self._row_count = rows
        elif self._row_count != rows:
            raise CorruptionError(
                f"the index is about {rows} rows, the data file has {self._row_count}: it is of another "
                "file, or damaged",
                expected=self._row_count,
                got=rows,
            )


def _decoded(key: str, properties: Mapping[str, str]) -> IndexTarget | None:
    try:
        return decode_target_key(key, properties)
    except FormatError:
        return None  # an invalid key, or that of another expression than the blob's


def _config(blob: BlobMeta) -> FulltextConfig | None:
    """Returns the configuration of a fulltext index; None where it is not understood."""
    try:
        return FulltextConfig.parse(blob.properties.get(FULLTEXT_CONFIG))
    except FormatError:
        return None
