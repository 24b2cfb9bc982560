"""``lakehouse puffin inspect|cat``: what is in a puffin file."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    ObjectUrl,
    Options,
    parse_options,
    split_object,
    with_store,
)
from lakehouse.cli.output import brief_json, console, human_bytes, print_json, print_table
from lakehouse.errors import InvalidInputError
from lakehouse.format.puffin import BlobMeta, PuffinFooter
from lakehouse.index import GREPTIME, FileListSource, PuffinReader, iterate_index_metas
from lakehouse.io import ObjectStore, measure

__all__ = ["app"]

app = typer.Typer(help="Look into puffin files.", no_args_is_help=True)


@app.command("inspect")
def _inspect(
    url: ObjectUrl, options: Options = None, endpoint_url: Endpoint = None, as_json: Json = False
) -> None:
    """Show a file's footer, its blobs and the metadata of the indexes in it."""
    root, key = split_object(url)

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
        ("blob", "offset", "length", "codec", "properties"),
        blobs,
        title=f"{url}: {human_bytes(size)}, {len(blobs)} blobs",
        right=("offset", "length"),
    )
    if rows:
        cells = [
            (row["index_type"], row["target_key"], row["blob_size"], brief_json(row["meta_json"]))
            for row in rows
        ]
        print_table(("index", "target", "size", "metadata"), cells, right=("size",))
    for name, value in footer.properties.items():
        console().print(f"{name}: {value}", markup=False)
    for problem in problems:
        console().print(f"problem: {problem}", style="red", markup=False, soft_wrap=True)
    console().print(f"cost: {cost}", style="dim")


def _blob_row(blob: BlobMeta) -> tuple[object, ...]:
    shown = ", ".join(f"{name}={value}" for name, value in blob.properties.items())
    return blob.type, f"{blob.offset:,}", f"{blob.length:,}", blob.codec or "", shown


@app.command("cat")
def _cat(
    url: ObjectUrl,
    blob: Annotated[str, typer.Argument(help="Type of the blob, or its number, from 0.")],
    options: Options = None,
    endpoint_url: Endpoint = None,
) -> None:
    """Write a blob's content, decompressed, to standard output."""
    root, key = split_object(url)

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
