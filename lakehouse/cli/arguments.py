"""Arguments and options that commands share, and how they become a store, a lake or a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import anyio
import typer

import lakehouse
from lakehouse.errors import InvalidInputError
from lakehouse.io.options import options_of_words

if TYPE_CHECKING:
    from lakehouse.io import ObjectStore
    from lakehouse.lake import Lake
    from lakehouse.storage.table import Table

__all__ = [
    "Endpoint",
    "Json",
    "ObjectUrl",
    "Options",
    "SnapshotOption",
    "TableArgument",
    "Tag",
    "Timestamp",
    "Url",
    "WarehouseArgument",
    "moment",
    "parse_options",
    "parse_words",
    "split_file",
    "split_object",
    "with_lake",
    "with_store",
    "with_table",
]

R = TypeVar("R")

Url = Annotated[str, typer.Argument(help="s3://bucket/prefix, file:///path, a plain path or memory://name.")]
ObjectUrl = Annotated[str, typer.Argument(help="URL of one object, such as s3://bucket/path/object.")]
WarehouseArgument = Annotated[
    str,
    typer.Argument(help="URL of a warehouse, such as s3://bucket/warehouse, or a path.", metavar="WAREHOUSE"),
]
TableArgument = Annotated[str, typer.Argument(help="Such as sales.orders.", metavar="DATABASE.TABLE")]
SnapshotOption = Annotated[int | None, typer.Option(help="Id of a snapshot; else the newest.")]
Timestamp = Annotated[
    str | None,
    typer.Option(help="The last snapshot not after it: '2026-01-31 12:00' (UTC), or milliseconds."),
]
Tag = Annotated[str | None, typer.Option(help="The snapshot of this tag.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="Storage option for fsspec; may be repeated. AWS_… and s3.… work too.",
    ),
]
Endpoint = Annotated[str | None, typer.Option("--endpoint-url", help="Endpoint of an S3-compatible store.")]


def parse_options(options: list[str] | None, endpoint: str | None) -> dict[str, Any]:
    """Reads storage options from ``NAME=VALUE`` words."""
    wrong = "--option takes NAME=VALUE, such as key=minio (the value is not shown here)"
    return options_of_words(_pairs(options, wrong), endpoint)


def parse_words(words: list[str] | None, wrong: str) -> dict[str, str]:
    """Reads ``NAME=VALUE`` words; ``wrong`` is the message for any other."""
    return dict(_pairs(words, wrong))


def _pairs(words: list[str] | None, wrong: str) -> Iterator[tuple[str, str]]:
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidInputError(wrong)
        yield name, value


def with_store(url: str, options: dict[str, Any], work: Callable[[ObjectStore], Awaitable[R]]) -> R:
    """Opens the store, does the work, closes the store."""

    async def run() -> R:
        async with lakehouse.open_store(url, storage_options=options) as store:
            return await work(store)

    return anyio.run(run)


def with_lake(url: str, options: dict[str, Any], work: Callable[[Lake], Awaitable[R]]) -> R:
    """Connects to the warehouse, does the work, disconnects."""

    async def run() -> R:
        async with lakehouse.connect(url, storage_options=options) as lake:
            return await work(lake)

    return anyio.run(run)


def with_table(url: str, name: str, options: dict[str, Any], work: Callable[[Table], Awaitable[R]]) -> R:
    """Opens the table, does the work, closes everything."""

    async def run(lake: Lake) -> R:
        return await work(await lake.table(name))

    return with_lake(url, options, run)


def moment(text: str | None) -> int | str | None:
    """Returns a time as tables take it: digits are milliseconds since 1970."""
    return int(text) if text is not None and text.isdigit() else text


def split_object(url: str) -> tuple[str, str]:
    """Splits an object's URL into the store and the key."""
    root, slash, key = url.rpartition("/")
    if not slash or not key or root.endswith((":", ":/")):
        raise InvalidInputError(f"{url!r} names no object: write store/key, such as s3://bucket/path/object")
    return root, key


def split_file(url: str) -> tuple[str, str]:
    """Splits the URL of an object likewise; a bare name is a file in the current directory."""
    return split_object(url if "/" in url else f"./{url}")
