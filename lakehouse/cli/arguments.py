"""Arguments and options that commands share, and how they become a store, a lake or a table."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import anyio
import typer

import lakehouse
from lakehouse import iceberg
from lakehouse.errors import InvalidInputError
from lakehouse.io.options import options_of_words

if TYPE_CHECKING:
    from lakehouse.iceberg import IcebergTable
    from lakehouse.io import ObjectStore
    from lakehouse.lake import Lake
    from lakehouse.storage.table import Table

__all__ = [
    "ColumnNames",
    "Command",
    "DryRun",
    "Endpoint",
    "Grace",
    "IcebergArgument",
    "IfExists",
    "IfNotExists",
    "Json",
    "Moved",
    "ObjectUrl",
    "Options",
    "Partitions",
    "Places",
    "PlanOnly",
    "SnapshotOption",
    "TableArgument",
    "Tag",
    "Timestamp",
    "Url",
    "WarehouseArgument",
    "Where",
    "moment",
    "parse_options",
    "parse_words",
    "split_file",
    "split_object",
    "with_iceberg",
    "with_lake",
    "with_store",
    "with_table",
    "with_words",
    "word",
]

Command = Callable[..., None]
R = TypeVar("R")

Url = Annotated[str, typer.Argument(help="s3://bucket/prefix, file:///path, a plain path or memory://name.")]
ObjectUrl = Annotated[
    str, typer.Argument(help="URL of one object, such as s3://bucket/path/object.", metavar="URL")
]
WarehouseArgument = Annotated[
    str,
    typer.Argument(
        help="URL of a warehouse, such as s3://bucket/warehouse, or a path; may be left out where "
        "LAKEHOUSE_WAREHOUSE is set, and then has a slash.",
        metavar="WAREHOUSE",
    ),
]
TableArgument = Annotated[str, typer.Argument(help="Such as sales.orders.", metavar="DATABASE.TABLE")]
IcebergArgument = Annotated[
    str,
    typer.Argument(
        help="URL of an Iceberg table's directory, or of a metadata file; a path works too.", metavar="TABLE"
    ),
]
Places = Annotated[
    list[str] | None,
    typer.Option("--location", help="Another place where files of the table may be; may be repeated."),
]
Moved = Annotated[
    bool, typer.Option("--moved", help="The table was copied here: its paths begin with where it was.")
]
SnapshotOption = Annotated[int | None, typer.Option(help="Id of a snapshot; else the newest.")]
Timestamp = Annotated[
    str | None,
    typer.Option(help="The last snapshot not after it: '2026-01-31 12:00' (UTC), or milliseconds."),
]
Tag = Annotated[str | None, typer.Option(help="The snapshot of this tag.")]
Where = Annotated[str | None, typer.Option(help="Condition in SQL, such as 'amount > 10'.")]
Partitions = Annotated[
    str | None, typer.Option(help="Only these partitions, such as \"day = '2026-01-31'\".")
]
ColumnNames = Annotated[
    list[str] | None, typer.Option("--column", "-c", help="Only this column; may be repeated.")
]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Nothing to drop is fine.")]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Leave one that is there.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, say what would be done now.")]
PlanOnly = Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")]
Grace = Annotated[
    float | None,
    typer.Option(
        "--grace",
        help="Seconds instead of the table's delete_grace_s; less is for tables nobody uses meanwhile.",
        min=0,
    ),
]
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


def word(name: str, kind: Any, default: object = inspect.Parameter.empty) -> inspect.Parameter:
    """Describes a word of a command line."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def with_words(command: Command, *words: inspect.Parameter) -> Command:
    """Gives a command its words; the option parser reads them from the signature."""
    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in words]
    command.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in named}
    return command


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


def with_iceberg(
    url: str,
    locations: list[str] | None,
    moved: bool,
    options: dict[str, Any],
    work: Callable[[IcebergTable], Awaitable[R]],
) -> R:
    """Opens the Iceberg table, does the work, closes everything."""

    async def run() -> R:
        opening = iceberg.open(url, storage_options=options, locations=locations or (), moved=moved)
        async with await opening as table:
            return await work(table)

    return anyio.run(run)


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
