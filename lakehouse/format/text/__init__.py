"""Words of texts: tokenizers, their configuration, and whether a text has the words of a query.

Words: *text* → *token* (a word as it is indexed) → *query* (the tokens that a text must have). An
*analyzer* says how a text becomes tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.text.config import FULLTEXT_CONFIG, GRANULARITY, Analyzer, FulltextConfig
    from lakehouse.format.text.match import matches
    from lakehouse.format.text.tokens import query_tokens, tokenize

__all__ = [
    "FULLTEXT_CONFIG", "GRANULARITY", "Analyzer", "FulltextConfig", "matches", "query_tokens", "tokenize",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "config": "FULLTEXT_CONFIG GRANULARITY Analyzer FulltextConfig",
        "match": "matches",
        "tokens": "query_tokens tokenize",
    },
)
