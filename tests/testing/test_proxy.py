"""The fault proxy: what passes is untouched, and each fault is exactly the one announced."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.testing import proxy as proxy_module
from lakehouse.testing.proxy import FaultProxy
from lakehouse.testing.proxy_rules import (
    Action,
    Answer,
    Delay,
    LoseAnswer,
    Pass,
    Reset,
    Rule,
    Throttle,
    Truncate,
    on,
    s3_error,
)
from tests.kit.raw_http import BIG, CHUNKED, Client, Origin, connect


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    """A store on loopback."""
    origin = Origin()
    server = await asyncio.start_server(origin.serve, "127.0.0.1", 0)
    async with server:
        origin.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield origin


@contextlib.asynccontextmanager
async def through(origin: Origin, *rules: Rule) -> AsyncIterator[tuple[FaultProxy, Client]]:
    """A proxy with these rules, and a connection through it."""
    async with FaultProxy(origin.url, rules=rules) as proxy, connect(proxy.url) as client:
        yield proxy, client


def every(action: Action) -> Rule:
    """Does it to every request."""
    return Rule(match=on(), action=action, times=None)


def once(action: Action) -> Rule:
    """Does it to the first request."""
    return Rule(match=on(), action=action)


def ok(body: bytes) -> bytes:
    """The origin's answer with that body."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


# ------------------------------------------------------------------ what passes


async def test_a_request_passes_unchanged(origin: Origin) -> None:
    """Head and body reach the store byte for byte, Host included, and its answer comes back so."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        assert await client.ask("PUT", "/a%20b?x=%2F", b"body", "X-Odd:  kept ") == ok(b"body")
    assert origin.heads == [
        b"PUT /a%20b?x=%2F HTTP/1.1\r\nhOst: signed.example\r\nX-Odd:  kept \r\nContent-Length: 4\r\n\r\n"
    ]
    assert origin.bodies == [b"body"]


@pytest.mark.parametrize("body", [b"", b"small", BIG], ids=["empty", "small", "big"])
async def test_bodies_of_any_size_pass(origin: Origin, body: bytes) -> None:
    """A body is passed whole in both directions, whether or not it fits a buffer."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        assert await client.ask("PUT", "/x", body) == ok(body)


async def test_chunked_bodies_pass_as_they_are(origin: Origin) -> None:
    """Chunk sizes, extensions and trailers are left alone in both directions."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        answer = await client.ask("PUT", "/chunked", CHUNKED, "Transfer-Encoding: chunked")
        assert answer.endswith(b"\r\n\r\n" + CHUNKED)
        assert await client.ask("GET", "/x") == ok(b"")
    assert origin.bodies == [CHUNKED, b""]


async def test_a_connection_carries_many_requests(origin: Origin) -> None:
    """Requests on one connection of the client use one connection to the store."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        for number in range(5):
            assert await client.ask("PUT", "/x", b"%d" % number) == ok(b"%d" % number)
        assert await client.ask("HEAD", "/big") == ok(BIG)[: -len(BIG)]
        assert await client.ask("GET", "/x") == ok(b"")
    assert origin.connections == 1


async def test_an_answer_that_ends_with_the_connection_passes(origin: Origin) -> None:
    """The client sees the end of a body that only the end of the connection tells."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        assert (await client.ask("GET", "/to-eof")).endswith(b"\r\n\r\nto the end")


async def test_a_client_that_waits_is_told_to_continue(origin: Origin) -> None:
    """The store's interim answer reaches the client before the body is sent."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        client.send("PUT", "/x", b"", "Content-Length: 4", "Expect: 100-continue")
        assert await client.answer() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.writer.write(b"late")
        assert await client.answer() == ok(b"late")
        assert await client.ask("GET", "/x") == ok(b"")


async def test_a_client_that_waits_may_be_refused(origin: Origin) -> None:
    """A refusal in place of the interim answer reaches the client, and the connection ends."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        client.send("PUT", "/refuse", b"", "Content-Length: 4", "Expect: 100-continue")
        assert (await client.answer()).endswith(b"no")
        assert await client.reader.read() == b""


async def test_requests_at_the_same_time_do_not_mix(origin: Origin) -> None:
    """Many connections get their own answers."""

    async def one(number: int) -> None:
        async with connect(proxy.url) as client:
            for _ in range(5):
                assert await client.ask("PUT", "/x", b"%d" % number) == ok(b"%d" % number)

    async with FaultProxy(origin.url) as proxy, asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(one(number))
    assert proxy.counts == {"PUT": 100}


async def test_a_store_that_hangs_up_is_passed_on(origin: Origin) -> None:
    """A connection that the store closes without an answer is closed for the client too."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        client.send("GET", "/hang-up")
        assert await client.reader.read() == b""
    assert [seen.status for seen in proxy.requests] == [None]


async def test_a_client_that_leaves_half_way_takes_its_request_along(origin: Origin) -> None:
    """A body cut short ends the connection to the store, which applies nothing."""
    async with FaultProxy(origin.url) as proxy:
        async with connect(proxy.url) as client:
            client.send("PUT", "/x", b"", f"Content-Length: {len(BIG)}")
            client.writer.write(BIG[:1000])
            await client.writer.drain()
        await asyncio.wait_for(origin.left.wait(), 10)
    assert origin.bodies == []
    assert [seen.status for seen in proxy.requests] == [None]


async def test_a_store_that_is_not_there_is_a_bad_gateway() -> None:
    """A client of a proxy without a store gets 502 and the reason."""
    async with FaultProxy("http://127.0.0.1:9") as proxy, connect(proxy.url) as client:
        answer = await client.ask("GET", "/x")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"no store here" in answer
    assert [seen.status for seen in proxy.requests] == [502]


async def test_what_is_not_http_is_dropped(origin: Origin) -> None:
    """A client that speaks something else is cut off and harms nobody else."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client, connect(proxy.url) as other:
        client.writer.write(b"HELO\r\n\r\n")
        assert await client.reader.read() == b""
        assert await other.ask("GET", "/x") == ok(b"")


def test_only_plain_http_can_be_proxied() -> None:
    """A store behind TLS is refused, because the proxy could not read its requests."""
    with pytest.raises(InvalidInputError, match="https://store"):
        FaultProxy("https://store")


# ------------------------------------------------------------------ what is hurt


async def test_a_reset_request_never_reaches_the_store(origin: Origin) -> None:
    """The client sees a reset, the store nothing."""
    async with through(origin, once(Reset())) as (proxy, client):
        with pytest.raises(ConnectionResetError):
            await client.ask("PUT", "/x", BIG)
    assert origin.heads == []
    assert [(seen.status, seen.action) for seen in proxy.requests] == [(None, Reset())]


async def test_a_lost_answer_was_applied(origin: Origin) -> None:
    """The store takes the request and answers in full; the client sees a reset."""
    async with through(origin, once(LoseAnswer())) as (proxy, client):
        with pytest.raises(ConnectionResetError):
            await client.ask("PUT", "/big", b"applied")
    assert origin.bodies == [b"applied"]
    assert [(seen.status, seen.action) for seen in proxy.requests] == [(200, LoseAnswer())]


async def test_an_injected_answer_comes_from_the_proxy(origin: Origin) -> None:
    """The client gets the answer given, the store nothing, and the connection goes on."""
    async with through(origin, once(s3_error(503, "SlowDown"))) as (proxy, client):
        answer = await client.ask("PUT", "/x", BIG)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"<Code>SlowDown</Code>" in answer
        assert await client.ask("PUT", "/x", b"again") == ok(b"again")
    assert origin.bodies == [b"again"]
    assert [seen.status for seen in proxy.requests] == [503, 200]


async def test_an_injected_answer_to_head_has_no_body(origin: Origin) -> None:
    """HEAD gets the length of the body and not the body, so the connection stays in step."""
    missing = Answer(status=404, body=b"gone", headers=(("x-amz-request-id", "1"),))
    async with through(origin, once(missing)) as (_, client):
        answer = await client.ask("HEAD", "/x")
        assert answer.endswith(b"Content-Length: 4\r\nx-amz-request-id: 1\r\n\r\n")
        assert await client.ask("GET", "/x") == ok(b"")


async def test_an_injected_answer_spares_a_waiting_client_its_body(origin: Origin) -> None:
    """A client that waits to be told to continue gets the answer at once."""
    async with through(origin, once(s3_error(409, "ConditionalRequestConflict"))) as (_, client):
        client.send("PUT", "/x", b"", "Content-Length: 4", "Expect: 100-continue")
        assert (await client.answer()).startswith(b"HTTP/1.1 409 ")
        assert await client.reader.read() == b""


@pytest.mark.parametrize("kept", [0, 10, 100_000])
async def test_a_truncated_answer_ends_early(origin: Origin, kept: int) -> None:
    """The head promises the whole body and so many bytes of it arrive, then the end."""
    async with through(origin, once(Truncate(body_bytes=kept))) as (_, client):
        client.send("GET", "/big")
        assert await client.reader.read() == ok(BIG)[: len(ok(BIG)) - len(BIG) + kept]


async def test_a_throttled_answer_takes_its_time(origin: Origin) -> None:
    """The body arrives whole, no faster than allowed."""
    async with through(origin, once(Throttle(bytes_per_s=len(BIG) * 5))) as (_, client):
        started = time.monotonic()
        assert await client.ask("GET", "/big") == ok(BIG)
        assert time.monotonic() - started >= 0.2


async def test_a_request_can_be_held_back(origin: Origin) -> None:
    """Before the wait is over the store has not seen the request."""
    async with through(origin, once(Delay(before_s=0.2))) as (_, client):
        client.send("GET", "/x")
        await asyncio.sleep(0.1)
        assert origin.heads == []
        assert await client.answer() == ok(b"")


async def test_an_answer_can_be_held_back(origin: Origin) -> None:
    """The store has applied the request long before the client hears of it."""
    async with through(origin, once(Delay(after_s=60))) as (_, client):
        client.send("PUT", "/x", b"applied")
        await asyncio.wait_for(origin.applied.wait(), 10)
        assert origin.bodies == [b"applied"]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.05)


# ------------------------------------------------------------------ whom rules choose


async def statuses(url: str, *requests: tuple[str, str]) -> list[int]:
    """Statuses of requests sent one after another."""
    async with connect(url) as client:
        answers = [await client.ask(method, path, b"", "Content-Length: 0") for method, path in requests]
    return [int(answer.split(b" ")[1]) for answer in answers]


async def test_a_rule_is_used_up(origin: Origin) -> None:
    """A rule is applied so many times and never again; without a number, every time."""
    twice = Rule(match=on("GET"), action=Answer(status=503), times=2)
    ever = Rule(match=on("PUT"), action=Answer(status=409), times=None)
    for _ in range(2):  # the rules themselves are values, and serve a second proxy
        async with FaultProxy(origin.url, rules=[twice, ever]) as proxy:
            assert await statuses(proxy.url, *[("GET", "/x")] * 4) == [503, 503, 200, 200]
            assert await statuses(proxy.url, *[("PUT", "/x")] * 4) == [409] * 4


async def test_the_first_rule_that_matches_wins(origin: Origin) -> None:
    """A rule that passes spares the first requests from the rule behind it."""
    rules = [
        Rule(match=on(), action=Pass(), times=2),
        Rule(match=on(), action=Answer(status=500)),
    ]
    async with FaultProxy(origin.url, rules=rules) as proxy:
        assert await statuses(proxy.url, *[("GET", "/x")] * 4) == [200, 200, 500, 200]


async def test_a_rule_can_be_added_later(origin: Origin) -> None:
    """A rule added to a running proxy is for the requests that follow."""
    async with FaultProxy(origin.url) as proxy:
        assert await statuses(proxy.url, ("GET", "/x")) == [200]
        proxy.add(Rule(match=on(), action=Answer(status=500)))
        assert await statuses(proxy.url, ("GET", "/x"), ("GET", "/x")) == [500, 200]


async def test_rules_choose_by_method_path_and_header(origin: Origin) -> None:
    """A request is chosen when all that is asked for holds: method, glob over the decoded path, header."""
    match = on("PUT", "/b/*/snapshot 1", header="If-None-Match")
    async with through(origin, Rule(match=match, action=Answer(status=500), times=None)) as (_, client):

        async def hit(method: str, path: str, *headers: str) -> bool:
            return b" 500 " in await client.ask(method, path, b"", "Content-Length: 0", *headers)

        assert await hit("PUT", "/b/t/snapshot%201?x=1", "if-none-match: *")
        assert not await hit("GET", "/b/t/snapshot%201", "if-none-match: *")
        assert not await hit("PUT", "/b/t/snapshot%202", "if-none-match: *")
        assert not await hit("PUT", "/b/t/snapshot%201")


async def test_a_rule_that_raises_fails_the_test(origin: Origin) -> None:
    """A mistake in a rule's own match comes out at the end of the block."""

    def match(request: object) -> bool:
        raise LookupError("a typing mistake")

    async def run() -> None:
        async with through(origin, Rule(match=match, action=Reset())) as (_, client):
            client.send("GET", "/x")
            assert await client.reader.read() == b""

    with pytest.raises(LookupError, match="a typing mistake"):
        await run()


# ------------------------------------------------------------------ what is noted


async def test_requests_are_noted_in_order_of_arrival(origin: Origin) -> None:
    """Method, target, range and status of every request can be asserted on."""
    async with FaultProxy(origin.url) as proxy, connect(proxy.url) as client:
        await client.ask("PUT", "/k?uploads", b"x")
        await client.ask("GET", "/k", b"", "Range: bytes=0-9")
        noted = [(seen.method, seen.target, seen.range, seen.status) for seen in proxy.requests]
        assert noted == [("PUT", "/k?uploads", None, 200), ("GET", "/k", "bytes=0-9", 200)]
        assert proxy.counts == {"PUT": 1, "GET": 1}
        proxy.forget()
        assert (proxy.requests, proxy.counts) == ([], {})


async def test_memory_of_requests_is_bounded(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest requests are forgotten one by one, and counted all the same."""
    monkeypatch.setattr(proxy_module, "SEEN_MAX", 2)
    async with FaultProxy(origin.url) as proxy:
        await statuses(proxy.url, ("GET", "/1"), ("GET", "/2"), ("GET", "/3"))
    assert [seen.target for seen in proxy.requests] == ["/2", "/3"]
    assert proxy.counts == {"GET": 3}


# ------------------------------------------------------------------ latency, and the end


async def test_every_request_waits(origin: Origin) -> None:
    """Latency is added to each request, on one connection too."""
    async with FaultProxy(origin.url, latency_ms=30) as proxy:
        started = time.monotonic()
        await statuses(proxy.url, *[("GET", "/x")] * 3)
        assert time.monotonic() - started >= 0.09


async def test_jitter_is_the_same_for_the_same_seed(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal seeds draw equal waits, all within the bound; another seed draws others."""
    sleep = asyncio.sleep

    async def waits(seed: int) -> list[float]:
        noted: list[float] = []

        async def note(seconds: float) -> None:
            noted.append(seconds)
            await sleep(0)

        monkeypatch.setattr(asyncio, "sleep", note)
        async with FaultProxy(origin.url, latency_ms=1, jitter_ms=50, seed=seed) as proxy:
            await statuses(proxy.url, *[("GET", "/x")] * 5)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        return noted

    first = await waits(7)
    assert first == await waits(7)
    assert first != await waits(8)
    assert all(0.001 <= wait < 0.051 for wait in first)


async def test_the_end_of_the_proxy_ends_its_connections(origin: Origin) -> None:
    """Leaving the block closes connections that are idle or wait, and the port."""
    proxy = FaultProxy(origin.url, rules=[every(Delay(after_s=60))])
    async with contextlib.AsyncExitStack() as clients:
        async with proxy:
            idle = await clients.enter_async_context(connect(proxy.url))
            waiting = await clients.enter_async_context(connect(proxy.url))
            waiting.send("GET", "/x")
            await asyncio.wait_for(origin.applied.wait(), 10)
        assert await idle.reader.read() == b""
        assert await waiting.reader.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await statuses(proxy.url, ("GET", "/x"))
