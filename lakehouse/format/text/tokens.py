"""Tokens of texts and of queries, by a fulltext configuration."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.format.text.chinese import chinese_tokens
from lakehouse.format.text.config import Analyzer, FulltextConfig
from lakehouse.format.text.english import english_tokens

__all__ = ["query_tokens", "tokenize"]


def tokenize(texts: pa.Array | pa.ChunkedArray, config: FulltextConfig) -> pa.ChunkedArray:
    """Returns for each row the list of its tokens, equal to those in an index of this configuration."""
    tokens = chinese_tokens if config.analyzer is Analyzer.CHINESE else english_tokens
    return tokens(texts, case_sensitive=config.case_sensitive)


def query_tokens(text: str, config: FulltextConfig) -> list[bytes]:
    """Returns the distinct tokens of a query, in the order of the text; a row that matches has them all."""
    (tokens,) = tokenize(pa.array([text], pa.string()), config).to_pylist()
    return list(dict.fromkeys(tokens))
