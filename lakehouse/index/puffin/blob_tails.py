"""Reader of the metadata at the ends of blobs, with as few requests as their places in the file allow.

Metadata in the tail that was fetched cost nothing. The ends of all other blobs are fetched together;
only metadata longer than expected cost a further round.

Invariant: a blob whose metadata cannot be read gives an error of its own, which names file, blob and
place, and does not affect the other blobs.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from lakehouse.config import IndexSettings
from lakehouse.errors import FormatError, InvalidInputError
from lakehouse.format.puffin import BlobMeta
from lakehouse.index.puffin.reader import PuffinReader, about
from lakehouse.kernels.need_more import NeedMore

__all__ = ["TAIL", "TailMetas", "TailParser", "read_tails"]

TAIL = "lakehouse.tail"
"""Blob property: the metadata at the blob's end, with their length behind them, in base64."""

_GUESS_BYTES = 8192
"""Bytes of a blob's end that are fetched when none of it was fetched before; upstream's own number."""

Meta = TypeVar("Meta")


TailParser: TypeAlias = Callable[[bytes | memoryview, int], Meta | NeedMore]
"""Function that parses metadata from a blob's last bytes and its size, or returns the tail that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailMetas(Generic[Meta]):
    """Metadata at the ends of blobs."""

    metas: list[Meta | FormatError | None]
    """For each blob its metadata, or the error of reading them; None where none were asked for."""
    start: int
    """First byte of the file that had to be read."""


async def read_tails(
    reader: PuffinReader,
    blobs: Sequence[tuple[BlobMeta, TailParser[Meta] | None]],
    *,
    settings: IndexSettings,
) -> TailMetas[Meta]:
    """Reads the metadata of blobs, each with its parser.

    Args:
        reader: reader of the file, whose footer must have been read.
        blobs: blobs with their parsers; a blob without a parser has no metadata at its end.
        settings: limits of the gap between tails that share a request, and of the length of metadata.
    """
    base, window = reader.window
    at_hand = memoryview(window)
    metas: list[Meta | FormatError | None] = [None] * len(blobs)
    start = reader.size
    needs: list[tuple[int, tuple[int, int]]] = []
    tails: list[tuple[int, bytes | memoryview]] = []
    tail: bytes | memoryview
    for place, (blob, parse) in enumerate(blobs):
        if parse is not None:
            tail = at_hand[max(0, blob.offset - base) : max(0, blob.end - base)]
            if (noted := _noted(blob)) is not None:
                metas[place] = _from_footer(noted, blob, parse)
            if metas[place] is not None:
                continue
            if len(tail) or not blob.length:
                tails.append((place, tail))
            else:
                needs.append((place, (max(blob.offset, blob.end - _GUESS_BYTES), blob.end)))
    while True:
        for place, tail in tails:
            blob, parse = blobs[place]
            assert parse is not None
            try:
                meta = parse(tail, blob.length)
            except FormatError as error:
                metas[place] = about(error, reader.key, blob)
                continue
            if not isinstance(meta, NeedMore):
                metas[place] = meta
                start = min(start, blob.end - len(tail))
            elif meta.length <= settings.footer_max_bytes:
                needs.append((place, (blob.offset + meta.start, blob.offset + meta.end)))
            else:
                metas[place] = about(_too_long_error(meta, settings), reader.key, blob)
        if not needs:
            return TailMetas(metas=metas, start=start)
        fetched = await reader.ranges([span for _, span in needs], gap_bytes=settings.metadata_gap_bytes)
        tails = [(place, data) for (place, _), data in zip(needs, fetched, strict=True)]
        needs = []


def _noted(blob: BlobMeta) -> bytes | None:
    """Returns the blob's end from the footer, if the footer has it."""
    encoded = blob.properties.get(TAIL)
    try:
        return None if encoded is None else base64.b64decode(encoded, validate=True)
    except ValueError:
        return None  # the blob itself has it


def _from_footer(tail: bytes, blob: BlobMeta, parse: TailParser[Meta]) -> Meta | None:
    """Parses the metadata of a blob whose end the footer has; None when they are invalid there."""
    try:
        meta = parse(tail, blob.length)
    except (FormatError, InvalidInputError):
        return None
    return None if isinstance(meta, NeedMore) else meta


def _too_long_error(more: NeedMore, settings: IndexSettings) -> FormatError:
    return FormatError(
        f"the metadata has {more.length} bytes, more than index.footer_max_bytes allows: raise it if that is "
        "sound",
        expected=settings.footer_max_bytes,
        got=more.length,
    )
