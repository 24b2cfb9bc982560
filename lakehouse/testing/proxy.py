"""A proxy on loopback that hurts chosen HTTP requests on their way to a real store.

What a faulty network does to a client is shown best with a real client, a real server
and a real connection between them: a reset after the write was applied, an answer cut
short, a store that asks to slow down. Requests that no rule chooses pass unchanged,
``Host`` and signatures included.

::

    lost = Rule(match=on("PUT", "*/snapshot/*"), action=LoseAnswer())
    async with FaultProxy(server.endpoint_url, rules=[lost]) as proxy:
        ...                                                 # a client of proxy.url
    assert [seen.status for seen in proxy.requests] == [200, 412]

:func:`proxy_thread` runs one beside synchronous code, :func:`proxy_process` one that
takes no time from the interpreter of the client it slows down.

No connection, task or process of a proxy outlives its block.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import struct
import subprocess
import sys
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio.from_thread

from lakehouse.errors import FormatError, InvalidInputError, UnavailableError
from lakehouse.log import get_logger
from lakehouse.testing.http_wire import BUFFER_BYTES, Body, Request, Response, Send, copy_body, read_head
from lakehouse.testing.proxy_rules import (
    Action,
    Answer,
    Delay,
    LoseAnswer,
    Pass,
    Reset,
    Rule,
    Strip,
    Throttle,
    Truncate,
)
from lakehouse.testing.sigv4 import without_headers

__all__ = ["SEEN_MAX", "FaultProxy", "ProxyProcess", "Seen", "proxy_process", "proxy_thread"]

SEEN_MAX = 100_000
"""Requests a proxy remembers one by one; it forgets the oldest and goes on counting."""

_SMALL_BODY_BYTES = 64 * 1024
_THROTTLE_PIECE_BYTES = 16 * 1024
_BACKLOG = 1024
_OWNER_POLL_S = 1.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
# What ends a connection: it broke, it ended inside a message, or it does not speak HTTP/1.1.
_BROKEN = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, FormatError)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request that came by."""

    number: int
    method: str
    target: str
    """Path and query, as sent."""
    range: str | None
    """``Range`` header of the request; None = it had none."""
    status: int | None = None
    """Status of the answer, be it to the proxy alone; None = there is none (yet)."""
    action: Action
    """Action that was taken on the request."""


@dataclass(slots=True)
class _Armed:
    """A rule, and how often it can still be applied; None = always."""

    rule: Rule
    left: int | None


class _Link:
    """One client connection and the connection to the store that belongs to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.up_reader: asyncio.StreamReader | None = None
        self.up_writer: asyncio.StreamWriter | None = None

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Returns the connection to the store, opened anew when the store has closed it."""
        if self.up_reader is None or self.up_writer is None or self.up_reader.at_eof():
            if self.up_writer is not None:
                self.up_writer.transport.abort()
            self.up_reader, self.up_writer = await asyncio.open_connection(host, port, limit=BUFFER_BYTES)
        return self.up_reader, self.up_writer

    async def close(self) -> None:
        """Closes both connections once everything written has gone out."""
        for writer in filter(None, (self.writer, self.up_writer)):
            writer.close()
            await writer.wait_closed()

    def abort(self) -> None:
        """Closes both connections at once."""
        for writer in filter(None, (self.writer, self.up_writer)):
            writer.transport.abort()

    def reset(self) -> None:
        """Makes the client see a reset instead of an orderly end."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.abort()


class FaultProxy:
    """Listens on a free port of 127.0.0.1 inside ``async with``; see the module.

    Args:
        upstream_url: ``http://host:port`` of the store. Clients sign for the proxy's own
            address, and the store checks the ``Host`` header it receives, which is the same.
        rules: the first that matches and is not used up is applied.
        latency_ms: every request waits so long before it is passed on.
        jitter_ms: and further, drawn evenly from [0, jitter_ms) for each request.
        seed: of the jitter; equal seeds draw the same waits in order of arrival.
    """

    def __init__(
        self,
        upstream_url: str,
        *,
        rules: Iterable[Rule] = (),
        latency_ms: float = 0.0,
        jitter_ms: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._upstream = _address(upstream_url)
        self._armed: list[_Armed] = []
        self._latency_s = latency_ms / 1000
        self._jitter_s = jitter_ms / 1000
        self._random = random.Random(seed)
        self._number = 0
        self._seen: dict[int, Seen] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self.counts: Counter[str] = Counter()
        """Number of requests by method."""
        self.url = ""
        """URL that clients connect to; empty until the proxy runs."""
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule) -> None:
        """Adds a rule behind the others."""
        self._armed.append(_Armed(rule, rule.times))

    @property
    def requests(self) -> list[Seen]:
        """Requests in order of arrival, the last :data:`SEEN_MAX` of them."""
        return list(self._seen.values())

    def forget(self) -> None:
        """Drops what was seen and counted so far, not the rules."""
        self._seen.clear()
        self.counts.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, limit=BUFFER_BYTES, backlog=_BACKLOG
        )
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._server.wait_closed()
        if self._failures and error is None:
            # A rule's own match raised: the test must not pass for it.
            raise self._failures[0]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(_Link(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.append(error)

    async def _serve(self, link: _Link) -> None:
        try:
            while (head := await read_head(link.reader)) is not None:
                self._number += 1
                request = Request.parse(head, self._number)
                if not await self._exchange(link, request):
                    break
            await link.close()
        except _BROKEN as error:
            log.debug("connection dropped", error=repr(error))
        finally:
            link.abort()

    async def _exchange(self, link: _Link, request: Request) -> bool:
        """Serves one request; returns whether the connection can carry another."""
        action = self._choose(request)
        self._remember(request, action)
        if self._latency_s or self._jitter_s:
            await asyncio.sleep(self._latency_s + self._random.random() * self._jitter_s)
        if not isinstance(action, Reset | Answer):
            return await self._forward(link, request, action)
        # The body has to be out of the way before the next request; one that waits has sent none.
        if not request.waits:
            await copy_body(link.reader, request.body, _discard)
        if isinstance(action, Reset):
            link.reset()
            return False
        self._answered(request, action.status)
        return await _answer(link.writer, request, action)

    def _choose(self, request: Request) -> Action:
        for armed in self._armed:
            if armed.left != 0 and armed.rule.match(request):
                if armed.left is not None:
                    armed.left -= 1
                return armed.rule.action
        return Pass()

    def _remember(self, request: Request, action: Action) -> None:
        self.counts[request.method] += 1
        self._seen[request.number] = Seen(
            number=request.number,
            method=request.method,
            target=request.target,
            range=request.header("range"),
            action=action,
        )
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]

    def _answered(self, request: Request, status: int) -> None:
        if request.number in self._seen:
            self._seen[request.number] = replace(self._seen[request.number], status=status)

    async def _forward(self, link: _Link, request: Request, action: Action) -> bool:
        """Passes the request on and the answer back, unless ``action`` has other plans for it."""
        if isinstance(action, Delay):
            await asyncio.sleep(action.before_s)
        try:
            up_reader, up_writer = await link.connect(*self._upstream)
        except OSError as error:
            self._answered(request, 502)
            await _answer(link.writer, request, Answer(status=502, body=f"no store here: {error}".encode()))
            return False
        body = request.body
        head = request.raw
        if isinstance(action, Strip):
            head = without_headers(request, action.headers, action.secrets)
        upload: asyncio.Task[None] | None = None
        if isinstance(body, int) and body <= _SMALL_BODY_BYTES and not request.waits:
            up_writer.write(head + await link.reader.readexactly(body))
        else:
            # Beside the answer: the store may tell the client to continue, or refuse half way.
            up_writer.write(head)
            upload = asyncio.get_running_loop().create_task(_upload(link.reader, body, up_writer))
        try:
            continued = not request.waits
            while (response := await _read_response(up_reader)).interim:
                continued = continued or response.status == 100
                link.writer.write(response.raw)
            self._answered(request, response.status)
            reusable = await _give_back(link, up_reader, request, response, action)
            if upload is not None and reusable:
                if not continued:
                    return False  # the client was never asked for its body, which may still come
                await upload
            return reusable
        finally:
            if upload is not None:
                upload.cancel()
                await asyncio.wait([upload])


def _address(url: str) -> tuple[str, int]:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise InvalidInputError(f"{url!r} cannot be proxied: only plain http:// is spoken here")
    return parts.hostname, parts.port or 80


async def _upload(reader: asyncio.StreamReader, body: Body, up_writer: asyncio.StreamWriter) -> None:
    try:
        await copy_body(reader, body, _sender(up_writer))
    except _BROKEN:
        # Whoever waits for the answer to this request learns of it by the end of the connection.
        up_writer.transport.abort()


async def _read_response(up_reader: asyncio.StreamReader) -> Response:
    head = await read_head(up_reader)
    if head is None:
        raise ConnectionResetError("the store closed the connection without an answer")
    return Response.parse(head)


async def _give_back(
    link: _Link, up_reader: asyncio.StreamReader, request: Request, response: Response, action: Action
) -> bool:
    """Copies the answer to the client as ``action`` says; returns whether the connection goes on."""
    body = response.body_to(request.method)
    writer = link.writer
    if isinstance(action, LoseAnswer):
        await copy_body(up_reader, body, _discard)
        link.reset()
        return False
    if isinstance(action, Delay):
        await asyncio.sleep(action.after_s)
    if isinstance(action, Truncate):
        writer.write(response.raw)
        await copy_body(up_reader, body, _first_sender(writer, action.body_bytes))
        return False
    if isinstance(action, Throttle):
        writer.write(response.raw)
        await copy_body(up_reader, body, _slow_sender(writer, action.bytes_per_s))
    elif isinstance(body, int) and body <= _SMALL_BODY_BYTES:
        # One write: most answers are small, and a system call costs more than joining the two.
        writer.write(response.raw + await up_reader.readexactly(body))
        await writer.drain()
    else:
        writer.write(response.raw)
        await copy_body(up_reader, body, _sender(writer))
    return body != "to-eof" and not response.closes and not request.closes


async def _answer(writer: asyncio.StreamWriter, request: Request, action: Answer) -> bool:
    # A client that waits for leave to continue gets its answer instead, and no second request.
    keep = not request.waits and not request.closes
    lines = [f"HTTP/1.1 {action.status} Injected", f"Content-Length: {len(action.body)}"]
    lines += [f"{name}: {value}" for name, value in action.headers]
    lines += [] if keep else ["Connection: close"]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    writer.write(head if request.method == "HEAD" else head + action.body)
    await writer.drain()
    return keep


async def _discard(data: bytes) -> None:
    pass


def _sender(writer: asyncio.StreamWriter) -> Send:
    async def send(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return send


def _slow_sender(writer: asyncio.StreamWriter, bytes_per_s: float) -> Send:
    send = _sender(writer)

    async def send_slowly(data: bytes) -> None:
        for start in range(0, len(data), _THROTTLE_PIECE_BYTES):
            piece = data[start : start + _THROTTLE_PIECE_BYTES]
            await asyncio.sleep(len(piece) / bytes_per_s)
            await send(piece)

    return send_slowly


def _first_sender(writer: asyncio.StreamWriter, left: int) -> Send:
    async def send_first(data: bytes) -> None:
        nonlocal left
        writer.write(data[:left])
        left -= min(left, len(data))
        await writer.drain()

    return send_first


# ------------------------------------------------------------------ beside synchronous code


@contextlib.contextmanager
def proxy_thread(
    upstream_url: str,
    *,
    rules: Iterable[Rule] = (),
    latency_ms: float = 0.0,
    jitter_ms: float = 0.0,
    seed: int = 0,
) -> Iterator[FaultProxy]:
    """Runs a :class:`FaultProxy` on an event loop of its own, in a thread."""
    proxy = FaultProxy(upstream_url, rules=rules, latency_ms=latency_ms, jitter_ms=jitter_ms, seed=seed)
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(proxy):
        yield proxy


class ProxyProcess:
    """A proxy that runs in another process; it has latency, and no rules."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.url = str(self._read())
        """URL that clients connect to."""

    def counts(self) -> dict[str, int]:
        """Requests by method, since the start."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"counts\n")
        self._process.stdin.flush()
        counts: dict[str, int] = self._read()
        return counts

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UnavailableError(f"the proxy's process ended with status {self._process.wait()}")
        return json.loads(line)


@contextlib.contextmanager
def proxy_process(
    upstream_url: str, *, latency_ms: float = 0.0, jitter_ms: float = 0.0, seed: int = 0
) -> Iterator[ProxyProcess]:
    """Starts a proxy in a process of its own, which ends with the block, or with this process."""
    _address(upstream_url)
    options = {"latency_ms": latency_ms, "jitter_ms": jitter_ms, "seed": seed}
    plan = {"owner": os.getpid(), "upstream_url": upstream_url, "options": options}
    roots = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(  # noqa: S603
        # -P: this file's directory is a package, not a place to import top-level modules from.
        [sys.executable, "-P", __file__, json.dumps(plan)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, roots))},
        start_new_session=True,
    )
    with process:
        try:
            yield ProxyProcess(process)
        finally:
            process.terminate()


async def _run_beside(plan: Mapping[str, Any]) -> None:
    """Runs the other process: prints the URL, then answers each line with the counts until its owner ends."""
    questions = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(questions)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    async with FaultProxy(plan["upstream_url"], **plan["options"]) as proxy:
        print(json.dumps(proxy.url), flush=True)  # noqa: T201
        # A fork of the owner keeps the pipe open after the owner's end: its id is watched as well.
        while os.getppid() == plan["owner"]:
            try:
                line = await asyncio.wait_for(questions.readline(), _OWNER_POLL_S)
            except TimeoutError:
                continue
            if not line:
                return
            print(json.dumps(proxy.counts), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(_run_beside(json.loads(sys.argv[1])))
