"""Tantivy indexes that the Rust crates wrote, and their texts."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from lakehouse.format.index.tantivy_directory import TantivyDirectory
from lakehouse.format.puffin.footer import PuffinFooter

__all__ = ["sample_file", "sample_files", "sample_texts"]

FOLDER = Path(__file__).parents[1] / "data" / "tantivy"


@functools.cache
def sample_file(name: str) -> bytes:
    """The puffin file."""
    return (FOLDER / f"{name}.puffin").read_bytes()


def sample_texts(name: str) -> list[str]:
    """The rows that were indexed."""
    every = json.loads((FOLDER / "texts.json").read_text(encoding="utf-8"))
    texts: list[str] = every[name.removesuffix("-one")]
    return texts


def sample_files(name: str) -> dict[str, bytes]:
    """The files of the index by relative path."""
    data = sample_file(name)
    footer = PuffinFooter.parse(data, len(data))
    assert isinstance(footer, PuffinFooter)
    blobs = [bytes(blob.decompress(data[blob.offset : blob.end])) for blob in footer.blobs]
    directory = TantivyDirectory.decode(blobs[-1])
    return {file.relative_path: blobs[file.blob_index] for file in directory.files}
