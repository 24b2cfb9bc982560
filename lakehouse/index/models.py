"""Entries of an enumeration of indexes: one for each (file, index, target).

Invariant: an entry with an ``error`` is one whose metadata could not be read in full; its other
members (locator, kind, target, size) are true all the same. A ``target`` of None means that the key
could not be decoded, which is no error: the key itself is kept.

Numbers of metadata are None only in an entry made from the row of an older release that did not
have them; in entries from files they are always set.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from lakehouse.format.index import BloomMeta, BloomSummary, InvertedColumn, InvertedMetas
from lakehouse.format.schema import IndexTarget
from lakehouse.index.region_ids import region_group, region_number, region_sequence, table_id

__all__ = [
    "BloomInfo",
    "FulltextInfo",
    "IndexEntry",
    "IndexFileLocator",
    "IndexType",
    "InvertedInfo",
    "MetaInfo",
]


class IndexType(StrEnum):
    """Kind of an index; the words are stored in rows, so they are never changed."""

    BLOOM_SKIPPING = "bloom_skipping"
    """A bloom filter of the values of each segment."""
    FULLTEXT_BLOOM = "fulltext_bloom"
    """A bloom filter of the tokens of each segment."""
    FULLTEXT_TANTIVY = "fulltext_tantivy"
    """A tantivy index, a directory of blobs."""
    INVERTED = "inverted"
    """For each value, the segments it is in; one blob for all columns."""

    @property
    def greptime(self) -> str:
        """GreptimeDB's word for the kind."""
        return "bloom_filter" if self is IndexType.BLOOM_SKIPPING else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileLocator:
    """Place of an index file; all entries of a file share one."""

    table_dir: str
    """Directory of the table, ending with ``/``."""
    region_id: int
    """Region that refers to the file: after a repartition not always the one in the path."""
    file_id: str
    """Id of the data file."""
    node_id: int | None = None
    """Node that listed the file; None without nodes."""
    index_file_path: str = ""
    """Key of the object; empty when the locator is from a row without that column."""
    index_file_size: int | None = None
    """Bytes of the file, from a manifest or a listing; None = not known."""

    @property
    def table_id(self) -> int:
        """Table id of the region."""
        return table_id(self.region_id)

    @property
    def region_number(self) -> int:
        """Group and sequence of the region, as one number."""
        return region_number(self.region_id)

    @property
    def region_group(self) -> int:
        """Group of the region: 0, or 1 for a metadata region of the metric engine."""
        return region_group(self.region_id)

    @property
    def region_sequence(self) -> int:
        """Number of the region in its table."""
        return region_sequence(self.region_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomInfo:
    """Metadata of a bloom blob."""

    rows_per_segment: int | None
    segment_count: int | None
    row_count: int | None
    """Rows of the column, nulls included."""
    bloom_filter_size: int | None
    """Bytes of all filters."""

    @classmethod
    def of(cls, meta: BloomMeta | BloomSummary) -> Self:
        """Makes it from the blob's own metadata."""
        return cls(
            rows_per_segment=meta.rows_per_segment,
            segment_count=meta.segment_count,
            row_count=meta.row_count,
            bloom_filter_size=meta.bloom_filter_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FulltextInfo:
    """Configuration of a fulltext index."""

    analyzer: str | None
    """Analyzer: ``english`` or ``chinese``."""
    case_sensitive: bool | None
    granularity: int | None = None
    """Rows of a segment; bloom indexes only."""
    false_positive_rate: float | None = None
    """False positive rate; bloom indexes only, if the writer noted it."""
    raw_config: str | None = None
    """The blob's ``fulltext_config`` property, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvertedInfo:
    """Metadata of one column of an inverted blob."""

    bitmap_type: str | None
    """Encoding of bitmaps: ``Roaring``, ``BitVec``, or an unknown number in decimal."""
    base_offset: int | None
    """First byte of the column in the blob."""
    inverted_index_size: int | None
    """Bytes of the column in the blob."""
    relative_fst_offset: int | None
    """First byte of the FST, from ``base_offset``."""
    fst_size: int | None
    relative_null_bitmap_offset: int | None
    """First byte of the null bitmap, from ``base_offset``."""
    null_bitmap_size: int | None
    segment_row_count: int | None
    """Rows that one bit of a bitmap stands for; the same for all columns."""
    total_row_count: int | None
    """Rows of the file; the same for all columns."""

    @classmethod
    def of(cls, column: InvertedColumn, metas: InvertedMetas) -> Self:
        """Makes it from the blob's own metadata."""
        return cls(
            bitmap_type=column.bitmap_type_name,
            base_offset=column.base_offset,
            inverted_index_size=column.inverted_index_size,
            relative_fst_offset=column.relative_fst_offset,
            fst_size=column.fst_size,
            relative_null_bitmap_offset=column.relative_null_bitmap_offset,
            null_bitmap_size=column.null_bitmap_size,
            segment_row_count=metas.segment_row_count,
            total_row_count=metas.total_row_count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaInfo:
    """Metadata of an index in parts; the :class:`IndexType` determines which parts there are.

    ``bloom_skipping`` has ``bloom``, ``fulltext_bloom`` has ``bloom`` and ``fulltext``,
    ``fulltext_tantivy`` has ``fulltext``, ``inverted`` has ``inverted``.
    """

    bloom: BloomInfo | None = None
    """Metadata of bloom filters; None in a fulltext bloom index when they could not be read."""
    fulltext: FulltextInfo | None = None
    inverted: InvertedInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """Entry: an index of one target in one file."""

    locator: IndexFileLocator
    index_type: IndexType
    target: IndexTarget | None
    """Target; None when the key could not be decoded."""
    target_key: str
    """Key of the target as the file has it."""
    blob_size: int | None
    """Bytes of the blob in the file: of an inverted index the blob of all columns, of a tantivy
    index its directory only. None when the row of an older release did not have it."""
    meta: MetaInfo | None
    """Metadata; None when they could not be read."""
    error: str | None = None
    """Reason why the metadata, or a part of them, could not be read; None = they could."""
