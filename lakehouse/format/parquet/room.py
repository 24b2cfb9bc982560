"""Choice of the way to read column chunks so that no more memory is used than for a sound file.

Most chunks cannot become large, according to their page headers, and are read as they are. Where a
dictionary leaves doubt, the length of its longest value decides, and where that does not, texts are
read as numbers of the dictionary's entries and their lengths added up. Texts stored as differences from
the text before are decoded some rows at a time.

Invariant: chunks of a row group take at most :func:`~lakehouse.format.parquet.pages.bytes_allowed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import CorruptionError
from lakehouse.format.limits.codec_ratio import BYTES_OF_ONE
from lakehouse.format.parquet.file_footer import FileFooter
from lakehouse.format.parquet.pages import LeafShape, PageError, bytes_allowed, read_pages
from lakehouse.kernels.arrays import U8

__all__ = ["WayToRead", "way_to_read"]

_SLICE_BYTES = 256 * 1024 * 1024
_CODECS: Mapping[str, str] = {"UNCOMPRESSED": "none", **{name.upper(): name for name in BYTES_OF_ONE}}


@dataclass(frozen=True, slots=True, kw_only=True)
class WayToRead:
    """Way to read some chunks within bounded memory."""

    dictionaries: list[str]
    """Paths of the columns whose values are to be read as numbers of a dictionary's."""
    room: int | None
    """Bytes that may come out where it has to be counted; None = no more than may be can."""
    slice_rows: int | None
    """Number of rows to decode at a time; None = all."""


class _Chunk:
    """A column chunk, its pages known.

    Raises:
        PageError: they are not what the footer says.
    """

    __slots__ = ("codec", "data", "leaf", "pages", "path", "shape")

    def __init__(self, column: Any, leaf: int, shape: LeafShape, data: U8, rows: int) -> None:
        codec = _CODECS.get(column.compression)
        if codec is None:
            raise PageError(
                f"it is compressed with {column.compression}, and not with one of {', '.join(_CODECS)}", 0
            )
        self.leaf, self.shape, self.data, self.codec = leaf, shape, data, codec
        self.path: str = column.path_in_schema
        self.pages = read_pages(data, shape, codec)
        size, values = self.pages.size, self.pages.values
        if (size, values) != (said := (column.total_uncompressed_size, column.num_values)):
            raise PageError(
                f"its pages have {size:,} bytes decompressed and {values:,} values, "
                f"and the footer says {said[0]:,} and {said[1]:,}",
                0,
            )
        if values < rows or (values > rows and not shape.repeats):
            raise PageError(f"it has {values:,} values for {rows:,} rows", 0)


def way_to_read(footer: FileFooter, image: U8, groups: Sequence[int], leaves: Sequence[int]) -> WayToRead:
    """Chooses the way to read these leaves of these row groups.

    Raises:
        CorruptionError: pages are not what the footer says, or would take more memory than they may.
    """
    short = footer.dictionary_texts
    counted: dict[int, str] = {}
    room, in_doubt, largest = 0, False, 0
    for group, rows in zip(groups, footer.group_rows[list(groups)].tolist(), strict=True):
        chunks = _chunks(footer, image, group, rows, leaves)
        allowed = bytes_allowed(sum([len(one.data) for one in chunks]))
        alone = rows == 1
        room += allowed * (len(chunks) if alone else 1)
        if _most(chunks, alone=alone) <= allowed:
            continue
        for one in _settled(footer, group, chunks, allowed, alone=alone):
            in_doubt = True
            if one.pages.repeated_bytes:
                counted[one.leaf] = one.path
            largest = max(largest, one.pages.shared_page)
    names = {leaf: short[leaf] for leaf in leaves if leaf in short} | counted
    return WayToRead(
        dictionaries=list(names.values()),
        room=room if in_doubt else None,
        slice_rows=max(1, _SLICE_BYTES // largest) if largest else None,
    )


def _chunks(footer: FileFooter, image: U8, group: int, rows: int, leaves: Sequence[int]) -> list[_Chunk]:
    """Some chunks of a row group."""
    about = footer.metadata.row_group(group)
    starts, sizes = footer.starts[group].tolist(), footer.sizes[group].tolist()
    chunks = []
    for leaf in leaves:
        column, start = about.column(leaf), starts[leaf]
        try:
            chunks.append(_Chunk(column, leaf, footer.shapes[leaf], image[start : start + sizes[leaf]], rows))
        except PageError as error:
            raise _damage_error(footer, group, leaf, column.path_in_schema, error) from error
    return chunks


def _most(chunks: Sequence[_Chunk], *, alone: bool) -> int:
    """Bytes that chunks of a row group take at most; of a single row the largest one counts."""
    sizes = [one.pages.bytes_max for one in chunks]
    return max(sizes) if alone else sum(sizes)


def _settled(
    footer: FileFooter, group: int, chunks: Sequence[_Chunk], allowed: int, *, alone: bool
) -> list[_Chunk]:
    """The chunks whose texts have to be counted, of a row group that may take too much."""
    sizes = [one.pages.bytes_read for one in chunks]
    certain = max(sizes) if alone else sum(sizes)
    if certain > allowed:
        largest = chunks[sizes.index(max(sizes))]
        raise _damage_error(footer, group, largest.leaf, largest.path, _too_large_error(certain, allowed))
    # Counting is free where texts are read as numbers anyway.
    for one in chunks:
        if one.leaf not in footer.dictionary_texts and one.pages.repeated_bytes:
            try:
                one.pages.look_at_dictionary(one.data, one.codec)
            except PageError as error:
                raise _damage_error(footer, group, one.leaf, one.path, error) from error
    if _most(chunks, alone=alone) <= allowed:
        return []
    left = []
    for one in sorted(chunks, key=lambda one: one.pages.bytes_max - one.pages.bytes_read):
        more = one.pages.bytes_max - one.pages.bytes_read
        if more and (one.leaf in footer.dictionary_texts or certain + more > allowed):
            left.append(one)
            if one.pages.shared_bytes and one.shape.repeats:
                raise _damage_error(
                    footer, group, one.leaf, one.path, _too_large_error(one.pages.bytes_max, allowed)
                )
        else:
            certain += more
    return left


def _too_large_error(size: int, allowed: int) -> PageError:
    return PageError(f"it and its neighbours may take {size:,} bytes in memory, {allowed:,} are allowed", 0)


def _damage_error(footer: FileFooter, group: int, leaf: int, path: str, error: PageError) -> CorruptionError:
    start = int(footer.starts[group, leaf])
    return CorruptionError(
        f"column {path!r} of row group {group}, page at byte {start + error.at}: {error}",
        offset=start + error.at,
        column=path,
    )
