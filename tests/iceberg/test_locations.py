"""Paths of metadata, and the stores and keys that they become."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.iceberg.locations import Locations, path_location
from lakehouse.iceberg.metadata_json import decode_metadata
from lakehouse.io.location import Location
from tests.kit.iceberg_metadata import document, encoded


def _metadata(location: str, **properties: str) -> Any:
    made = document(location=location, properties={n.replace("_", "."): v for n, v in properties.items()})
    return decode_metadata(encoded(made), "v1.metadata.json")


def _found(locations: Locations, path: str) -> tuple[str, str]:
    place = locations.find(path)
    return place.root, place.key


@pytest.mark.parametrize(
    ("path", "scheme", "rest"),
    [
        ("s3://b/wh/x.parquet", "s3", "b/wh/x.parquet"),
        ("s3a://b/wh/x.parquet", "s3", "b/wh/x.parquet"),
        ("s3n://b/wh/x.parquet", "s3", "b/wh/x.parquet"),
        ("file:/wh/x.parquet", "file", "/wh/x.parquet"),
        ("file:///wh/x.parquet", "file", "/wh/x.parquet"),
        ("file://localhost/wh/x.parquet", "file", "/wh/x.parquet"),
        ("/wh/x.parquet", "file", "/wh/x.parquet"),
        ("memory://wh/x.parquet", "memory", "wh/x.parquet"),
        ("gs://b/x.parquet", "gs", "b/x.parquet"),
    ],
)
def test_every_spelling_of_a_path_is_one_place(path: str, scheme: str, rest: str) -> None:
    """Writers spell schemes in several ways; a path means the same in each."""
    assert path_location(path) == Location(scheme=scheme, path=rest)


@pytest.mark.parametrize(
    "name", ["a%20b.parquet", "a b.parquet", "a+b=c.parquet", "100%.parquet", "é.parquet"]
)
def test_keys_are_the_path_as_it_is(name: str) -> None:
    """Percent signs and spaces are characters of the key: nothing is unquoted."""
    locations = Locations("s3://b/t")
    locations.admit(_metadata("s3://b/t"))
    assert _found(locations, f"s3a://b/t/data/{name}") == ("s3://b/t", f"data/{name}")


def test_files_below_the_tables_location_are_found() -> None:
    """The location that metadata say counts, in any spelling, also where it is not what was opened."""
    locations = Locations("s3://b/elsewhere")
    locations.admit(_metadata("s3a://b/t/"))
    assert _found(locations, "s3://b/t/data/x.parquet") == ("s3://b/t", "data/x.parquet")
    assert _found(locations, "s3://b/elsewhere/y") == ("s3://b/elsewhere", "y")


def test_other_places_are_refused_with_what_to_pass() -> None:
    """A file outside is an error that says by which argument it may be read."""
    locations = Locations("s3://b/t")
    locations.admit(_metadata("s3://b/t"))
    with pytest.raises(InvalidInputError, match=r"pass locations=\['s3://b/tt'\], or moved=True"):
        locations.find("s3://b/tt/x.parquet")
    named = Locations("s3://b/t", locations=["s3://b/tt"])
    assert _found(named, "s3://b/tt/x.parquet") == ("s3://b/tt", "x.parquet")


def test_a_directory_is_no_file_below_itself() -> None:
    """The place itself has no key."""
    with pytest.raises(InvalidInputError, match="outside of the table's places"):
        Locations("s3://b/t").find("s3://b/t/")


def test_properties_admit_places_of_the_same_bucket_alone() -> None:
    """Where a table says that its data go, they are found, unless that is another bucket."""
    locations = Locations("s3://b/t")
    locations.admit(_metadata("s3://b/t", write_data_path="s3://b/data/t", write_metadata_path="s3://c/meta"))
    assert _found(locations, "s3://b/data/t/x.parquet") == ("s3://b/data/t", "x.parquet")
    with pytest.raises(InvalidInputError, match="outside of the table's places"):
        locations.find("s3://c/meta/x.avro")


def test_the_longest_prefix_wins() -> None:
    """Of places inside each other that were named from the inside out, the inner one has the file."""
    locations = Locations("s3://b/t/inner", locations=["s3://b/t"])
    assert _found(locations, "s3://b/t/inner/x") == ("s3://b/t/inner", "x")
    assert _found(locations, "s3://b/t/x") == ("s3://b/t", "x")


def test_places_inside_others_need_no_store() -> None:
    """What a known place holds is read through its store."""
    locations = Locations("s3://b/t")
    locations.admit(_metadata("s3://b/t", write_data_path="s3://b/t/files"))
    assert [store.url for store in locations.stores()] == ["s3://b/t"]


def test_a_copied_table_is_read_where_it_is() -> None:
    """With moved=, paths below the old location are looked up below the opened directory, others are not."""
    locations = Locations("memory://copy/t", moved=True)
    locations.admit(_metadata("s3://b/t"))
    assert _found(locations, "s3a://b/t/data/x.parquet") == ("memory://copy/t", "data/x.parquet")
    with pytest.raises(InvalidInputError, match="outside of the table's places"):
        locations.find("s3://b/other/x.parquet")


def test_a_table_of_another_scheme_was_moved() -> None:
    """A table that says it is in a bucket and was opened in memory is one that was copied."""
    with pytest.raises(
        InvalidInputError, match=r"at s3://b/t, and was opened at memory://copy: .*moved=True"
    ):
        Locations("memory://copy").admit(_metadata("s3://b/t"))


async def test_a_path_cannot_climb_out() -> None:
    """Parts of two dots are refused before anything is asked for."""
    place = Locations("memory://t").find("memory://t/data/../../secret")
    with pytest.raises(InvalidInputError, match=r"has an empty, '\.' or '\.\.' part"):
        await place.store.get(place.key)


def test_locations_are_a_list() -> None:
    """One URL where a list of them belongs is an error, and not a list of characters."""
    with pytest.raises(InvalidInputError, match=r"locations= is a list of URLs, such as \['s3://b'\]"):
        Locations("s3://a", locations="s3://b")


async def test_they_travel() -> None:
    """Pickled places know what was admitted, and connect where they arrive."""
    locations = Locations("memory://iceberg-travel", moved=True)
    locations.admit(_metadata("s3://b/t"))
    await locations.store.put("x", b"1")
    arrived = pickle.loads(pickle.dumps(locations))
    place = arrived.find("s3://b/t/x")
    assert (await place.store.get(place.key)).data == b"1"


async def test_what_is_left_is_closed() -> None:
    """After its block a table reads nothing, and says how to open it."""
    async with Locations("memory://iceberg-left") as locations:
        await locations.store.put("x", b"1")
    with pytest.raises(InvalidInputError, match=r"this table is closed: .*lakehouse.iceberg.open") as caught:
        await locations.store.get("x")
    assert caught.value.kind == "closed"
