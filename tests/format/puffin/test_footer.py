"""Puffin footers: read as upstream reads them, written as upstream writes them."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.puffin.footer import CREATED_BY, FILE_BYTES_MIN, MAGIC, BlobMeta, PuffinFooter
from lakehouse.format.puffin.lz4_frame import compress_lz4
from lakehouse.kernels.need_more import NeedMore
from tests.kit.blob_samples import GREPTIME, ICEBERG, footer_of, manifest, sample, spec_bytes, stored


def file_of(document: Any, *, blobs: bytes = b"", flags: int = 0) -> bytes:
    """A puffin file with any JSON for a footer."""
    payload = document if isinstance(document, bytes) else json.dumps(document).encode()
    return MAGIC + blobs + MAGIC + payload + struct.pack("<iI", len(payload), flags) + MAGIC


def entry(**keys: Any) -> dict[str, Any]:
    """A blob of a footer, one byte long."""
    return {"type": "t", "offset": 4, "length": 1, **{key.replace("_", "-"): keys[key] for key in keys}}


@pytest.mark.parametrize("name", GREPTIME)
def test_greptime_footers_are_read_as_upstream_reads_them(name: str) -> None:
    """Every sample of GreptimeDB's has the blobs and properties that its own reader finds."""
    expected = manifest()[f"{name}.puffin"]["upstream_read_back"]
    data = sample(name)
    assert len(data) == expected["file_size"]
    footer = footer_of(data)
    known = ("type", "fields", "snapshot-id", "sequence-number", "offset", "length", "properties")
    for blob, wanted in zip(footer.blobs, expected["blobs"], strict=True):
        found = blob.to_json()
        assert {key: found[key] for key in found if key in known} == {
            key: wanted[key] for key in wanted if key in known
        }
    assert footer.properties == expected["file_properties"]


@pytest.mark.parametrize("name", [*GREPTIME, *ICEBERG])
def test_footers_are_written_as_they_were(name: str) -> None:
    """Encoding the footer of a sample gives its bytes back, LZ4 frame without end mark included."""
    data = sample(name)
    footer = footer_of(data)
    end_of_blobs = max([blob.end for blob in footer.blobs], default=len(MAGIC))
    assert footer.encode() == data[end_of_blobs:]


@pytest.mark.parametrize("name", ICEBERG[1:])
def test_iceberg_blobs_are_read(name: str) -> None:
    """Both of Iceberg's files give the same blobs, compressed or not."""
    data = sample(name)
    footer = footer_of(data)
    first, second = (blob.decompress(stored(data, blob)) for blob in footer.blobs)
    assert first == b"abcdefghi"
    assert len(second) == 83
    assert [(b.type, b.fields, b.snapshot_id, b.sequence_number) for b in footer.blobs] == [
        ("some-blob", (1,), 2, 1),
        ("some-other-blob", (2,), 2, 1),
    ]
    assert footer.properties == {CREATED_BY: "Test 1234"}


def test_greptime_zstd_blobs_are_read() -> None:
    """A zstd frame without a content size decompresses."""
    data = sample("zstd-blob")
    (blob,) = footer_of(data).blobs
    assert blob.codec == "zstd"
    assert blob.decompress(stored(data, blob)) == b"".join(b"line %d\n" % (i % 13) for i in range(5000))


def test_the_example_of_the_specification_is_true() -> None:
    """The file drawn in the specification is read, and its footer written again."""
    data = spec_bytes("puffin.md", "file")
    footer = footer_of(data)
    assert footer.encode() == data[7:]
    assert footer == PuffinFooter(
        blobs=(BlobMeta(type="note", offset=4, length=3, properties={"k": "v"}),),
        properties={CREATED_BY: "me"},
    )


def test_the_lz4_example_of_the_specification_is_true() -> None:
    """The LZ4 footer drawn in the specification is read, and written again."""
    data = spec_bytes("puffin.md", "lz4-footer")
    assert data == sample("empty-lz4-footer")[13:]


@pytest.mark.parametrize("name", [*GREPTIME, *ICEBERG])
@pytest.mark.parametrize("strict", [False, True])
def test_a_short_tail_asks_for_exactly_what_is_missing(name: str, strict: bool) -> None:
    """Whatever tail there is, at most two further reads lead to the footer, and the last is exact."""
    data = sample(name)
    payload = int.from_bytes(data[-12:-8], "little")
    needed = payload + 12 + (4 if strict else 0)
    for length in range(len(data)):
        found = PuffinFooter.parse(data[len(data) - length :], len(data), strict=strict)
        if length >= needed:
            assert found == footer_of(data)
        else:
            wanted = 12 if length < 12 else needed
            assert found == NeedMore(start=len(data) - wanted, end=len(data))


def test_the_first_blob_of_a_type_is_found() -> None:
    """Files may have a type twice: all blobs are listed, and lookup takes the first."""
    data = file_of({"blobs": [entry(), entry(offset=5), entry(type="u", offset=6)]}, blobs=b"abc")
    footer = footer_of(data)
    assert [blob.type for blob in footer.blobs] == ["t", "t", "u"]
    assert footer.find("t") == footer.blobs[0]
    assert footer.find("nothing") is None


def test_missing_keys_have_defaults() -> None:
    """Fields, snapshot and sequence number may be left out, and a codec may be null."""
    (blob,) = footer_of(file_of({"blobs": [entry(compression_codec=None)]}, blobs=b"a")).blobs
    assert blob == BlobMeta(type="t", offset=4, length=1)


def test_unknown_keys_survive() -> None:
    """Keys that no specification names are kept and written again."""
    document = {"blobs": [entry(colour=[1, {"x": None}])], "properties": {"a": "b"}, "zone": 1.5}
    footer = footer_of(file_of(document, blobs=b"a"))
    assert footer.extra == {"zone": 1.5}
    assert footer.blobs[0].extra == {"colour": [1, {"x": None}]}
    again = footer_of(MAGIC + b"a" + footer.encode())
    assert again == footer


def test_unknown_flags_are_ignored() -> None:
    """Only the lowest flag means something."""
    assert footer_of(file_of({"blobs": []}, flags=0xFFFFFFFE)) == PuffinFooter()


@pytest.mark.parametrize("finished", [True, False])
def test_lz4_footers_may_be_finished_or_not(finished: bool) -> None:
    """An LZ4 payload is read with end mark and content size, and without both."""
    payload = compress_lz4(json.dumps({"blobs": [entry()], "pad": "x" * 200_000}).encode(), finished=finished)
    footer = footer_of(file_of(payload, blobs=b"a", flags=1))
    assert footer.lz4
    assert footer.blobs[0].type == "t"


def test_an_unknown_codec_costs_only_its_blob() -> None:
    """A codec that nobody knows is reported by the blob it belongs to, when that is read."""
    data = file_of({"blobs": [entry(compression_codec="brotli"), entry(offset=5)]}, blobs=b"ab")
    footer = footer_of(data)
    with pytest.raises(FormatError, match="brotli") as caught:
        footer.blobs[0].decompress(b"a")
    assert caught.value.context["type"] == "t"
    assert footer.blobs[1].decompress(b"b") == b"b"


def test_empty_blobs_may_be_anywhere() -> None:
    """A blob without bytes overlaps nothing."""
    data = file_of(
        {"blobs": [entry(length=3), entry(offset=5, length=0), entry(offset=7, length=0)]}, blobs=b"abc"
    )
    assert [blob.length for blob in footer_of(data).blobs] == [3, 0, 0]


def test_overlapping_blobs_are_refused_by_name() -> None:
    """Blobs that share bytes are refused, and both are named."""
    blobs = [entry(type="one", length=3), entry(type="two", offset=8), entry(type="three", offset=6)]
    with pytest.raises(CorruptionError, match=r"0 \('one'.*2 \('three'"):
        footer_of(file_of({"blobs": blobs}, blobs=b"abcdef"))


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"offset": 3}, "within"),
        ({"offset": -1}, "within"),
        ({"length": -1}, "within"),
        ({"length": 2}, "within"),
        ({"length": 2**63 - 1}, "within"),
        ({"offset": 2**63}, "within"),
        ({"offset": 10**5000}, "JSON"),
        ({"length": 1.0}, "length"),
        ({"length": True}, "length"),
        ({"length": "1"}, "length"),
        ({"length": None}, "length"),
        ({"type": 1}, "type"),
        ({"fields": None}, "fields"),
        ({"fields": [2**31]}, "fields"),
        ({"fields": ["1"]}, "fields"),
        ({"snapshot_id": 2**63}, "snapshot-id"),
        ({"sequence_number": "1"}, "sequence-number"),
        ({"compression_codec": 1}, "compression-codec"),
        ({"properties": None}, "properties"),
        ({"properties": {"a": 1}}, "'a'"),
    ],
)
def test_bad_entries_are_refused_by_name(keys: dict[str, Any], problem: str) -> None:
    """A blob entry with a value of the wrong type or range is refused, and the error says which."""
    bad = {**entry(), **{key.replace("_", "-"): value for key, value in keys.items()}}
    text = json.dumps({"blobs": [entry(length=0), bad]}, default=str) if keys != {"offset": 10**5000} else ""
    payload = (text or '{"blobs":[{"type":"t","length":0,"offset":1' + "0" * 5000 + "}]}").encode()
    with pytest.raises(CorruptionError, match=problem) as caught:
        footer_of(file_of(payload, blobs=b"a"))
    if problem != "JSON":
        assert caught.value.context["blob"] == 1


@pytest.mark.parametrize("key", ["type", "offset", "length"])
def test_mandatory_keys_are_missed(key: str) -> None:
    """A blob without type, offset or length is refused."""
    bad = entry()
    del bad[key]
    with pytest.raises(CorruptionError, match=f"has no '{key}'"):
        footer_of(file_of({"blobs": [bad]}, blobs=b"a"))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b'{"blobs":{}}',
        b'{"blobs":[1]}',
        b'{"blobs":[]',
        b'{"blobs":[]}}',
        b'\xef\xbb\xbf{"blobs":[]}',
        '{"blobs":[]}'.encode("utf-16"),
        b'{"blobs":[],"x":NaN}',
        b'{"blobs":[],"x":-Infinity}',
        b'{"blobs":[],"x":1e999}',
        b'{"blobs":[],"x":"\\ud800"}',
        b'{"blobs":[],"x":"\xff"}',
        b'{"blobs":[],"properties":[]}',
        b'{"blobs":' + b"[" * 100_000,
    ],
)
def test_payloads_that_are_no_footer_are_refused(payload: bytes) -> None:
    """Text that is no JSON, or JSON that is no footer, is refused."""
    with pytest.raises(CorruptionError):
        footer_of(file_of(payload))


def test_files_too_small_are_refused() -> None:
    """Nothing under 20 bytes is a puffin file."""
    for size in range(FILE_BYTES_MIN):
        with pytest.raises(CorruptionError, match="too small"):
            PuffinFooter.parse(b"PFA1" * 5, size) if size >= 20 else PuffinFooter.parse(b"x" * size, size)


def test_the_last_magic_is_checked() -> None:
    """A file that does not end in the magic is no puffin file."""
    with pytest.raises(CorruptionError, match="not a puffin file"):
        footer_of(sample("empty")[:-1] + b"2")


@pytest.mark.parametrize("at", [0, 4])
def test_the_other_magics_are_checked_when_asked_for(at: int) -> None:
    """The magic before the blobs and the one before the payload matter to strict readers only."""
    data = bytearray(sample("empty"))
    data[at : at + 4] = b"XXXX"
    assert footer_of(bytes(data)) == PuffinFooter()
    with pytest.raises(CorruptionError, match="magic") as caught:
        PuffinFooter.parse(bytes(data), len(data), strict=True)
    assert caught.value.context["offset"] == at


@pytest.mark.parametrize("size", [-1, 13, 2**31 - 1, -(2**31)])
def test_impossible_payload_sizes_are_refused(size: int) -> None:
    """A payload that would begin before the footer can is refused."""
    data = bytearray(sample("empty"))
    data[-12:-8] = struct.pack("<i", size)
    with pytest.raises(CorruptionError, match="payload size"):
        footer_of(bytes(data))


def test_long_footers_are_refused_before_they_are_read() -> None:
    """A payload beyond the caller's limit is refused from the last bytes alone."""
    data = sample("bloom-one")
    with pytest.raises(CorruptionError, match="limit"):
        PuffinFooter.parse(data[-12:], len(data), max_bytes=100)


def test_footers_that_inflate_too_far_are_refused() -> None:
    """A small LZ4 payload that decompresses beyond the limit is given up."""
    payload = compress_lz4(b'{"blobs":[]}' + b" " * 10_000_000, finished=False)
    data = file_of(payload, flags=1)
    with pytest.raises(FormatError, match="more than 1000000 bytes"):
        PuffinFooter.parse(data, len(data), max_bytes=1_000_000)


def test_a_tail_longer_than_the_file_is_a_mistake_of_the_caller() -> None:
    """Tail and size that do not belong together are refused."""
    with pytest.raises(InvalidInputError, match="tail"):
        PuffinFooter.parse(sample("empty"), 31)


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "\ud800"])
def test_footers_that_are_no_json_are_not_written(value: Any) -> None:
    """A value JSON cannot hold is the caller's mistake."""
    with pytest.raises(InvalidInputError, match="JSON"):
        PuffinFooter(extra={"x": value}).encode()


def test_a_blob_wants_all_its_bytes() -> None:
    """Decompressing part of a blob is a mistake of the caller."""
    with pytest.raises(InvalidInputError, match="pass all"):
        BlobMeta(type="t", offset=4, length=3).decompress(b"ab")


texts = st.text(st.characters(codec="utf-8"), max_size=12)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
extras = st.dictionaries(texts.map(lambda key: f"x{key}"), json_values, max_size=3)


@st.composite
def footers(draw: st.DrawFn) -> tuple[PuffinFooter, int]:
    """A footer and where its blobs end."""
    end = 4
    blobs = []
    for length in draw(st.lists(st.integers(0, 2**40), max_size=5)):
        blobs.append(
            BlobMeta(
                type=draw(texts),
                offset=end,
                length=length,
                fields=tuple(draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3))),
                snapshot_id=draw(st.integers(-(2**63), 2**63 - 1)),
                sequence_number=draw(st.integers(-(2**63), 2**63 - 1)),
                codec=draw(st.none() | st.sampled_from(["lz4", "zstd"]) | texts),
                properties=draw(st.dictionaries(texts, texts, max_size=3)),
                extra=draw(extras),
            )
        )
        end += length
    footer = PuffinFooter(
        blobs=tuple(draw(st.permutations(blobs))),
        properties=draw(st.dictionaries(texts, texts, max_size=3)),
        extra=draw(extras),
        lz4=draw(st.booleans()),
    )
    return footer, end


@settings(max_examples=150, deadline=None)
@given(footers())
def test_what_is_encoded_is_parsed(made: tuple[PuffinFooter, int]) -> None:
    """Any footer comes back from its bytes with nothing lost."""
    footer, end = made
    tail = footer.encode()
    assert PuffinFooter.parse(tail, end + len(tail), strict=True) == footer
