"""Functions of ours that SQL can call on any value: ``matches(text, words)``.

A function of Python gets columns of DuckDB's vectors, and gives one back; nulls never reach it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.text import FulltextConfig, matches, tokenize

__all__ = ["add_functions"]

_MATCHES = "__matches"


def add_functions(connection: Any) -> None:
    """Adds the functions to a DuckDB, before it is locked.

    ``matches(text, words, config := '{"analyzer": …}')`` is a macro, because functions of Python have
    neither defaults nor several forms. The configuration is that of a fulltext index as text.
    """
    text = "VARCHAR"
    connection.create_function(_MATCHES, _matches, [text, text, text], "BOOLEAN", type="arrow")
    connection.execute(
        f"CREATE MACRO matches(texts, words, config := '{FulltextConfig().encode()}') AS "
        f"{_MATCHES}(texts, words, config)"
    )


def _matches(texts: pa.ChunkedArray, words: pa.ChunkedArray, configs: pa.ChunkedArray) -> pa.Array:
    """Whether each text has all words beside it."""
    told, asked = configs.unique().to_pylist(), words.unique().to_pylist()
    if len(told) > 1:
        raise InvalidInputError("the configuration of matches() is one text for all rows, not a column")
    config = _config(told[0])
    return matches(texts, asked[0], config) if len(asked) == 1 else _matches_beside(texts, words, config)


def _matches_beside(texts: pa.ChunkedArray, words: pa.ChunkedArray, config: FulltextConfig) -> pa.Array:
    """The same for words that differ: a row matches unless a pair of it and a word of it is missing."""
    there, wanted = (tokenize(column, config).combine_chunks() for column in (texts, words))
    ids = pa.concat_arrays([there.flatten(), wanted.flatten()]).dictionary_encode()
    width = len(ids.dictionary)
    rows = np.concatenate([pc.list_parent_indices(column).to_numpy() for column in (there, wanted)])
    pairs = rows * width + ids.indices.to_numpy().astype(np.int64)
    known = len(there.flatten())
    hits = np.ones(len(texts), np.bool_)
    hits[rows[known:][~np.isin(pairs[known:], pairs[:known])]] = False
    return pa.array(hits)


@lru_cache(maxsize=64)
def _config(text: str) -> FulltextConfig:
    return FulltextConfig.parse(text)
