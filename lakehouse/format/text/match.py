"""Full-text matching of rows with the tokens of a fulltext index.

Invariant: a row matches exactly when every token of the query is a token of the row, so a scan
that filters with this finds what an index of the same configuration finds, false positives of
bloom filters aside. A query without a token is matched by every text; a null matches nothing and
its answer is null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.text.config import FulltextConfig
from lakehouse.format.text.tokens import query_tokens, tokenize
from lakehouse.kernels.arrays import Mask

__all__ = ["matches"]


def matches(
    texts: pa.Array | pa.ChunkedArray, terms: str, config: FulltextConfig | None = None
) -> pa.BooleanArray:
    """Returns for each text whether it has all words of ``terms``; null for a null.

    Args:
        texts: string column.
        terms: the query, cut into words as the texts are.
        config: configuration of the index; English and not case sensitive when not given.
    """
    config = config or FulltextConfig()
    wanted = query_tokens(terms, config)
    is_null = pc.is_null(texts)
    if isinstance(is_null, pa.ChunkedArray):
        is_null = is_null.combine_chunks()
    if not wanted:
        hits = np.ones(len(texts), np.bool_)
    else:
        value_set = pa.array(wanted, pa.binary())
        tokens = tokenize(texts, config)
        hits = np.concatenate(
            [np.empty(0, np.bool_), *(_rows_with_all(chunk, value_set) for chunk in tokens.chunks)]
        )
    return pa.array(hits, mask=is_null.to_numpy(zero_copy_only=False))


def _rows_with_all(tokens: pa.ListArray, wanted: pa.BinaryArray) -> Mask:
    """Returns for each row whether it has all of the wanted values, which are distinct."""
    places = pc.index_in(tokens.flatten(), value_set=wanted)
    hits = places.is_valid().to_numpy(zero_copy_only=False)
    rows = pc.list_parent_indices(tokens).to_numpy()[hits].astype(np.int64)
    # Distinct pairs of row and wanted value: a token that occurs twice in a row counts once.
    pairs = np.unique(rows * len(wanted) + places.drop_null().to_numpy())
    with_all: Mask = np.bincount(pairs // len(wanted), minlength=len(tokens)) == len(wanted)
    return with_all
