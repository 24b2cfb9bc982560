"""An HTTP service that streams the index metadata of a bucket as NDJSON.

Run it, and ask::

    python examples/index_service.py s3://bucket/prefix --port 8080
    curl 'http://127.0.0.1:8080/index-metas?shape=flat&kind=inverted'

Every request is one scan: rows leave as files are read, a slow client slows the reading
down, and a client that hangs up stops it. Parsed metadata stays in a cache, so the second
scan asks the store for nothing but the listing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

import lakehouse
from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.errors import LakehouseError
from lakehouse.index import SHAPES, IndexType, PrefixSource, iterate_index_metas


def service(url: str) -> Starlette:
    """The application, over the bucket or prefix at ``url``."""
    cache = CacheBudget().region(CacheSpec(name="puffin"))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with lakehouse.open_store(url) as store:
            app.state.store = store
            yield

    async def index_metas(request: Request) -> Response:
        query = request.query_params
        try:
            shape = SHAPES[query.get("shape", "compact")]
            scan = iterate_index_metas(
                PrefixSource(request.app.state.store, query.get("prefix", "")),
                concurrency=min(int(query.get("concurrency", "32")), 64),
                kinds=[IndexType(kind) for kind in query.getlist("kind")] or None,
                cache=cache,
            )
        except (KeyError, ValueError) as error:
            return PlainTextResponse(f"unknown value: {error}", status_code=400)

        async def lines() -> AsyncIterator[bytes]:
            try:
                async with aclosing(scan.batches(shape, rows=64)) as batches:
                    async for batch in batches:
                        yield b"".join(json.dumps(row).encode() + b"\n" for row in batch.to_pylist())
            except LakehouseError as error:
                # The status is sent already: the last line says that the scan did not end well.
                yield json.dumps({"error": error.kind, "message": error.message}).encode() + b"\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def cost(request: Request) -> Response:
        stats = cache.stats()
        return JSONResponse({"cached_files": stats.entries, "cached_bytes": stats.weight})

    return Starlette(routes=[Route("/index-metas", index_metas), Route("/cache", cost)], lifespan=lifespan)


def main() -> None:
    """Serves until interrupted."""
    parser = argparse.ArgumentParser(description="Stream the index metadata of a bucket.")
    parser.add_argument("url", help="s3://bucket/prefix, file:///path or a plain path")
    parser.add_argument("--port", type=int, default=8080)
    arguments = parser.parse_args()
    uvicorn.run(service(arguments.url), host="127.0.0.1", port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
