"""Arguments and options that commands share, and how they become a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import anyio
import typer

from lakehouse.errors import InvalidInputError
from lakehouse.io import ObjectStore, open_store

__all__ = [
    "Endpoint",
    "Json",
    "ObjectUrl",
    "Options",
    "Url",
    "parse_options",
    "split_file",
    "split_object",
    "with_store",
]

R = TypeVar("R")

Url = Annotated[str, typer.Argument(help="s3://bucket/prefix, file:///path, a plain path or memory://name.")]
ObjectUrl = Annotated[str, typer.Argument(help="URL of one object, such as s3://bucket/path/object.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="Storage option for fsspec; may be repeated. AWS_… works too.",
    ),
]
Endpoint = Annotated[str | None, typer.Option("--endpoint-url", help="Endpoint of an S3-compatible store.")]


def parse_options(options: list[str] | None, endpoint: str | None) -> dict[str, Any]:
    """Storage options from ``NAME=VALUE`` words."""
    parsed: dict[str, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise InvalidInputError(
                "--option takes NAME=VALUE, such as key=minio (the value is not shown here)"
            )
        parsed[name] = {"true": True, "false": False}.get(value.lower(), value)
    if endpoint:
        parsed["endpoint_url"] = endpoint
    return parsed


def with_store(url: str, options: dict[str, Any], work: Callable[[ObjectStore], Awaitable[R]]) -> R:
    """Opens the store, does the work, closes the store."""

    async def run() -> R:
        async with open_store(url, storage_options=options) as store:
            return await work(store)

    return anyio.run(run)


def split_object(url: str) -> tuple[str, str]:
    """The store and the key that an object's URL names."""
    root, slash, key = url.rpartition("/")
    if not slash or not key or root.endswith((":", ":/")):
        raise InvalidInputError(f"{url!r} names no object: write store/key, such as s3://bucket/path/object")
    return root, key


def split_file(url: str) -> tuple[str, str]:
    """The same, where a bare name is a file in the current directory."""
    return split_object(url if "/" in url else f"./{url}")
