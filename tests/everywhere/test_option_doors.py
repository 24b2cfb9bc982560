"""Storage options follow the same rules wherever they come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakehouse
import lakehouse.sync
from lakehouse.cli.arguments import parse_options, with_lake
from lakehouse.errors import InvalidInputError
from lakehouse.io import StorageOptions, open_backend, open_store
from lakehouse.io.decorators import innermost
from lakehouse.spark.reading.options import target_of
from lakehouse.spark.runtime.connection import Connection

URL = "s3://bucket/warehouse"


async def _nothing(_: object) -> None:
    raise AssertionError("the lake was opened")


def _from_command_line(options: dict[str, str]) -> None:
    with_lake(URL, parse_options([f"{name}={value}" for name, value in options.items()], None), _nothing)


def _from_spark(options: dict[str, str]) -> None:
    # Spark keeps no case.
    said = {f"storage.{name}".lower(): value for name, value in options.items()}
    target_of({"warehouse": URL, "table": "db.t", **said})


DOORS: dict[str, Callable[[dict[str, str]], Any]] = {
    "connect": lambda options: lakehouse.connect(URL, storage_options=options),
    "sync.connect": lambda options: lakehouse.sync.connect(URL, storage_options=options),
    "open_store": lambda options: open_store(URL, storage_options=options),
    "open_backend": lambda options: open_backend(URL, storage_options=options),
    "command line": _from_command_line,
    "spark's connection": lambda options: Connection(url=URL, storage_options=options),
    "spark's options": _from_spark,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"endpoint_ur": "http://x"}, "did you mean 'endpoint_url'?"),
        ({"fs.s3a.endpoint": "http://x"}, "did you mean 'endpoint_url'?"),
        ({"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, "would have no effect"),
        ({"AWS_ACCESS_KEY_ID": "a", "s3.access-key-id": "b"}, "say different things"),
    ],
)
def test_every_door_refuses_the_same(door: str, options: dict[str, str], says: str) -> None:
    """Unknown names, options without effect and contradictions are refused at every door."""
    with pytest.raises(InvalidInputError) as caught:
        DOORS[door](options)
    assert says in str(caught.value)


def _options_of(store: Any) -> Any:
    found: StorageOptions = innermost(store).options
    return found.reveal()


def test_every_door_understands_the_same() -> None:
    """Other programs' spellings arrive as the same options, whichever way they come."""
    options = {"AWS_ENDPOINT_URL": "http://e", "aws_access_key_id": "k", "s3.secret-access-key": "s"}
    wanted = {"endpoint_url": "http://e", "key": "k", "secret": "s"}
    words = [f"{name}={value}" for name, value in options.items()]
    said = {f"storage.{name}".lower(): value for name, value in options.items()}
    assert _options_of(lakehouse.connect(URL, storage_options=options).store) == wanted
    assert _options_of(open_store(URL, storage_options=parse_options(words, None))) == wanted
    assert Connection(url=URL, storage_options=options).revealed_options() == wanted
    assert target_of({"warehouse": URL, "table": "db.t", **said})[0].revealed_options() == wanted


def test_the_endpoint_of_the_command_line_is_no_second_opinion() -> None:
    """``--endpoint-url`` and an option that names another endpoint are an error; saying it twice is not."""
    assert parse_options(["endpoint_url=http://e"], "http://e") == {"endpoint_url": "http://e"}
    with pytest.raises(InvalidInputError, match="given twice"):
        parse_options(["endpoint_url=http://f"], "http://e")
    with pytest.raises(InvalidInputError, match="'AWS_ENDPOINT_URL' and 'endpoint_url'"):
        open_store(URL, storage_options=parse_options(["AWS_ENDPOINT_URL=http://f"], "http://e"))


def test_an_option_is_given_once() -> None:
    """A command line that names an option twice with different values is refused without showing them."""
    with pytest.raises(InvalidInputError, match="'key' is given twice") as caught:
        parse_options(["key=first", "key=second"], None)
    assert "first" not in str(caught.value)


def test_a_mapping_is_json_on_the_command_line() -> None:
    """Options that are mappings are written as JSON objects; what is none is refused without being shown."""
    assert parse_options(['client_kwargs={"region_name": "r"}'], None) == {
        "client_kwargs": {"region_name": "r"}
    }
    with pytest.raises(InvalidInputError, match="'client_kwargs' begins with") as caught:
        parse_options(["client_kwargs={hush"], None)
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_options_of_a_read_stand_above_those_of_the_session() -> None:
    """In Spark an option in any spelling takes the place of the registered one, and only of that."""
    session = Connection(url=URL, storage_options={"endpoint_url": "http://a", "region": "r", "key": "k"})
    found, _ = target_of({"table": "db.t", "storage.aws_endpoint_url": "http://b"}, session)
    assert found.revealed_options() == {
        "endpoint_url": "http://b",
        "client_kwargs": {"region_name": "r"},
        "key": "k",
    }
