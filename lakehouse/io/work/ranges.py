"""Many ranges of one object in few requests: a pure plan, and the reads it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError
from lakehouse.io.protocols import Fetched, Gets
from lakehouse.io.work.fanout import map_bounded

__all__ = ["RangePlan", "coalesce", "fetch_ranges"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangePlan:
    """Which requests to make, and where each wanted range lies in them."""

    requests: tuple[tuple[int, int], ...]
    """``[start, end)`` of each request, ascending and disjoint."""
    source: tuple[int, ...]
    """For each wanted range, the index of its request; -1 for an empty range."""


def coalesce(ranges: Sequence[tuple[int, int]], *, gap_bytes: int, max_bytes: int) -> RangePlan:
    """Joins ranges at most ``gap_bytes`` apart while the request stays within ``max_bytes``.

    A single range larger than ``max_bytes`` stays one request: the caller asked for it.
    Overlapping ranges always share a request, so no byte is fetched twice.
    """
    for start, end in ranges:
        if start < 0 or end < start:
            raise InvalidInputError(
                f"[{start}, {end}) is not a range: 0 <= start <= end", start=start, end=end
            )
    order = sorted((i for i, (start, end) in enumerate(ranges) if end > start), key=lambda i: ranges[i])
    requests: list[tuple[int, int]] = []
    source = [-1] * len(ranges)
    for i in order:
        start, end = ranges[i]
        if requests:
            open_start, open_end = requests[-1]
            joined = max(open_end, end)
            if start < open_end or (start - open_end <= gap_bytes and joined - open_start <= max_bytes):
                requests[-1] = (open_start, joined)
                source[i] = len(requests) - 1
                continue
        requests.append((start, end))
        source[i] = len(requests) - 1
    return RangePlan(requests=tuple(requests), source=tuple(source))


async def fetch_ranges(
    store: Gets,
    key: str,
    ranges: Sequence[tuple[int, int]],
    *,
    settings: IoSettings,
    version: str | None = None,
    gap_bytes: int | None = None,
) -> list[bytes]:
    """Reads the ranges by the plan of :func:`coalesce`; all bytes are of one version.

    Ranges are cut at the object's end. Of several requests the first runs alone when no
    version is given, since the others must insist on the version it finds.
    """
    gap_bytes = settings.coalesce_gap_bytes if gap_bytes is None else gap_bytes
    plan = coalesce(ranges, gap_bytes=gap_bytes, max_bytes=settings.coalesce_max_bytes)
    if not plan.requests:
        return [b""] * len(ranges)

    async def read(request: tuple[int, int]) -> Fetched:
        return await store.get_range(key, *request, version=version)

    fetched: list[Fetched] = []
    rest = plan.requests
    if version is None and len(rest) > 1:
        fetched.append(await read(rest[0]))
        version, rest = fetched[0].version, rest[1:]
    if len(rest) == 1:
        fetched.append(await read(rest[0]))
    else:
        fetched += [part async for part in map_bounded(read, rest, settings.ranges_concurrency)]
    return [
        b"" if at < 0 else fetched[at].data[start - fetched[at].start : end - fetched[at].start]
        for at, (start, end) in zip(plan.source, ranges, strict=True)
    ]
