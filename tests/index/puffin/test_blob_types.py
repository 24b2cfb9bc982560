"""Which index a blob is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.target_key import encode_target_key
from lakehouse.index import IndexType, blob_type, classify
from tests.kit.index_entries import TARGETS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("greptime-bloom-filter-v1-3", (IndexType.BLOOM_SKIPPING, "3")),
        ("greptime-bloom-filter-v1-", (IndexType.BLOOM_SKIPPING, "")),
        ("greptime-bloom-filter-v1-1,7", (IndexType.BLOOM_SKIPPING, "1,7")),
        ("greptime-bloom-filter-v1--1", (IndexType.BLOOM_SKIPPING, "-1")),
        ("greptime-fulltext-index-bloom-4", (IndexType.FULLTEXT_BLOOM, "4")),
        ("greptime-fulltext-index-bloom-4#%2Fa-b", (IndexType.FULLTEXT_BLOOM, "4#%2Fa-b")),
        ("greptime-fulltext-index-v1-5", (IndexType.FULLTEXT_TANTIVY, "5")),
        ("greptime-inverted-index-v1", (IndexType.INVERTED, None)),
        ("greptime-bloom-filter-v1", None),
        ("greptime-fulltext-index-bloom", None),
        ("greptime-fulltext-index-v1", None),
        ("greptime-fulltext-index-v2-5", None),
        ("greptime-inverted-index-v1-5", None),
        ("greptime-inverted-index-v2", None),
        ("greptime-vector-index-v1-5", None),
        ("Greptime-bloom-filter-v1-3", None),
        ("4b220a70-2b03-4641-9687-b65d94641208", None),
        ("apache-datasketches-theta-v1", None),
        ("", None),
    ],
)
def test_blobs_are_told_apart_by_their_type(text: str, found: object) -> None:
    """A known prefix, a dash and the rest is an index; anything else is none."""
    assert classify(text) == found


@given(st.sampled_from([kind for kind in IndexType if kind is not IndexType.INVERTED]), TARGETS)
def test_types_are_built_as_they_are_read(kind: IndexType, target: object) -> None:
    """The type that is built for an index and any target is read as that."""
    try:
        key = encode_target_key(target)  # type: ignore[arg-type]
    except InvalidInputError:
        return
    assert classify(blob_type(kind, key)) == (kind, key)


def test_an_inverted_index_has_its_keys_inside() -> None:
    """The one inverted blob has no target in its type, every other blob has one."""
    assert blob_type(IndexType.INVERTED) == "greptime-inverted-index-v1"
    with pytest.raises(InvalidInputError, match="inside"):
        blob_type(IndexType.INVERTED, "1")
    with pytest.raises(InvalidInputError, match="inside"):
        blob_type(IndexType.BLOOM_SKIPPING)
