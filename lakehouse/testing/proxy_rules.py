"""Rules of :class:`~lakehouse.testing.proxy.FaultProxy`: what it does to a request, and to which ones.

Rules are values: the proxy counts how often each was applied, so one list of rules
serves any number of proxies.
"""

from __future__ import annotations

import fnmatch
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lakehouse.testing.http_wire import Request

__all__ = [
    "Action",
    "Answer",
    "Delay",
    "LoseAnswer",
    "Match",
    "Pass",
    "Reset",
    "Rule",
    "Strip",
    "Throttle",
    "Truncate",
    "on",
    "s3_error",
]

Match = Callable[[Request], bool]
"""Predicate that chooses the requests of a rule."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Passes the request on; before another rule, it spares the first few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Holds the request back, or the answer."""

    before_s: float = 0.0
    """Seconds before the request goes to the store."""
    after_s: float = 0.0
    """Seconds between the store's answer and the client seeing it."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Takes the request in and resets the connection; the store never sees it."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Lets the store answer in full, then resets the connection: it is done, but nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answers in place of the store, which never sees the request."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Passes the answer's head and the first bytes of its body, then closes."""

    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Passes the answer's body slowly."""

    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Passes the request on without some headers, signed again: a gateway that does not know them."""

    headers: tuple[str, ...] = ("if-match", "if-none-match")
    """Names of the headers, in lower case."""
    secrets: Mapping[str, str] = field(repr=False)
    """Secret keys by access key."""


Action = Pass | Delay | Reset | LoseAnswer | Answer | Truncate | Throttle | Strip
"""Things that can happen to a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Does ``action`` to the first ``times`` requests that ``match`` chooses."""

    match: Match
    action: Action
    times: int | None = 1
    """Number of requests that the rule is for; None = all of them."""


def on(method: str | None = None, path: str = "*", *, header: str | None = None) -> Match:
    """Chooses by method, by a glob over the decoded path (``/bucket/key``), by a header's presence."""

    def match(request: Request) -> bool:
        return (
            method in (None, request.method)
            and fnmatch.fnmatchcase(urllib.parse.unquote(request.path), path)
            and (header is None or request.header(header) is not None)
        )

    return match


def s3_error(status: int, code: str, message: str = "injected by the test") -> Answer:
    """Makes an S3 error, such as ``s3_error(503, "SlowDown")``."""
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{error}'
    return Answer(status=status, body=body.encode(), headers=(("Content-Type", "application/xml"),))
