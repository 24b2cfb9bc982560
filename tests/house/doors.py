"""Doors to the outside: what opens a path or a URL.

Only ``lakehouse/io`` (and the test kit) may open one. The scan is by name, so it finds
what a reader would recognise, and it errs on the side of asking: a line that only looks
like a door says so with ``# io-ok: <reason>``, and such lines are counted.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.house.source_tree import Module

__all__ = ["HOME", "doors", "marked_lines"]

HOME = frozenset({"io", "testing"})
"""Parts that may open things."""

_NAMES = re.compile(
    r"""
    (builtins\.|io\.|os\.|codecs\.|gzip\.|bz2\.|lzma\.|zipfile\.|tarfile\.|mmap\.|fsspec\.|tokenize\.)open
    | os\.(fdopen|remove|unlink|rename|replace|mkdir|makedirs|rmdir|listdir|scandir|walk|stat)
    | os\.path\.(exists|isfile|isdir|getsize|getmtime)
    | shutil\.\w+ | tempfile\.\w+ | glob\.i?glob
    | fsspec\.(filesystem|open_files|url_to_fs|get_fs_token_paths|get_mapper) | url_to_fs
    | s3fs\.\w+ | aiobotocore\.\S+ | botocore\.\S+ | boto3\.\S+ | obstore\.\S+
    | asyncio\.open_connection | anyio\.(open_file|connect_\w+|Path)
    | (\w+\.)*(ParquetFile|ParquetWriter|ParquetDataset|read_table|write_table|read_metadata|read_schema)
    | (\w+\.)*(write_to_dataset|write_dataset|write_metadata|read_avro|scan_parquet|read_parquet|scan_csv)
    | (pa|pyarrow)\.(memory_map|OSFile|create_memory_map|input_stream|output_stream)
    | (pacsv|pc_csv|csv|pyarrow\.csv)\.(read_csv|open_csv|write_csv|CSVWriter)
    | (pa_json|pyarrow\.json)\.(read_json|open_json)
    | (feather|orc|pyarrow\.feather|pyarrow\.orc)\.\w+ | (\w+\.)*dataset\.dataset
    | (np|numpy)\.(load|save|savez|savez_compressed|memmap|loadtxt|savetxt|genfromtxt|fromfile)
    | (pd|pandas|pl|polars)\.(read|scan)_\w+
    """,
    re.VERBOSE,
)
_METHODS = frozenset(
    {
        "expanduser",
        "hardlink_to",
        "iterdir",
        "mkdir",
        "read_bytes",
        "read_text",
        "rglob",
        "rmdir",
        "sink_parquet",
        "symlink_to",
        "to_csv",
        "to_parquet",
        "tofile",
        "unlink",
        "write_bytes",
        "write_csv",
        "write_parquet",
        "write_text",
    }
)
_MODULES = frozenset({"urllib.request", "requests", "httpx", "aiohttp", "http.client", "socket", "sqlite3"})
_MARK = re.compile(r"#\s*io-ok:\s*\S")


def _why(node: ast.AST) -> str:
    """What kind of door the node is; empty when it is none."""
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names if alias.name in _MODULES]
        return f"imports {found[0]}" if found else ""
    if isinstance(node, ast.ImportFrom):
        return f"imports {node.module}" if node.module in _MODULES and not node.level else ""
    # A name without a call counts too: to_thread.run_sync(pq.read_table, path) opens a path.
    if isinstance(node, ast.Attribute) and _NAMES.fullmatch(ast.unparse(node)):
        return f"uses {ast.unparse(node)}"
    return _why_call(node) if isinstance(node, ast.Call) else ""


def _why_call(call: ast.Call) -> str:
    name = ast.unparse(call.func)
    if name == "open":
        return "calls open()"
    if name == "duckdb.connect" and not _in_memory(call):
        return "opens a DuckDB file"
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        return f"calls .{call.func.attr}()"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "open" and "Path(" in name:
        return "calls Path.open()"
    return ""


def _in_memory(call: ast.Call) -> bool:
    named = [k.value for k in call.keywords if k.arg == "database"]
    database = (call.args + named)[:1]
    return not database or (
        isinstance(database[0], ast.Constant) and str(database[0].value).startswith(":memory:")
    )


def _annotations(tree: ast.AST) -> set[ast.AST]:
    """Nodes that only say what type something has."""
    roots = [getattr(node, field, None) for node in ast.walk(tree) for field in ("annotation", "returns")]
    return {node for root in roots if isinstance(root, ast.AST) for node in ast.walk(root)}


def doors(modules: Iterable[Module]) -> Iterator[str]:
    """Unmarked doors outside their home."""
    for module in modules:
        if module.part in HOME:
            continue
        harmless = _annotations(module.tree)
        for node in ast.walk(module.tree):
            why = "" if node in harmless else _why(node)
            if why and not any(_MARK.search(line) for line in module.lines_of(node)):
                yield f"{module.at(node)} {why}: go through lakehouse.io, or say '# io-ok: <reason>'"


def marked_lines(modules: Iterable[Module]) -> Counter[str]:
    """How many lines of each file say ``# io-ok``."""
    counts = Counter({module.path: sum(bool(_MARK.search(x)) for x in module.lines) for module in modules})
    return +counts
