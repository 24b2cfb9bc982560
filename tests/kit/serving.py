"""Servers of pages on loopback that serve a directory, as people have them."""

from __future__ import annotations

import contextlib
import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Pages", "serving"]


class Pages:
    """What a server does, and what it was asked."""

    def __init__(self, *, ranges: bool, index: bool) -> None:
        self.ranges = ranges
        self.index = index
        self.url = ""
        self.asked: list[tuple[str, str]] = []
        self.failing = 0
        """How many requests are answered with 503 before it works again."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments: Any, pages: Pages, **options: Any) -> None:
        self.pages = pages
        super().__init__(*arguments, **options)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        self.pages.asked.append((self.command, self.path))

    def list_directory(self, path: Any) -> Any:
        if self.pages.index:
            return super().list_directory(path)
        self.send_error(403, "no index")
        return None

    def do_GET(self) -> None:
        if self.pages.failing:
            self.pages.failing -= 1
            self.send_error(503, "later")
            return
        path = Path(self.translate_path(self.path))
        span = self.headers.get("Range")
        if span is None or not self.pages.ranges or not path.is_file():
            super().do_GET()
            return
        self._send_part(path.read_bytes(), span)

    def _send_part(self, data: bytes, span: str) -> None:
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", span)
        assert found
        start = int(found[1]) if found[1] else max(0, len(data) - int(found[2]))
        end = min(int(found[2]) + 1, len(data)) if found[1] and found[2] else len(data)
        if start >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(data[start:end])


@contextlib.contextmanager
def serving(directory: Path, *, ranges: bool = True, index: bool = True) -> Iterator[Pages]:
    """A server for the time of a block.

    Args:
        directory: its root.
        ranges: whether it knows ranges; Python's own does not.
        index: whether folders have pages with links.
    """
    pages = Pages(ranges=ranges, index=index)
    handler = functools.partial(_Handler, pages=pages, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        pages.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield pages
        finally:
            server.shutdown()
            thread.join()
