"""``lakehouse puffin inspect|cat|search``: what is in a puffin file."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import pyarrow as pa
import typer

from lakehouse.cli.arguments import split_file
from lakehouse.cli.frame import Outcome, on_object
from lakehouse.cli.output import brief_json, human_bytes, print_table, say, write_bytes
from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, parse_where
from lakehouse.expr.nodes import Column, Constant, In
from lakehouse.format.puffin import BlobMeta, DeletionVectorBlob, ThetaSketchBlob, iceberg_blob
from lakehouse.index import (
    GREPTIME,
    FileListSource,
    IndexSearcher,
    PuffinReader,
    classify,
    iterate_index_metas,
)
from lakehouse.io import ObjectStore, measure
from lakehouse.io.scratch import ScratchSpace

__all__ = ["app"]

app = typer.Typer(help="Look into puffin files.", no_args_is_help=True)


@app.command("inspect")
@on_object(split_file)
async def _inspect(store: ObjectStore, key: str, *, url: str) -> Outcome:
    """Show a file's footer, its blobs and the metadata of the indexes in it."""
    with measure() as cost:
        reader = PuffinReader(store, key)
        footer = await reader.footer()
        scan = iterate_index_metas(FileListSource(store, [(key, reader.size)]))
        rows = [GREPTIME.to_dict(entry) async for entry in scan]
    problems = [problem.message for problem in scan.problems]
    about = {"path": key, "size": reader.size, "properties": dict(footer.properties), "problems": problems}

    def show() -> None:
        print_table(
            ("blob", "offset", "length", "codec", "holds", "properties"),
            [_blob_row(blob) for blob in footer.blobs],
            title=f"{url}: {human_bytes(reader.size)}, {len(footer.blobs)} blobs",
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

    return Outcome(show, {"file": about, "blobs": [blob.to_json() for blob in footer.blobs], "entries": rows})


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
@on_object(split_file, json=False)
async def _cat(
    store: ObjectStore,
    key: str,
    blob: Annotated[str, typer.Argument(help="Type of the blob, or its number, from 0.")],
    *,
    url: str,
) -> Outcome:
    """Write a blob's content, decompressed, to standard output."""
    reader = PuffinReader(store, key)
    footer = await reader.footer()
    meta = footer.find(blob)
    if meta is None and blob.isdigit() and int(blob) < len(footer.blobs):
        meta = footer.blobs[int(blob)]
    if meta is None:
        names = ", ".join(each.type for each in footer.blobs) or "none"
        raise InvalidInputError(f"{url} has no blob {blob!r}; these are there: {names}")
    return Outcome(partial(write_bytes, await reader.blob(meta)))


@app.command("search")
@on_object(split_file)
async def _search(
    store: ObjectStore,
    key: str,
    where: Annotated[str, typer.Option(help="Condition on columns named col1, col2, … by their ids.")],
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="ID=TYPE", help="Arrow type of a column; else that of its constants."),
    ] = None,
) -> Outcome:
    """Show which rows of the data file may match, by the file's indexes."""
    expr = parse_where(where)
    columns = _columns(expr, types or [])
    with measure() as cost:
        async with ScratchSpace() as scratch:
            searcher = IndexSearcher(PuffinReader(store, key), columns, scratch=scratch)
            selection = await searcher.may_match(expr)
    total, ranges = selection.total_rows, selection.ranges.tolist()
    rows = sum(end - start for start, end in ranges)

    def show() -> None:
        print_table(
            ("from row", "to row", "rows"),
            [(f"{start:,}", f"{end:,}", f"{end - start:,}") for start, end in ranges],
            title=f"{rows:,} of {total:,} rows may match {where}",
            right=("from row", "to row", "rows"),
        )
        say(f"cost: {cost}", style="dim")

    return Outcome(show, {"total_rows": total, "rows": rows, "ranges": ranges, "cost": cost.as_dict()})


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
