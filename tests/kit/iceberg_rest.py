"""A REST catalog of Iceberg on loopback: enough of it to be attached, listed and asked for tables."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.kit.loopback import LoopbackServer, serving

__all__ = ["RestServer", "rest_catalog"]

_SEPARATOR = "\x1f"


@dataclass(slots=True)
class RestServer:
    """What the server knows, and what it was asked."""

    url: str = ""
    tables: dict[tuple[str, ...], Callable[[], Mapping[str, Any]]] = field(default_factory=dict)
    """By namespaces and name, what makes the answer to a load."""
    views: dict[tuple[str, ...], Callable[[], Mapping[str, Any]]] = field(default_factory=dict)
    """Likewise of views."""
    config: dict[str, Any] = field(default_factory=lambda: {"defaults": {}, "overrides": {}})
    token: str | None = None
    """Bearer token that requests need."""
    failing: int | None = None
    """Status that everything is answered with."""
    asked: list[str] = field(default_factory=list)
    """Method and path of each request."""

    def answer(self, method: str, path: str, authorization: str | None) -> tuple[int, Mapping[str, Any]]:
        """Returns status and document for a request."""
        parts = urlsplit(path)
        self.asked.append(f"{method} {unquote(parts.path).replace(_SEPARATOR, '.')}")
        if self.failing:
            return _error(self.failing, "Broken", "as the test wants")
        if self.token and authorization != f"Bearer {self.token}":
            return _error(401, "NotAuthorizedException", "no such token")
        steps = [unquote(step) for step in parts.path.strip("/").split("/")][1:]
        names = [tuple(step.split(_SEPARATOR)) for step in steps]
        spaces = {name[:deep] for name in self.tables for deep in range(1, len(name))}
        match steps:
            case ["config"]:
                return 200, self.config
            case ["namespaces"]:
                above = tuple(filter(None, parse_qs(parts.query).get("parent", [""])[0].split(_SEPARATOR)))
                inside = sorted(one for one in spaces if one[:-1] == above)
                return 200, {"namespaces": [list(one) for one in inside]}
            case ["namespaces", _, "tables"] if names[1] in spaces:
                found = sorted(one for one in self.tables if one[:-1] == names[1])
                return 200, {"identifiers": [{"namespace": list(one[:-1]), "name": one[-1]} for one in found]}
            case ["namespaces", _, "tables"]:
                return _error(404, "NoSuchNamespaceException", "no such namespace")
            case ["namespaces", _, "tables", table] if (*names[1], table) in self.tables:
                return 200, self.tables[(*names[1], table)]()
            case ["namespaces", _, "views"] if names[1] in spaces:
                found = sorted(one for one in self.views if one[:-1] == names[1])
                return 200, {"identifiers": [{"namespace": list(one[:-1]), "name": one[-1]} for one in found]}
            case ["namespaces", _, "views", view] if (*names[1], view) in self.views:
                return 200, self.views[(*names[1], view)]()
        return _error(404, "NoSuchTableException", "no such table")


def _error(status: int, kind: str, message: str) -> tuple[int, Mapping[str, Any]]:
    return status, {"error": {"message": message, "type": kind, "code": status}}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        status, document = self.server.known.answer("GET", self.path, self.headers.get("Authorization"))
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Says nothing."""


class _Server(LoopbackServer):
    known: RestServer


@contextlib.contextmanager
def rest_catalog() -> Iterator[RestServer]:
    """Runs a catalog for the time of a block."""
    server = _Server(_Handler)
    server.known = RestServer(url=server.url)
    with serving(server):
        yield server.known
