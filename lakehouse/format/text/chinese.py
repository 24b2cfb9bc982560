"""Tokenizer of Chinese text: words cut by jieba, and names with an underscore.

A text of ASCII alone is cut as English. Any other is cut by jieba "for search" (long words
also by the shorter ones in them) with its hidden Markov model for unknown words; cuts
without a letter, digit or ``_`` are dropped; and behind them come the English tokens of the
same text that are ASCII and have a ``_``, which jieba would take apart.

jieba comes as ``rjieba``, the binding of the very library GreptimeDB uses (the ``fulltext``
extra). The words it knows depend on its version: tokens of another version may differ.

Invariant: a row's tokens depend on its text alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse._version import install_command
from lakehouse.errors import InvalidInputError
from lakehouse.format.text.characters import word_table
from lakehouse.format.text.english import TOKENS, english_tokens, lowered_points, text_slices
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["chinese_tokens"]


def chinese_tokens(texts: pa.Array | pa.ChunkedArray, *, case_sensitive: bool = False) -> pa.ChunkedArray:
    """Returns the tokens of each row; a null has none."""
    jieba = _jieba()
    chunks = [_slice_tokens(jieba, piece, case_sensitive) for piece in text_slices(texts)]
    return pa.chunked_array(chunks, TOKENS)


def _slice_tokens(jieba: Any, texts: pa.LargeStringArray, case_sensitive: bool) -> pa.ListArray:
    is_ascii = pc.string_is_ascii(texts).to_numpy(zero_copy_only=False)
    others = np.flatnonzero(~is_ascii)
    words, word_rows = _words(jieba, texts.take(pa.array(others)).to_pylist(), case_sensitive)
    names, name_rows = _english(texts, is_ascii)
    if not case_sensitive:
        names = pc.ascii_lower(names)
    # By row, and in a row first the words, then the names.
    rows = np.concatenate([others[word_rows], name_rows])
    order = np.argsort(rows, kind="stable")
    tokens = pa.concat_arrays([words, pc.cast(names, pa.binary())]).take(pa.array(order))
    ends = np.cumsum(np.bincount(rows, minlength=len(texts)))
    offsets = pa.array(np.append(0, ends).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, tokens)


def _words(jieba: Any, texts: list[str], case_sensitive: bool) -> tuple[pa.BinaryArray, I64]:
    """Returns jieba's cuts that hold a letter, digit or ``_``, and the number of the text of each."""
    cuts = [jieba.cut_for_search(text, True) for text in texts]
    tokens = [token for cut in cuts for token in cut]
    rows = np.repeat(np.arange(len(cuts)), np.fromiter(map(len, cuts), np.int64, len(cuts)))
    points = np.frombuffer("".join(tokens).encode("utf-32-le"), np.uint32)
    ends = np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    in_words = np.append(0, np.cumsum(word_table()[points]))[ends]
    kept = np.diff(in_words, prepend=0) > 0
    return lowered_points(points, ends, case_sensitive).filter(pa.array(kept)), rows[kept]


def _english(texts: pa.LargeStringArray, is_ascii: Mask) -> tuple[pa.StringArray, I64]:
    """Returns the English tokens of ASCII texts, of others the ASCII ones with ``_``, and their rows."""
    lists = english_tokens(texts, case_sensitive=True).combine_chunks()
    tokens = pc.cast(lists.flatten(), pa.string())
    rows = pc.list_parent_indices(lists).to_numpy()
    is_name = pc.and_(pc.match_substring(tokens, "_"), pc.string_is_ascii(tokens))
    kept = is_ascii[rows] | is_name.to_numpy(zero_copy_only=False)
    return tokens.filter(pa.array(kept)), rows[kept]


def _jieba() -> Any:
    try:
        import rjieba
    except ImportError as error:
        raise InvalidInputError(
            f"cutting Chinese text needs the rjieba package: {install_command('fulltext')}",
            kind="missing-extra",
        ) from error
    return rjieba
