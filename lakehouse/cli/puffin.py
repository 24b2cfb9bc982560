"""``lakehouse puffin inspect|cat|search``: what is in a puffin file."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import pyarrow as pa
import typer

from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    ObjectUrl,
    Options,
    parse_options,
    split_file,
    with_store,
)
from lakehouse.cli.output import brief_json, human_bytes, print_json, print_table, say
from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, parse_where
from lakehouse.expr.nodes import Column, Constant, In
from lakehouse.format.puffin import BlobMeta, DeletionVectorBlob, PuffinFooter, ThetaSketchBlob, iceberg_blob
from lakehouse.index import (
    GREPTIME,
    FileListSource,
    IndexSearcher,
    PuffinReader,
    RowSelection,
    classify,
    iterate_index_metas,
)
from lakehouse.io import ObjectStore, measure
from lakehouse.io.scratch import ScratchSpace

__all__ = ["app"]

app = typer.Typer(help="Look into puffin files.", no_args_is_help=True)


@app.command("inspect")
def _inspect(
    url: ObjectUrl, options: Options = None, endpoint_url: Endpoint = None, as_json: Json = False
) -> None:
    """Show a file's footer, its blobs and the metadata of the indexes in it."""
    root, key = split_file(url)

    async def work(store: ObjectStore) -> tuple[int, PuffinFooter, list[dict[str, Any]], list[str]]:
        reader = PuffinReader(store, key)
        footer = await reader.footer()
        scan = iterate_index_metas(FileListSource(store, [(key, reader.size)]))
        rows = [GREPTIME.to_dict(entry) async for entry in scan]
        return reader.size, footer, rows, [problem.message for problem in scan.problems]

    with measure() as cost:
        size, footer, rows, problems = with_store(root, parse_options(options, endpoint_url), work)
    if as_json:
        about = {"path": key, "size": size, "properties": dict(footer.properties), "problems": problems}
        print_json({"file": about, "blobs": [blob.to_json() for blob in footer.blobs], "entries": rows})
        return
    blobs = [_blob_row(blob) for blob in footer.blobs]
    print_table(
        ("blob", "offset", "length", "codec", "holds", "properties"),
        blobs,
        title=f"{url}: {human_bytes(size)}, {len(blobs)} blobs",
        right=("offset", "length"),
        whole=("blob", "codec"),
    )
    if rows:
        cells = [
            (row["index_type"], row["target_key"], row["blob_size"], brief_json(row["meta_json"]))
            for row in rows
        ]
        print_table(
            ("index", "target", "size", "metadata"), cells, right=("size",), whole=("index", "target")
        )
    for name, value in footer.properties.items():
        say(f"{name}: {value}")
    for problem in problems:
        say(f"problem: {problem}", style="red")
    say(f"cost: {cost}", style="dim")


def _blob_row(blob: BlobMeta) -> tuple[object, ...]:
    shown = ", ".join(f"{name}={value}" for name, value in blob.properties.items())
    return blob.type, f"{blob.offset:,}", f"{blob.length:,}", blob.codec or "", _holds(blob), shown


def _holds(blob: BlobMeta) -> str:
    """Says what is in a blob, by its type and properties."""
    if (index := classify(blob.type)) is not None:
        kind, target = index
        return f"{kind} of {target}" if target is not None else kind
    match iceberg_blob(blob):
        case DeletionVectorBlob(cardinality=count):
            return f"{'?' if count is None else f'{count:,}'} deleted rows"
        case ThetaSketchBlob(distinct_values=count):
            return f"{'?' if count is None else f'{count:,}'} distinct values"
    return ""


@app.command("cat")
def _cat(
    url: ObjectUrl,
    blob: Annotated[str, typer.Argument(help="Type of the blob, or its number, from 0.")],
    options: Options = None,
    endpoint_url: Endpoint = None,
) -> None:
    """Write a blob's content, decompressed, to standard output."""
    root, key = split_file(url)

    async def work(store: ObjectStore) -> bytes:
        reader = PuffinReader(store, key)
        footer = await reader.footer()
        meta = footer.find(blob)
        if meta is None and blob.isdigit() and int(blob) < len(footer.blobs):
            meta = footer.blobs[int(blob)]
        if meta is None:
            names = ", ".join(each.type for each in footer.blobs) or "none"
            raise InvalidInputError(f"{url} has no blob {blob!r}; these are there: {names}")
        return await reader.blob(meta)

    sys.stdout.buffer.write(with_store(root, parse_options(options, endpoint_url), work))
    sys.stdout.buffer.flush()


@app.command("search")
def _search(
    url: ObjectUrl,
    where: Annotated[str, typer.Option(help="Condition on columns named col1, col2, … by their ids.")],
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="ID=TYPE", help="Arrow type of a column; else that of its constants."),
    ] = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Show which rows of the data file may match, by the file's indexes."""
    root, key = split_file(url)
    expr = parse_where(where)
    columns = _columns(expr, types or [])

    async def work(store: ObjectStore) -> RowSelection:
        async with ScratchSpace() as scratch:
            return await IndexSearcher(PuffinReader(store, key), columns, scratch=scratch).may_match(expr)

    with measure() as cost:
        selection = with_store(root, parse_options(options, endpoint_url), work)
    ranges = selection.ranges.tolist()
    rows = sum(end - start for start, end in ranges)
    if as_json:
        print_json(
            {"total_rows": selection.total_rows, "rows": rows, "ranges": ranges, "cost": cost.as_dict()}
        )
        return
    print_table(
        ("from row", "to row", "rows"),
        [(f"{start:,}", f"{end:,}", f"{end - start:,}") for start, end in ranges],
        title=f"{rows:,} of {selection.total_rows:,} rows may match {where}",
        right=("from row", "to row", "rows"),
    )
    say(f"cost: {cost}", style="dim")


def _columns(expr: Expr, types: list[str]) -> dict[str, tuple[int, pa.DataType]]:
    """Returns the ids and types of the columns in an expression."""
    given: dict[str, str] = {}
    for word in types:
        number, equals, name = word.partition("=")
        if not equals:
            raise InvalidInputError(f"--type takes ID=TYPE, such as 3=int64, not {word!r}")
        given[f"col{number}"] = name
    columns: dict[str, tuple[int, pa.DataType]] = {}
    for column in sorted(expr.columns()):
        number = column.removeprefix("col")
        if not column.startswith("col") or not number.isdigit():
            raise InvalidInputError(f"puffin files know columns by id: col3 for column 3, not {column!r}")
        columns[column] = int(number), _type(column, expr, given.get(column))
    return columns


def _type(column: str, expr: Expr, given: str | None) -> pa.DataType:
    if given is not None:
        try:
            return pa.type_for_alias(given)
        except ValueError as error:
            raise InvalidInputError(f"{given!r} is no Arrow type: write int64, string, double, …") from error
    for node in expr.walk():
        names = {child.name for child in node.children() if isinstance(child, Column)}
        values = [child.value for child in node.children() if isinstance(child, Constant)]
        values += node.values if isinstance(node, In) else ()
        if column in names and (known := [value for value in values if value is not None]):
            return pa.scalar(known[0]).type
    return pa.string()
