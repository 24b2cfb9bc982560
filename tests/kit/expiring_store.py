"""Objects behind S3's protocol on loopback, read with access keys that stop being good."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote, urlsplit

from tests.kit.loopback import LoopbackServer, serving

__all__ = ["ExpiringStore", "expiring_store"]

_KEY = re.compile(r"Credential=([^/]+)/")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_ERROR = "<?xml version='1.0'?><Error><Code>{}</Code><Message>as the test wants</Message></Error>"


@dataclass(slots=True)
class ExpiringStore:
    """Objects, and the access keys that may read them."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    """By bucket and key: ``bucket/key``."""
    keys: set[str] = field(default_factory=set)
    """Access keys that are good now."""
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    """Access key, object and status of each request."""
    heads: list[tuple[str, str, int]] = field(default_factory=list)
    """Those of them that asked for a head."""

    def answer(self, path: str, authorization: str) -> tuple[int, bytes]:
        """Returns status and bytes for a GET."""
        name = unquote(urlsplit(path).path).lstrip("/")
        found = _KEY.search(authorization)
        key = found[1] if found else ""
        if key not in self.keys:
            status, body = 400, _ERROR.format("ExpiredToken").encode()
        elif name not in self.objects:
            status, body = 404, _ERROR.format("NoSuchKey").encode()
        else:
            status, body = 200, self.objects[name]
        self.asked.append((key, name, status))
        return status, body


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self.do_GET(head=True)

    def do_GET(self, *, head: bool = False) -> None:
        status, body = self.server.known.answer(self.path, self.headers.get("Authorization", ""))
        if head:
            self.server.known.heads.append(self.server.known.asked[-1])
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        span = _RANGE.fullmatch(self.headers.get("Range", ""))
        whole = len(body)
        if status == 200 and span:
            start, end = int(span[1]), min(int(span[2] or whole), whole - 1) + 1
            status, body = 206, body[start:end]
        self.send_response(status)
        if span and status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{whole}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{etag}"')
        self.send_header("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Says nothing."""


class _Server(LoopbackServer):
    known: ExpiringStore


@contextlib.contextmanager
def expiring_store() -> Iterator[ExpiringStore]:
    """Runs a store for the time of a block."""
    server = _Server(_Handler)
    server.known = ExpiringStore(url=server.url)
    with serving(server):
        yield server.known
