"""Writing puffin files piece by piece."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.puffin import PuffinFile

from lakehouse.errors import InvalidInputError
from lakehouse.format.puffin.builder import PuffinBuilder
from lakehouse.format.puffin.footer import CREATED_BY, BlobMeta
from tests.kit.blob_samples import footer_of, sample, spec_bytes, stored


def built(builder: PuffinBuilder, *chunks: tuple[bytes | memoryview, ...]) -> bytes:
    """The whole file."""
    return b"".join([b"".join(one) for one in chunks]) + builder.finish()


def test_an_empty_file_is_upstreams() -> None:
    """Without blobs the file is the one GreptimeDB and Iceberg write."""
    assert built(PuffinBuilder()) == sample("empty") == sample("empty-puffin-uncompressed")


def test_a_bloom_file_is_upstreams() -> None:
    """With GreptimeDB's blob the file is GreptimeDB's."""
    blob = sample("bloom-one")[4:508]
    builder = PuffinBuilder()
    assert built(builder, builder.add("greptime-bloom-filter-v1-3", blob)) == sample("bloom-one")


def test_an_lz4_footer_is_upstreams() -> None:
    """With an LZ4 footer the file is GreptimeDB's, where the payload does not compress."""
    builder = PuffinBuilder(lz4_footer=True)
    assert built(builder, builder.add("some-blob", b"abcdefghi")) == sample("empty-lz4-footer")


def test_an_iceberg_file_is_icebergs() -> None:
    """With Iceberg's facts the uncompressed file is Iceberg's."""
    data = sample("sample-metric-data-uncompressed")
    builder = PuffinBuilder(properties={CREATED_BY: "Test 1234"})
    parts = [
        builder.add(b.type, stored(data, b), fields=b.fields, snapshot_id=2, sequence_number=1)
        for b in footer_of(data).blobs
    ]
    assert built(builder, *parts) == data


def test_the_example_of_the_specification_is_written() -> None:
    """The file drawn in the specification is what its blob and properties give."""
    builder = PuffinBuilder(properties={CREATED_BY: "me"})
    assert built(builder, builder.add("note", b"abc", properties={"k": "v"})) == spec_bytes(
        "puffin.md", "file"
    )


def test_the_size_is_that_of_the_file() -> None:
    """At every step the builder knows how many bytes it has handed out."""
    builder = PuffinBuilder()
    data = b""
    for step in (
        lambda: builder.add("a", b"12"),
        lambda: builder.add("b", b""),
        lambda: (builder.finish(),),
    ):
        data += b"".join(step())
        assert builder.size == len(data)


def test_a_type_is_added_once() -> None:
    """A type that is there already is refused, as upstream refuses it."""
    builder = PuffinBuilder()
    builder.add("a", b"1")
    with pytest.raises(InvalidInputError, match="'a'"):
        builder.add("a", b"2")


def test_types_may_repeat_when_asked_for() -> None:
    """Iceberg's files have one type many times."""
    builder = PuffinBuilder(allow_duplicates=True)
    data = built(builder, builder.add("a", b"1"), builder.add("a", b"2"))
    assert [stored(data, blob) for blob in footer_of(data).blobs] == [b"1", b"2"]


def test_an_unknown_codec_is_refused() -> None:
    """A codec puffin does not know is the caller's mistake, and nothing is added."""
    builder = PuffinBuilder()
    with pytest.raises(InvalidInputError, match="gzip"):
        builder.add("a", b"1", codec="gzip")
    assert built(builder) == sample("empty")


@pytest.mark.parametrize(
    "facts",
    [{"snapshot_id": 2**63}, {"sequence_number": 1.5}, {"fields": (2**31,)}, {"properties": {"a": 1}}],
)
def test_blobs_nobody_would_read_are_refused(facts: dict[str, Any]) -> None:
    """Facts that a footer cannot hold are refused when the blob is added, and nothing is."""
    builder = PuffinBuilder()
    with pytest.raises(InvalidInputError, match="no reader"):
        builder.add("a", b"1", **facts)
    assert built(builder) == sample("empty")


def test_a_finished_file_takes_nothing_more() -> None:
    """After the footer there is nothing to add and nothing to finish."""
    builder = PuffinBuilder()
    builder.finish()
    with pytest.raises(InvalidInputError, match="finished"):
        builder.add("a", b"1")
    with pytest.raises(InvalidInputError, match="finished"):
        builder.finish()


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=8),
        st.tuples(st.binary(max_size=300), st.sampled_from([None, "zstd"])),
        max_size=4,
    ),
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=8), st.text(max_size=8).filter(str.isascii)
    ),
)
def test_pyiceberg_reads_our_files(
    blobs: dict[str, tuple[bytes, str | None]], properties: dict[str, str]
) -> None:
    """pyiceberg's reader finds our blobs, raw and zstd, and our properties."""
    builder = PuffinBuilder(properties=properties)
    parts = [
        builder.add(
            kind, data, codec=codec, fields=(1,), snapshot_id=5, sequence_number=6, properties={"a": "b"}
        )
        for kind, (data, codec) in blobs.items()
    ]
    theirs = PuffinFile(built(builder, *parts))
    assert theirs.footer.properties == properties
    found = {blob.type: theirs.get_blob_payload(blob) for blob in theirs.footer.blobs}
    assert found == {kind: data for kind, (data, _) in blobs.items()}
    assert all((b.fields, b.snapshot_id, b.sequence_number) == ([1], 5, 6) for b in theirs.footer.blobs)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.binary(max_size=5000), st.sampled_from([None, "zstd", "lz4"])), max_size=5),
    st.booleans(),
)
def test_what_is_added_is_read(blobs: list[tuple[bytes, str | None]], lz4: bool) -> None:
    """Every blob comes back from the finished file, whatever codec and footer."""
    builder = PuffinBuilder(lz4_footer=lz4)
    parts = [builder.add(f"t{i}", data, codec=codec) for i, (data, codec) in enumerate(blobs)]
    data = built(builder, *parts)
    found = footer_of(data).blobs
    assert [blob.decompress(stored(data, blob)) for blob in found] == [content for content, _ in blobs]
    assert builder.footer.blobs == found
    assert all(isinstance(blob, BlobMeta) for blob in found)
