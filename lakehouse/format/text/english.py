"""Tokenizer of English text: tokens are the longest stretches of letters, digits and ``_``.

:mod:`lakehouse.format.text.characters` defines letters and digits; in ASCII they are
``[A-Za-z0-9]``. Unless the index is case sensitive, every token is lower-cased by itself.

Invariant: a text gives the same tokens alone and among others, in ASCII texts and between
characters of other scripts.

Whole columns are cut at once. A slice of some megabytes is one string of characters, bytes
while it is ASCII and code points otherwise; tokens begin where a word character follows
something else or begins a row. Only tokens with one of two special capitals are lower-cased
one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.text.characters import SPECIAL, lower_table, lower_text, word_table
from lakehouse.kernels.arrays import I64, U8, U32, U64, Mask
from lakehouse.kernels.padded_words import padded_words

__all__ = ["TOKENS", "AsciiText", "ascii_text", "english_tokens", "lowered_points", "text_slices"]

TOKENS = pa.list_(pa.binary())
"""Type of tokenized columns: for each row its tokens, in the order of the text."""
_SLICE_BYTES = 1 << 21
"""Bytes of text cut together: few enough for the processor's cache, enough to make the overhead small."""
_ASCII_END = 0x80


def english_tokens(texts: pa.Array | pa.ChunkedArray, *, case_sensitive: bool = False) -> pa.ChunkedArray:
    """Returns the tokens of each row; a null has none."""
    slices = text_slices(texts)
    return pa.chunked_array([_slice_tokens(piece, case_sensitive) for piece in slices], TOKENS)


def text_slices(texts: pa.Array | pa.ChunkedArray) -> Iterator[pa.LargeStringArray]:
    """Yields the rows of a string column in order, in slices of some megabytes; nulls are empty texts."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    for chunk in chunks:
        array = pc.fill_null(pc.cast(chunk, pa.large_string()), "")
        ends = _bounds(array)[1:]
        start = 0
        while start < len(array):
            limit = (ends[start - 1] if start else _bounds(array)[0]) + _SLICE_BYTES
            stop = max(int(np.searchsorted(ends, limit, side="right")), start + 1)
            yield array[start:stop]
            start = stop


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsciiText:
    """Rows of ASCII text, as input of the loops that cut them."""

    words: U64
    """The text, lower-cased unless case matters, as :func:`padded_words` returns it."""
    bounds: I64
    """Offset of each row in bytes, and the end of the last one."""
    is_word: Mask
    """For each value of a byte, True if tokens may have it."""

    @property
    def data(self) -> U8:
        """The text as bytes; zeros follow it."""
        return self.words.view(np.uint8)


def ascii_text(texts: pa.LargeStringArray, *, case_sensitive: bool) -> AsciiText | None:
    """Returns a slice of :func:`text_slices` for the loops; None when it has other characters than ASCII."""
    raw, bounds = _raw(texts)
    if int(raw.max(initial=0)) >= _ASCII_END:
        return None
    if not case_sensitive:
        raw = np.frombuffer(raw.tobytes().translate(_ascii().lower), np.uint8)
    is_word = np.frombuffer(_ascii().is_word, np.bool_)
    return AsciiText(words=padded_words(raw, 0, len(raw)), bounds=bounds, is_word=is_word)


def _raw(texts: pa.LargeStringArray) -> tuple[U8, I64]:
    """Returns the bytes of a slice, the offset of each row in them, and the end of the last one."""
    bounds = _bounds(texts)
    body = texts.buffers()[2]
    raw = np.frombuffer(body, np.uint8)[bounds[0] : bounds[-1]] if body else np.empty(0, np.uint8)
    return raw, bounds - bounds[0]


def _slice_tokens(texts: pa.LargeStringArray, case_sensitive: bool) -> pa.ListArray:
    """Returns the tokens of a slice."""
    raw, bounds = _raw(texts)
    if int(raw.max(initial=0)) < _ASCII_END:
        data = raw.tobytes()
        starts, sizes = _spans(np.frombuffer(data.translate(_ascii().is_word), np.bool_), bounds)
        # With the bytes between them deleted, tokens follow one another.
        lowered = None if case_sensitive else _ascii().lower
        tokens = _as_array(data.translate(lowered, _ascii().others), np.cumsum(sizes))
    else:
        points = _code_points(raw)
        # Rows begin at characters, so at every byte but the continuing ones.
        bounds = np.concatenate([[0], np.cumsum((raw & 0xC0) != 0x80)])[bounds]
        is_word = word_table()[points]
        starts, sizes = _spans(is_word, bounds)
        tokens = lowered_points(points[is_word], np.cumsum(sizes), case_sensitive)
    rows = np.searchsorted(starts, bounds).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(rows, pa.int32()), tokens)


def _spans(is_word: Mask, bounds: I64) -> tuple[I64, I64]:
    """Returns the first character and the number of characters of each token."""
    begins, ends = is_word.copy(), is_word.copy()
    begins[1:] &= ~is_word[:-1]
    ends[:-1] &= ~is_word[1:]
    # No token goes on from one row into the next.
    heads = bounds[(bounds > 0) & (bounds < len(is_word))]
    begins[heads] = is_word[heads]
    ends[heads - 1] = is_word[heads - 1]
    starts = np.flatnonzero(begins)
    return starts, np.flatnonzero(ends) - starts + 1


def lowered_points(kept: U32, ends: I64, case_sensitive: bool) -> pa.BinaryArray:
    """Makes an array of tokens from their code points, lower-cased unless case matters.

    Args:
        kept: the tokens' code points, one token after another.
        ends: the place behind each token.
        case_sensitive: True keeps the case of tokens.
    """
    points = kept if case_sensitive else lower_table()[kept]
    sizes = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    byte_ends = np.append(0, np.cumsum(sizes))[ends]
    tokens = _as_array(points.tobytes().decode("utf-32-le").encode(), byte_ends)
    special = () if case_sensitive else np.flatnonzero(np.isin(kept, SPECIAL))
    if not len(special):
        return tokens
    # Rare: a lower case that is longer, or depends on the neighbours.
    texts = tokens.to_pylist()
    for place in np.searchsorted(ends, special, side="right").tolist():
        start = int(ends[place - 1]) if place else 0
        token = kept[start : int(ends[place])].tobytes().decode("utf-32-le")
        texts[place] = lower_text(token).encode()
    return pa.array(texts, pa.binary())


def _as_array(data: bytes, ends: I64) -> pa.BinaryArray:
    """Makes an array of values that follow one another, given the offset behind each."""
    offsets = np.append(0, ends).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ascii:
    """The first entries of the tables, for ``bytes.translate``, which is faster than indexing."""

    is_word: bytes
    lower: bytes
    others: bytes
    """All bytes that are in no word."""


@functools.cache
def _ascii() -> _Ascii:
    is_word = np.zeros(256, np.bool_)
    is_word[:_ASCII_END] = word_table()[:_ASCII_END]
    return _Ascii(
        is_word=is_word.tobytes(),
        lower=lower_table()[:256].astype(np.uint8).tobytes(),
        others=np.flatnonzero(~is_word).astype(np.uint8).tobytes(),
    )


def _code_points(raw: U8) -> U32:
    try:
        return np.frombuffer(raw.tobytes().decode().encode("utf-32-le"), np.uint32)
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"text to be indexed is not UTF-8: {error}") from error


def _bounds(texts: pa.LargeStringArray) -> I64:
    """Returns the offsets of the rows in the buffer of characters, and the end of the last one."""
    offsets = texts.buffers()[1]
    if len(texts) == 0 or offsets is None:
        return np.zeros(1, np.int64)
    return np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
