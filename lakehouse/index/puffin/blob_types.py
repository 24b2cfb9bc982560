"""Classification of blobs by their types: the kind of index, and its target key.

==========================================  ====================  ==========
blob type                                   index                 target key
==========================================  ====================  ==========
``greptime-bloom-filter-v1-{target}``       bloom skipping        in the type
``greptime-fulltext-index-bloom-{target}``  fulltext bloom        in the type
``greptime-fulltext-index-v1-{target}``     fulltext tantivy      in the type
``greptime-inverted-index-v1``              inverted              in the blob, one per column
==========================================  ====================  ==========

Other types are no index that we know: the files of a tantivy directory (their types are
UUIDs), vector indexes, Iceberg's blobs. A target may be any text, also an empty one;
``decode_target_key`` checks whether it is a key.

Invariant: ``classify(blob_type(kind, key)) == (kind, key)``.
"""

from __future__ import annotations

from lakehouse.errors import InvalidInputError
from lakehouse.format.index import BLOB_TYPE as INVERTED_BLOB_TYPE
from lakehouse.index.models import IndexType

__all__ = ["blob_type", "classify"]

_PREFIXES = {
    IndexType.BLOOM_SKIPPING: "greptime-bloom-filter-v1-",
    IndexType.FULLTEXT_BLOOM: "greptime-fulltext-index-bloom-",
    IndexType.FULLTEXT_TANTIVY: "greptime-fulltext-index-v1-",
}
_COMMON = "greptime-"
"""Prefix of all types of indexes, by which the many files of tantivy indexes are skipped quickly."""


def classify(type_: str) -> tuple[IndexType, str | None] | None:
    """Returns kind and target key of a blob's type; the key is None if the blob has one per column."""
    if not type_.startswith(_COMMON):
        return None
    if type_ == INVERTED_BLOB_TYPE:
        return IndexType.INVERTED, None
    for kind, prefix in _PREFIXES.items():
        if type_.startswith(prefix):
            return kind, type_[len(prefix) :]
    return None


def blob_type(kind: IndexType, target_key: str | None = None) -> str:
    """Returns the blob type of an index; an inverted one takes no key."""
    if (kind is IndexType.INVERTED) != (target_key is None):
        raise InvalidInputError(
            f"target key {target_key!r} does not go with {kind}: an inverted index has its keys inside, "
            "the others have one in their blob type"
        )
    return INVERTED_BLOB_TYPE if target_key is None else f"{_PREFIXES[kind]}{target_key}"
