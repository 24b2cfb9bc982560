"""Which index a blob is, by its type.

==========================================  ====================  ==========
blob type                                   index                 target key
==========================================  ====================  ==========
``greptime-bloom-filter-v1-{target}``       bloom skipping        in the type
``greptime-fulltext-index-bloom-{target}``  fulltext bloom        in the type
``greptime-fulltext-index-v1-{target}``     fulltext tantivy      in the type
``greptime-inverted-index-v1``              inverted              in the blob, one per column
==========================================  ====================  ==========

Anything else is no index that we know: the files of a tantivy directory (their types are
UUIDs), vector indexes, Iceberg's blobs. A target may be any text, also an empty one; whether it
is a key is the business of ``decode_target_key``.

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
"""What all types of indexes begin with: quickly passed over are the files of tantivy indexes."""


def classify(found: str) -> tuple[IndexType, str | None] | None:
    """Kind and target key of a blob's type; the key is None where the blob has one per column."""
    if not found.startswith(_COMMON):
        return None
    if found == INVERTED_BLOB_TYPE:
        return IndexType.INVERTED, None
    for kind, prefix in _PREFIXES.items():
        if found.startswith(prefix):
            return kind, found[len(prefix) :]
    return None


def blob_type(kind: IndexType, target_key: str | None = None) -> str:
    """The blob type of an index; an inverted one takes no key."""
    if (kind is IndexType.INVERTED) != (target_key is None):
        raise InvalidInputError(
            f"target key {target_key!r} does not go with {kind}: an inverted index has its keys inside, "
            "the others have one in their blob type"
        )
    return INVERTED_BLOB_TYPE if target_key is None else f"{_PREFIXES[kind]}{target_key}"
