"""One index file of a table, opened: what is read of it is checked, and kept for the next search.

Opening costs one read of its tail, with the indexes that are asked where these are small and stand at the
end, the whole file where that is small. Reads are made in pages; pages and footers are kept in the caches
of data files.

Invariant: bytes handed out are those that were written; a file that is not the one the snapshot speaks
of is a CorruptionError that names it.
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
"""Times its length that a parsed footer takes in memory."""


_NEAR_BYTES = 128 * 1024
"""So much of the end of a file comes with its footer where the indexes asked are in it: that takes less time
than another request."""


async def open_index(
    store: ObjectStore,
    root: str,
    ref: IndexRef,
    caches: RunCaches,
    settings: IndexSettings,
    *,
    asked: Collection[int] = (),
) -> OpenIndex:
    """A reader of an index file, which its caches may know already.

    Args:
        store: where the table is.
        root: its directory.
        ref: what the snapshot says of the file.
        caches: shared by all files of the store.
        settings: limits.
        asked: ids of the definitions whose indexes are about to be searched.
    """

    async def load(_: object) -> OpenIndex:
        made = OpenIndex(store, root, ref, caches, settings, asked=asked)
        await made.footer()
        return made

    found = await caches.metadata.get((root, ref.path), load)
    assert isinstance(found, OpenIndex)  # load never says that there is nothing
    return found


class OpenIndex(PuffinReader):
    """Reads a puffin file page by page, checking each; made by :func:`open_index`."""

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
        """About what it takes in memory."""
        return len(self.window[1]) + _FOOTER_WEIGHT * self._ref.footer_bytes + 1000

    @property
    def page_bytes(self) -> int:
        """How much is read at least; known once the footer was read."""
        assert self._pages is not None
        return self._pages.page_bytes

    async def footer(self) -> PuffinFooter:
        """What the file holds, once it is known to be the right one."""
        found = await super().footer()
        if self._pages is None:
            self._check_footer()
            self._pages = PageSums.of(found, self.footer_start, self.key)
        return found

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
        """Byte ranges in front of the footer: from memory, or fetched in few requests."""
        await self.footer()
        assert self._pages is not None
        pages = await self._read_pages(self._pages, self._touched(self._pages, ranges), gap_bytes)
        size = self._pages.page_bytes
        found = []
        for start, end in ranges:
            numbers = range(start // size, -(-end // size))
            joined = b"".join(pages[number] for number in numbers)
            first = numbers.start * size
            found.append(joined[start - first : end - first])
            if len(found[-1]) != end - start:
                raise CorruptionError(
                    f"{self.key} has no bytes [{start}, {end}): its footer begins at {self._pages.end}",
                    key=self.key,
                    offset=start,
                )
        return found

    @staticmethod
    def _touched(pages: PageSums, ranges: Iterable[tuple[int, int]]) -> list[int]:
        numbers: set[int] = set()
        for start, end in ranges:
            numbers.update(range(start // pages.page_bytes, -(-min(end, pages.end) // pages.page_bytes)))
        return sorted(numbers)

    async def _read_pages(
        self, pages: PageSums, numbers: Sequence[int], gap_bytes: int | None
    ) -> dict[int, bytes]:
        blocks = self._caches.blocks
        found: dict[int, bytes] = {}
        for number in numbers:
            known = blocks.get_if_present((*self._where, number))
            if known is not None:
                found[number] = known
        missing = [number for number in numbers if number not in found]
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
                found[number] = pages.check(number, data, self.key)
                if pages.span(number)[0] < self.window[0]:
                    blocks.put((*self._where, number), found[number])
        return found


def _tail_bytes(ref: IndexRef, asked: Collection[int], near: int) -> int:
    """How much of the end to read: the footer, and the indexes that are asked where they are near."""
    page = page_bytes_of(ref.size - ref.footer_bytes)
    found = ref.footer_bytes
    for number, reach in zip(ref.ids, ref.reach, strict=False):
        if number in asked and reach:
            begin = (ref.size - reach) // page * page
            if ref.size - begin <= near:
                found = max(found, ref.size - begin)
    return found
