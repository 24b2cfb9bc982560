"""HTTP/1.1 as far as a proxy needs it: where a head ends, and how long the body behind it is."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import FormatError
from lakehouse.testing.http_wire import Body, Request, Response, copy_body, read_head


def request(*headers: str) -> Request:
    """A request with these headers."""
    return Request.parse("\r\n".join(["PUT /b/k?x=1 HTTP/1.1", *headers, "", ""]).encode(), 1)


def response(status: int, *headers: str) -> Response:
    """An answer with these headers."""
    return Response.parse("\r\n".join([f"HTTP/1.1 {status} Some Words", *headers, "", ""]).encode())


def test_a_request_line_is_read() -> None:
    """Method, target and path come from the first line."""
    head = request()
    assert (head.method, head.target, head.path) == ("PUT", "/b/k?x=1", "/b/k")


def test_a_header_is_found_in_any_case() -> None:
    """Names have no case; a name inside another name or in a value is not meant."""
    head = request("x-if-match: no", "Note: if-match: no", "IF-Match:  yes ")
    assert head.header("if-match") == "yes"
    assert head.header("match") is None


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ((), 0),
        (("Content-Length: 12",), 12),
        (("content-length:0",), 0),
        (("Transfer-Encoding: Chunked",), "chunked"),
        (("Content-Length: 5", "Transfer-Encoding: gzip, chunked"), "chunked"),
    ],
)
def test_the_length_of_a_request_body(headers: tuple[str, ...], body: Body) -> None:
    """A request without a length has no body; chunks go before a length."""
    assert request(*headers).body == body


@pytest.mark.parametrize(
    ("method", "answer", "body"),
    [
        ("GET", response(200, "Content-Length: 7"), 7),
        ("GET", response(200, "Transfer-Encoding: chunked"), "chunked"),
        ("GET", response(200), "to-eof"),
        ("HEAD", response(200, "Content-Length: 7"), 0),
        ("DELETE", response(204), 0),
        ("GET", response(304, "Content-Length: 7"), 0),
    ],
)
def test_the_length_of_an_answer_body(method: str, answer: Response, body: Body) -> None:
    """It depends on the status and on what was asked; without a length it goes on to the end."""
    assert answer.body_to(method) == body


def test_who_closes_and_who_waits() -> None:
    """The headers that end a connection or hold a body back are seen."""
    assert request("Connection: Close").closes
    assert not request("Connection: keep-alive").closes
    assert Response.parse(b"HTTP/1.0 200 OK\r\n\r\n").closes
    assert request("Expect: 100-Continue").waits
    assert response(103).interim


@pytest.mark.parametrize("text", [b"HELO\r\n\r\n", b"GET /\r\n\r\n", b"\r\n\r\n"])
def test_what_is_no_request_is_refused(text: bytes) -> None:
    """A first line that is not of three words is not HTTP/1.1."""
    with pytest.raises(FormatError):
        Request.parse(text, 1)


@pytest.mark.parametrize("text", [b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 ok\r\n\r\n", b"SSH-2.0 200\r\n\r\n"])
def test_what_is_no_answer_is_refused(text: bytes) -> None:
    """A first line without a version and a status is not HTTP/1.1."""
    with pytest.raises(FormatError):
        Response.parse(text)


def test_a_length_that_is_no_number_is_refused() -> None:
    """A head that lies about its body cannot be passed on."""
    with pytest.raises(FormatError, match="'many'"):
        _ = request("Content-Length: many").body


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """``data`` cut at these places."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


async def copied(data: bytes, cuts: list[int], body: Body) -> tuple[bytes, bytes]:
    """What a copy of one body takes from a stream that arrives in pieces, and what it leaves."""
    reader = asyncio.StreamReader()
    taken: list[bytes] = []

    async def send(part: bytes) -> None:
        taken.append(part)

    async def feed() -> None:
        for piece in filter(None, pieces(data, cuts)):
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()

    async with asyncio.TaskGroup() as group:
        group.create_task(feed())
        group.create_task(copy_body(reader, body, send))
    return b"".join(taken), await reader.read()


CUTS = st.lists(st.integers(0, 10_000), max_size=8)
CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
TRAILERS = st.sampled_from([b"", b"x-checksum: abc\r\n", b"a: 1\r\nb: 2\r\n"])


@given(chunks=CHUNKS, trailers=TRAILERS, rest=st.binary(max_size=20), cuts=CUTS)
def test_a_chunked_body_is_copied_whole(
    chunks: list[bytes], trailers: bytes, rest: bytes, cuts: list[int]
) -> None:
    """However it arrives, a chunked body is copied byte for byte, and not a byte more."""
    body = b"".join(b"%x;s=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    body += b"0\r\n" + trailers + b"\r\n"
    assert asyncio.run(copied(body + rest, cuts, "chunked")) == (body, rest)


@given(body=st.binary(max_size=200), rest=st.binary(max_size=20), cuts=CUTS)
def test_a_body_of_known_length_is_copied_whole(body: bytes, rest: bytes, cuts: list[int]) -> None:
    """However it arrives, so many bytes are copied, and not a byte more."""
    assert asyncio.run(copied(body + rest, cuts, len(body))) == (body, rest)


@pytest.mark.parametrize(("data", "body"), [(b"abc", 4), (b"5\r\nab", "chunked"), (b"0\r\n", "chunked")])
async def test_a_body_cut_short_is_noticed(data: bytes, body: Body) -> None:
    """A connection that ends inside a body is an error, not the end of the body."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()

    async def send(part: bytes) -> None:
        pass

    with pytest.raises(asyncio.IncompleteReadError):
        await copy_body(reader, body, send)


@pytest.mark.parametrize("size", [b"zz", b"-5", b""])
async def test_a_chunk_size_that_is_no_number_is_refused(size: bytes) -> None:
    """A chunked body whose sizes cannot be read cannot be passed on."""
    reader = asyncio.StreamReader()
    reader.feed_data(size + b"\r\n")

    async def send(part: bytes) -> None:
        pass

    with pytest.raises(FormatError, match="not a length in base 16"):
        await copy_body(reader, "chunked", send)


async def test_the_end_between_messages_is_no_error() -> None:
    """A connection may end before a head; inside one it may not."""
    between, inside = asyncio.StreamReader(), asyncio.StreamReader()
    between.feed_eof()
    assert await read_head(between) is None
    inside.feed_data(b"GET / HTTP/1.1\r\n")
    inside.feed_eof()
    with pytest.raises(asyncio.IncompleteReadError):
        await read_head(inside)
