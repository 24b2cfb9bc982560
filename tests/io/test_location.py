"""Store URLs: taken apart, checked, and never repeating a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.io.location import Location

CHARACTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="/")
SEGMENT = st.text(CHARACTERS, min_size=1, max_size=8)
PLAIN = st.text("abcXYZ019-_.=% +", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("url", "scheme", "path", "normal"),
    [
        ("s3://bucket", "s3", "bucket", "s3://bucket"),
        ("s3://bucket/", "s3", "bucket", "s3://bucket"),
        ("s3://bucket/a/b/", "s3", "bucket/a/b", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3", "bucket/a", "s3://bucket/a"),
        ("S3://Bucket/A", "s3", "Bucket/A", "s3://Bucket/A"),
        ("s3://bucket/a%20b", "s3", "bucket/a%20b", "s3://bucket/a%20b"),
        ("memory://name", "memory", "name", "memory://name"),
        ("memory://", "memory", "", "memory://"),
        ("gs://bucket/x", "gs", "bucket/x", "gs://bucket/x"),
        ("file:///data/wh", "file", "/data/wh", "file:///data/wh"),
        ("file://localhost/data", "file", "/data", "file:///data"),
        ("local:///data", "file", "/data", "file:///data"),
        ("file:///a%20b", "file", "/a b", "file:///a b"),
        ("file:///a%23b%3Fc%25", "file", "/a#b?c%", "file:///a%23b%3Fc%25"),
        ("file:///", "file", "/", "file:///"),
        ("/data/wh/", "file", "/data/wh", "file:///data/wh"),
        ("/data/a#b", "file", "/data/a#b", "file:///data/a%23b"),
        ("/odd/s3://name", "file", "/odd/s3:/name", "file:///odd/s3:/name"),
    ],
)
def test_a_url_says_where_the_root_is(url: str, scheme: str, path: str, normal: str) -> None:
    """Scheme and path are those of the URL, without a slash at the end, and give one normal form."""
    location = Location.parse(url)
    assert (location.scheme, location.path, location.url) == (scheme, path, normal)


def test_a_plain_path_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path without a scheme is a directory, counted from where the process stands or from home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Location.parse("wh/x").path == f"{tmp_path}/wh/x"
    assert Location.parse("~/wh").path == f"{tmp_path}/home/wh"


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [("s3://b", "b", ""), ("s3://b/p", "b", "p/"), ("s3://b/p/q/", "b", "p/q/")],
)
def test_bucket_and_prefix(url: str, bucket: str, prefix: str) -> None:
    """The first part is the bucket; what follows is the prefix of every key, with its slash."""
    location = Location.parse(url)
    assert (location.bucket, location.prefix) == (bucket, prefix)


@given(parts=st.lists(SEGMENT, min_size=1, max_size=4))
def test_any_directory_survives_its_url(parts: list[str]) -> None:
    """Whatever a directory is called, its URL leads back to it."""
    location = Location.parse("/" + "/".join(parts))
    assert Location.parse(location.url) == location


@given(scheme=st.sampled_from(["s3", "memory", "gs"]), parts=st.lists(PLAIN, min_size=1, max_size=4))
def test_any_bucket_survives_its_url(scheme: str, parts: list[str]) -> None:
    """The URL of a parsed URL is parsed to the same location."""
    location = Location.parse(f"{scheme}://{'/'.join(parts)}")
    assert Location.parse(location.url) == location


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "not empty"),
        ("s3://bucket/a\nb", "control characters"),
        ("file:///a%00b", "names no directory"),
        ("s3:/bucket/x", "two slashes"),
        ("s3:bucket", "two slashes"),
        ("FILE:/data", "two slashes"),
        ("s3://", "names no bucket"),
        ("s3:///key", "names no bucket"),
        ("s3://bucket//a", "double slash"),
        ("s3://bucket/a//b", "double slash"),
        ("s3://[bucket", "not a store URL"),
        ("file://data/wh", "names a host"),
        ("file://", "names no directory"),
        ("s3://bucket/a?versionId=1", "query or fragment"),
        ("file:///a#b", "%23"),
    ],
)
def test_what_is_no_store_url_is_refused(url: str, says: str) -> None:
    """Each mistake gets an error that says which."""
    with pytest.raises(InvalidInputError, match=says):
        Location.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIAKEY:hunter2@bucket/x",
        "s3://hunter2@bucket",
        "s3://AKIAKEY:hunter2@bucket/x\n",
        "s3://bucket/x?aws_secret_access_key=hunter2",
        "s3://bucket/x#hunter2",
        "s3://AKIAKEY:hunter2@[bucket",
        "s3://AKIAKEY:hunter2@bu\u2100cket",
        "https://user:hunter2@host/x?y",
        "file://user:hunter2@host/x",
        "s3:AKIAKEY:hunter2@bucket",
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    """Credentials do not belong into a URL, and the error that says so does not spread them."""
    with pytest.raises(InvalidInputError) as caught:
        Location.parse(url)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in f"{error} {error!r}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize(
    ("url", "scheme", "links"),
    [
        ("zip://wh::s3://bucket/a.zip", "zip", ["zip://wh", "s3://bucket/a.zip"]),
        ("zip://wh/::/data/a.zip", "zip", ["zip://wh", "file:///data/a.zip"]),
        ("ZIP://::file:///data/a.zip", "zip", ["zip://", "file:///data/a.zip"]),
        ("simplecache::s3a://bucket/wh", "simplecache", ["simplecache://", "s3://bucket/wh"]),
        ("zip://wh::simplecache::http://h/a.zip", "zip", ["zip://wh", "simplecache://", "http://h/a.zip"]),
        ("s3://bucket/a::b", "s3", ["s3://bucket/a::b"]),
        ("http://host/a::b", "http", ["http://host/a::b"]),
        ("/data/a::b", "file", ["file:///data/a::b"]),
    ],
)
def test_a_chain_has_links(url: str, scheme: str, links: list[str]) -> None:
    """File systems around others are links of a chain, which its URL leads back to."""
    location = Location.parse(url)
    assert (location.scheme, [link.url for link in location.links]) == (scheme, links)
    assert Location.parse(location.url) == location


def test_the_last_link_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path at the end of a chain is counted from where the process stands."""
    monkeypatch.chdir(tmp_path)
    assert Location.parse("zip://wh::a.zip").links[1].path == f"{tmp_path}/a.zip"


@pytest.mark.parametrize(
    "url",
    [
        "zip://hunter2@wh::s3://bucket/a.zip",
        "zip://wh::s3://key:hunter2@bucket/a.zip",
        "zip://wh::https://host/a.zip?signature=hunter2",
        "zip://wh?hunter2::s3://bucket/a.zip",
        "simplecache::zip://wh#hunter2::s3://bucket/a.zip",
    ],
)
def test_no_link_holds_a_secret(url: str) -> None:
    """Credentials and queries are refused in every link, and not repeated."""
    with pytest.raises(InvalidInputError) as caught:
        Location.parse(url)
    assert "hunter2" not in str(caught.value)
