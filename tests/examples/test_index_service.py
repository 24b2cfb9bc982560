"""The example service streams what a bucket holds, as a client sees it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakehouse.io import open_store
from lakehouse.testing.endpoint import ServerInfo
from lakehouse.testing.index_files import all_kinds

ROOT = Path(__file__).parents[2]
FILES = 20


@pytest.fixture
def served(
    object_store_server: ServerInfo, bucket_url: str, storage_options: dict[str, Any]
) -> Iterator[str]:
    """The service over a bucket with twenty index files; its URL."""

    async def fill() -> None:
        async with open_store(bucket_url, storage_options=storage_options) as store:
            for number in range(FILES):
                await store.put(f"idx/{number:03}.puffin", all_kinds())

    asyncio.run(fill())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": object_store_server.endpoint_url,
        "AWS_ACCESS_KEY_ID": object_store_server.key,
        "AWS_SECRET_ACCESS_KEY": object_store_server.secret,
    }
    program = [sys.executable, str(ROOT / "examples" / "index_service.py"), bucket_url, "--port", str(port)]
    with subprocess.Popen(program, env=environment, cwd=ROOT) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url)
            yield url
        finally:
            process.terminate()


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            httpx.get(f"{url}/cache")
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("the service did not start")


def test_the_service_streams_rows_and_keeps_what_it_read(served: str) -> None:
    """Every index comes as a line; a second scan is answered from the cache with the same lines."""
    with httpx.Client(base_url=served, timeout=60) as client:
        first = client.get("/index-metas", params={"shape": "greptime"})
        rows = [json.loads(line) for line in first.text.splitlines()]
        assert len(rows) == 5 * FILES
        assert {row["index_type"] for row in rows} == {
            "bloom_filter",
            "fulltext_bloom",
            "fulltext_tantivy",
            "inverted",
        }
        assert client.get("/cache").json()["cached_files"] == FILES
        again = client.get("/index-metas", params={"shape": "greptime"})
        assert sorted(again.text.splitlines()) == sorted(first.text.splitlines())
        only = client.get("/index-metas", params={"kind": "inverted"})
        assert len(only.text.splitlines()) == 2 * FILES
        for wrong in ({"shape": "round"}, {"kind": "round"}, {"concurrency": "0"}):
            assert client.get("/index-metas", params=wrong).status_code == 400
