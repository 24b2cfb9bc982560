"""What an enumeration costs on the wire of a real store, counted by a proxy in between."""

from __future__ import annotations

from collections import Counter

import pytest

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.config import IndexSettings, IoSettings
from lakehouse.index.metas.enumerate import iterate_index_metas
from lakehouse.index.metas.sources import FileListSource, PrefixSource
from lakehouse.io import open_store
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.index_files import all_kinds
from lakehouse.testing.proxy import FaultProxy

FILES = 40


@pytest.mark.parametrize("fast_reads", ["off", "require"], ids=["s3fs", "obstore"])
@pytest.mark.parametrize(
    ("filler", "gets"), [(0, 1), (300_000, 2)], ids=["metadata in the tail", "metadata far from it"]
)
async def test_requests_per_file(minio: ServerInfo, fast_reads: str, filler: int, gets: int) -> None:
    """One GET per file when the metadata fits the prefetch, one more for all of it when not; no HEAD."""
    data = all_kinds(filler=filler)
    settings = IndexSettings(prefetch_bytes=16_384, prefetch_max_bytes=16_384)
    with fresh_bucket(minio) as bucket:
        async with FaultProxy(minio.endpoint_url) as proxy:
            options = {**minio.storage_options, "endpoint_url": proxy.url}
            io = IoSettings(fast_reads=fast_reads)
            async with open_store(f"s3://{bucket}/idx", storage_options=options, settings=io) as store:
                for number in range(FILES):
                    await store.put(f"{number:03}.puffin", data)
                proxy.forget()
                listed = [(f"{number:03}.puffin", len(data)) for number in range(FILES)]
                scan = iterate_index_metas(FileListSource(store, listed), settings=settings)
                assert len([entry async for entry in scan]) == 5 * FILES
                assert proxy.counts == Counter(GET=gets * FILES)
                proxy.forget()
                async for _ in iterate_index_metas(PrefixSource(store), settings=settings):
                    pass
                assert proxy.counts == Counter(GET=gets * FILES + 1)


async def test_a_second_pass_makes_no_request(minio: ServerInfo) -> None:
    """Files that a cache knows cost nothing, whether a list or a listing tells of them."""
    data = all_kinds()
    with fresh_bucket(minio) as bucket:
        async with FaultProxy(minio.endpoint_url) as proxy:
            options = {**minio.storage_options, "endpoint_url": proxy.url}
            async with open_store(f"s3://{bucket}/idx", storage_options=options) as store:
                for number in range(FILES):
                    await store.put(f"{number:03}.puffin", data)
                listed = [(f"{number:03}.puffin", len(data)) for number in range(FILES)]
                cache = CacheBudget().region(CacheSpec(name="puffin"))
                for source, listings in (
                    (FileListSource(store, listed), 0),
                    (PrefixSource(store), 1),
                ):
                    first = {entry async for entry in iterate_index_metas(source, cache=cache)}
                    proxy.forget()
                    scan = iterate_index_metas(source, cache=cache)
                    assert {entry async for entry in scan} == first
                    assert proxy.counts == Counter(GET=listings)
                    assert scan.stats.cache_hits == FILES
