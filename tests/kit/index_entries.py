"""Index entries to convert, and the entries of the real sample files."""

from __future__ import annotations

from hypothesis import strategies as st

from lakehouse.format.index.bloom import BloomMeta
from lakehouse.format.index.inverted import InvertedMetas
from lakehouse.format.schema.target_key import (
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
    decode_target_key,
    encode_target_key,
)
from lakehouse.index import (
    BloomInfo,
    FulltextInfo,
    IndexEntry,
    IndexFileLocator,
    IndexType,
    InvertedInfo,
    MetaInfo,
    classify,
)
from tests.kit.blob_samples import footer_of, sample, stored

__all__ = ["BLOOM", "FILE_ID", "INVERTED", "LOCATOR", "TARGETS", "entries", "entry", "sample_entries"]

FILE_ID = "4b220a70-2b03-4641-9687-b65d94641208"
LOCATOR = IndexFileLocator(
    table_dir="data/greptime/public/1024/",
    region_id=4398046511105,
    file_id=FILE_ID,
    node_id=7,
    index_file_path=f"data/greptime/public/1024/1024_0000000001/index/{FILE_ID}.puffin",
    index_file_size=6000,
)
BLOOM = BloomInfo(rows_per_segment=2, segment_count=10, row_count=20, bloom_filter_size=640)
INVERTED = InvertedInfo(
    bitmap_type="Roaring",
    base_offset=0,
    inverted_index_size=518,
    relative_fst_offset=368,
    fst_size=150,
    relative_null_bitmap_offset=0,
    null_bitmap_size=8,
    segment_row_count=1024,
    total_row_count=20,
)


def entry(
    index_type: IndexType,
    target: IndexTarget | str = "1",
    meta: MetaInfo | None = None,
    *,
    blob_size: int | None = 1033,
    locator: IndexFileLocator = LOCATOR,
    error: str | None = None,
) -> IndexEntry:
    """An entry of a target, or of a key that is none when it is text and does not decode."""
    key = target if isinstance(target, str) else encode_target_key(target)
    decoded = target if not isinstance(target, str) else (decode_target_key(key) if key.isdigit() else None)
    return IndexEntry(
        locator=locator,
        index_type=index_type,
        target=decoded,
        target_key=key,
        blob_size=blob_size,
        meta=meta,
        error=error,
    )


def sample_entries(name: str) -> list[IndexEntry]:
    """What is in one of the real files that GreptimeDB's own code wrote."""
    data = sample(name)
    locator = IndexFileLocator(
        table_dir="t/",
        region_id=1,
        file_id=FILE_ID,
        index_file_path=f"{name}.puffin",
        index_file_size=len(data),
    )
    found = []
    for blob in footer_of(data).blobs:
        kind, key = classify(blob.type) or (None, None)
        body = stored(data, blob)
        if kind is IndexType.INVERTED:
            metas = InvertedMetas.from_tail(body, len(body))
            assert isinstance(metas, InvertedMetas)
            found += [
                entry(
                    kind,
                    key,
                    MetaInfo(inverted=InvertedInfo.of(column, metas)),
                    blob_size=blob.length,
                    locator=locator,
                )
                for key, column in metas.columns.items()
            ]
        elif kind is IndexType.BLOOM_SKIPPING:
            bloom = BloomMeta.from_tail(body, len(body))
            assert isinstance(bloom, BloomMeta)
            assert key is not None
            meta = MetaInfo(bloom=BloomInfo.of(bloom))
            found.append(entry(kind, key, meta, blob_size=blob.length, locator=locator))
    return found


_IDS = st.integers(0, 2**32 - 1)
_COUNTS = st.integers(0, 2**64 - 1)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
TARGETS: st.SearchStrategy[IndexTarget] = st.one_of(
    st.builds(ColumnTarget, column_id=_IDS),
    st.sets(_IDS, min_size=2, max_size=4).map(lambda ids: ColumnSetTarget(column_ids=tuple(sorted(ids)))),
    st.builds(
        JsonPathTarget, column_id=_IDS, pointer=st.lists(_TEXT, max_size=3).map(lambda names: _pointer(names))
    ),
    _TEXT.map(ExpressionTarget.of),
    st.builds(ExpressionTarget, expr_hash=_COUNTS),
)
_BLOOMS = st.builds(
    BloomInfo,
    rows_per_segment=_COUNTS,
    segment_count=_COUNTS,
    row_count=_COUNTS,
    bloom_filter_size=_COUNTS,
)
_INVERTEDS = st.builds(
    InvertedInfo,
    bitmap_type=st.sampled_from(["Roaring", "BitVec", "7"]),
    **dict.fromkeys(
        (
            "base_offset",
            "inverted_index_size",
            "relative_fst_offset",
            "fst_size",
            "relative_null_bitmap_offset",
            "null_bitmap_size",
            "segment_row_count",
            "total_row_count",
        ),
        _COUNTS,
    ),
)
_ANALYZERS = st.sampled_from(["english", "chinese"])
_TANTIVIES = st.builds(
    FulltextInfo, analyzer=_ANALYZERS, case_sensitive=st.booleans(), raw_config=st.none() | _TEXT
)
_FULLTEXTS = st.builds(
    FulltextInfo,
    analyzer=_ANALYZERS,
    case_sensitive=st.booleans(),
    granularity=st.integers(1, 2**63 - 1),
    false_positive_rate=st.none() | st.floats(0, 1, exclude_min=True, allow_subnormal=False),
    raw_config=st.none() | _TEXT,
)
_METAS = {
    IndexType.BLOOM_SKIPPING: st.builds(MetaInfo, bloom=_BLOOMS),
    IndexType.FULLTEXT_BLOOM: st.builds(MetaInfo, bloom=_BLOOMS, fulltext=_FULLTEXTS),
    IndexType.FULLTEXT_TANTIVY: st.builds(MetaInfo, fulltext=_TANTIVIES),
    IndexType.INVERTED: st.builds(MetaInfo, inverted=_INVERTEDS),
}


def _pointer(names: list[str]) -> str:
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)


def entries() -> st.SearchStrategy[IndexEntry]:
    """Entries of every kind about every target, their metadata read in full."""
    locators = st.builds(
        IndexFileLocator,
        table_dir=_TEXT,
        region_id=_COUNTS,
        file_id=_TEXT,
        node_id=st.none() | _COUNTS,
        index_file_path=_TEXT,
        index_file_size=st.none() | _COUNTS,
    )
    kinds = st.sampled_from(list(IndexType))
    return kinds.flatmap(
        lambda kind: st.builds(
            entry,
            st.just(kind),
            TARGETS | st.just("?"),
            _METAS[kind],
            blob_size=_COUNTS,
            locator=locators,
        )
    )
