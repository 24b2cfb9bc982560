"""Fulltext bloom indexes: bloom blobs of the tokens of texts, and the tokens of a query.

The blob is that of :mod:`lakehouse.format.index.bloom`; a row has all its tokens instead of one
value. A property of the blob records how texts became tokens (:mod:`lakehouse.format.text.config`).

Invariant: every token of a text is in the filter of the text's segment. So a text that has
all words of an English query, as whole words, is never left out. jieba cuts a Chinese
text by its context: a text can hold the characters of a query and not its tokens.
"""

from __future__ import annotations

import pyarrow as pa

from lakehouse.format.index.bloom_builder import BloomBuilder
from lakehouse.format.schema.index_defaults import FALSE_POSITIVE_RATE
from lakehouse.format.text.config import GRANULARITY, Analyzer, FulltextConfig
from lakehouse.format.text.english import text_slices
from lakehouse.format.text.tokens import tokenize

__all__ = ["FulltextBloomBuilder"]


class FulltextBloomBuilder:
    """Builds the blob of a text column that comes in pieces.

    Granularity and false positive rate are the configuration's, or the defaults where it
    has none.
    """

    __slots__ = ("_bloom", "_config")

    def __init__(self, config: FulltextConfig) -> None:
        self._config = config
        self._bloom = BloomBuilder(
            config.granularity or GRANULARITY, config.false_positive_rate or FALSE_POSITIVE_RATE
        )

    def push(self, texts: pa.Array | pa.ChunkedArray) -> None:
        """Adds rows of text; a null is a text without words."""
        if self._config.analyzer is Analyzer.CHINESE:
            self._bloom.push(tokenize(texts, self._config))
            return
        for piece in text_slices(texts):
            if not self._bloom.push_text(piece, case_sensitive=self._config.case_sensitive):
                self._bloom.push(tokenize(piece, self._config))

    def finish(self) -> bytes:
        """Returns the blob; the builder is used up."""
        return self._bloom.finish()
