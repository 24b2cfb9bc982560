"""Reader of a table's index file: every byte that it reads is checked, and cached for the next search.

Opening costs one read of the file's end: the footer, with the wanted indexes where these are small and at the
end, or the whole file where that is small. Reads are made in pages; pages and footers are kept in the caches
of data files.

Invariant: returned bytes are those that were written; a file that is not the one the snapshot refers to is a
CorruptionError that names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import google_crc32c

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError
from lakehouse.format.metadata import IndexRef
from lakehouse.format.puffin import PuffinFooter
from lakehouse.index.puffin import PageSums, PuffinReader, page_bytes_of
from lakehouse.io.store import ObjectStore
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.storage.metadata.paths import join

__all__ = ["OpenIndex", "open_index"]

_FOOTER_WEIGHT = 8
"""Memory of a parsed footer as a multiple of its length."""


_NEAR_BYTES = 128 * 1024
"""Maximum bytes of a file's end that are read with the footer for the sake of wanted indexes in it: that
takes less time than another request."""


async def open_index(
    store: ObjectStore,
    root: str,
    ref: IndexRef,
    caches: RunCaches,
    settings: IndexSettings,
    *,
    asked: Collection[int] = (),
) -> OpenIndex:
    """Returns a reader of an index file, from the cache where it was opened before.

    Args:
        store: store of the table.
        root: the table's directory.
        ref: the snapshot's reference to the file.
        caches: caches shared by all files of the store.
        settings: limits of index searches.
        asked: ids of the definitions whose indexes are about to be searched.
    """

    async def load(_: object) -> OpenIndex:
        made = OpenIndex(store, root, ref, caches, settings, asked=asked)
        await made.footer()
        return made

    opened = await caches.metadata.get((root, ref.path), load)
    assert isinstance(opened, OpenIndex)  # load never returns None
    return opened


class OpenIndex(PuffinReader):
    """Reader of a puffin file that checks every page; made by :func:`open_index`."""

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        ref: IndexRef,
        caches: RunCaches,
        settings: IndexSettings,
        *,
        asked: Collection[int],
    ) -> None:
        is_small = ref.size <= settings.search_whole_bytes
        super().__init__(
            store,
            join(root, ref.path),
            size=ref.size,
            prefetch_bytes=ref.size
            if is_small
            else _tail_bytes(ref, asked, min(_NEAR_BYTES, settings.search_whole_bytes))
            or settings.prefetch_bytes,
            settings=settings,
        )
        self._ref, self._where, self._caches = ref, (root, ref.path), caches
        self._pages: PageSums | None = None

    @property
    def weight(self) -> int:
        """Estimated bytes in memory, for the cache."""
        return len(self.window[1]) + _FOOTER_WEIGHT * self._ref.footer_bytes + 1000

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, the smallest read; known once the footer was read."""
        assert self._pages is not None
        return self._pages.page_bytes

    async def footer(self) -> PuffinFooter:
        """Returns the footer, after checking that the file is the one the snapshot refers to."""
        footer = await super().footer()
        if self._pages is None:
            self._check_footer()
            self._pages = PageSums.of(footer, self.footer_start, self.key)
        return footer

    def _check_footer(self) -> None:
        start, data = self.window
        crc = google_crc32c.value(data[self.footer_start - start :])
        if self.size != self._ref.size or crc != self._ref.checksum:
            raise CorruptionError(
                f"{self.key} is damaged, or another file stands in its place: its size and the CRC32C of its "
                f"footer are {self.size} and {crc:08x}, the snapshot says {self._ref.size} and "
                f"{self._ref.checksum or 0:08x}",
                key=self.key,
            )

    async def ranges(self, ranges: Sequence[tuple[int, int]], *, gap_bytes: int | None = None) -> list[bytes]:
        """Returns byte ranges from before the footer: out of memory, or fetched in few requests."""
        await self.footer()
        assert self._pages is not None
        pages = await self._read_pages(self._pages, self._touched(self._pages, ranges), gap_bytes)
        size = self._pages.page_bytes
        parts = []
        for start, end in ranges:
            numbers = range(start // size, -(-end // size))
            joined = b"".join(pages[number] for number in numbers)
            first = numbers.start * size
            parts.append(joined[start - first : end - first])
            if len(parts[-1]) != end - start:
                raise CorruptionError(
                    f"{self.key} has no bytes [{start}, {end}): its footer begins at {self._pages.end}",
                    key=self.key,
                    offset=start,
                )
        return parts

    @staticmethod
    def _touched(pages: PageSums, ranges: Iterable[tuple[int, int]]) -> list[int]:
        """Returns the numbers of the pages that byte ranges overlap, ascending."""
        numbers: set[int] = set()
        for start, end in ranges:
            numbers.update(range(start // pages.page_bytes, -(-min(end, pages.end) // pages.page_bytes)))
        return sorted(numbers)

    async def _read_pages(
        self, pages: PageSums, numbers: Sequence[int], gap_bytes: int | None
    ) -> dict[int, bytes]:
        """Returns pages by number: cached ones, and the others read in runs of neighbours and checked."""
        blocks = self._caches.blocks
        contents: dict[int, bytes] = {}
        for number in numbers:
            known = blocks.get_if_present((*self._where, number))
            if known is not None:
                contents[number] = known
        missing = [number for number in numbers if number not in contents]
        runs: list[list[int]] = []
        for number in missing:
            if runs and runs[-1][-1] == number - 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        spans = [(pages.span(run[0])[0], pages.span(run[-1])[1]) for run in runs]
        parts = await super().ranges(spans, gap_bytes=gap_bytes)
        for run, part in zip(runs, parts, strict=True):
            for place, number in enumerate(run):
                data = part[place * pages.page_bytes : (place + 1) * pages.page_bytes]
                contents[number] = pages.check(number, data, self.key)
                # Pages inside the window that came with the footer are in memory already.
                if pages.span(number)[0] < self.window[0]:
                    blocks.put((*self._where, number), contents[number])
        return contents


def _tail_bytes(ref: IndexRef, asked: Collection[int], near: int) -> int:
    """Returns how many bytes of the end to read for the footer and for wanted indexes within ``near`` bytes.

    0 when neither place is known.
    """
    page = page_bytes_of(ref.size - ref.footer_bytes)
    tail = ref.footer_bytes
    for number, reach in zip(ref.ids, ref.reach, strict=False):
        if number in asked and reach:
            # From the beginning of a page, since only whole pages can be checked.
            begin = (ref.size - reach) // page * page
            if ref.size - begin <= near:
                tail = max(tail, ref.size - begin)
    return tail
