"""The list of a tantivy index's files: upstream's text, and no way out of the folder."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.index.tantivy_directory import TantivyDirectory, TantivyFile
from tests.kit.blob_samples import flipped, spec_block

KEY = "0f0e0d0c-0b0a-4908-8706-050403020100"
SMALL = (
    b'{"files":[{"relative_path":"meta.json","blob_index":6,"key":"0f0e0d0c-0b0a-4908-8706-050403020100"}]}'
)

names = st.text(
    st.characters(exclude_characters="/\\:", exclude_categories=("Cc", "Cs")), min_size=1, max_size=9
)
paths = st.lists(names.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3).map("/".join)
directories = st.lists(paths, unique=True, max_size=6).map(
    lambda found: TantivyDirectory(
        files=tuple(TantivyFile(relative_path=path, blob_index=i, key=KEY) for i, path in enumerate(found))
    )
)


def one_file(**changes: Any) -> bytes:
    """A directory of one file, changed."""
    return json.dumps({"files": [{"relative_path": "a", "blob_index": 0, "key": KEY, **changes}]}).encode()


def test_the_text_is_upstreams() -> None:
    """Compact, keys in this order."""
    directory = TantivyDirectory(files=(TantivyFile(relative_path="meta.json", blob_index=6, key=KEY),))
    assert directory.encode() == SMALL
    assert TantivyDirectory.decode(SMALL) == directory


def test_one_segment_takes_1109_bytes() -> None:
    """Ten files of one segment, behind two other blobs, take what upstream's listing shows."""
    segment = uuid.UUID(int=7).hex
    found = [f"{segment}.{kind}" for kind in ("term", "pos", "idx", "fast", "fieldnorm", "store")]
    found += ["meta.json", ".managed.json", ".tantivy-meta.lock", ".tantivy-writer.lock"]
    files = tuple(
        TantivyFile(relative_path=path, blob_index=i, key=KEY) for i, path in enumerate(found, start=2)
    )
    assert len(TantivyDirectory(files=files).encode()) == 1109


@given(directories)
def test_a_directory_comes_back(directory: TantivyDirectory) -> None:
    """Decoding what was encoded changes nothing."""
    assert TantivyDirectory.decode(directory.encode()) == directory


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/..",
        "./a",
        "a//b",
        "a/",
        "C:x",
        "a\\..\\x",
        "a\0b",
        "x" * 2000,
        7,
        None,
    ],
)
def test_no_file_lies_outside_the_folder(path: object) -> None:
    """Absolute paths, steps upwards, drives and control characters are refused."""
    with pytest.raises(CorruptionError, match="outside its folder"):
        TantivyDirectory.decode(one_file(relative_path=path))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"files":{}}',
        b'{"files":[1]}',
        one_file(blob_index=-1),
        one_file(blob_index=True),
        one_file(blob_index="0"),
        one_file(key=""),
        one_file(key=None),
        b"[" * 100_000,
    ],
)
def test_what_is_no_directory_is_refused(data: bytes) -> None:
    """Broken JSON and entries that cannot be are named in an error of ours."""
    with pytest.raises(CorruptionError, match="tantivy directory"):
        TantivyDirectory.decode(data)


def test_a_file_named_twice_is_damage() -> None:
    """Two blobs cannot become one file."""
    entry = json.loads(one_file())["files"][0]
    with pytest.raises(CorruptionError, match="twice"):
        TantivyDirectory.decode(json.dumps({"files": [entry, entry]}).encode())


def test_keys_must_agree_with_the_footer() -> None:
    """A file whose blob is another, or is not there, is not unpacked."""
    directory = TantivyDirectory.decode(one_file(blob_index=1))
    directory.check_blobs(["x", KEY])
    for types in (["x", "y"], ["x"], []):
        with pytest.raises(CorruptionError, match="which is another"):
            directory.check_blobs(types)


def test_flipped_bits_and_truncations_are_survived() -> None:
    """A damaged directory is refused, or names files that stay below the folder."""
    for damaged in [flipped(SMALL, bit) for bit in range(8 * len(SMALL))] + [
        SMALL[:n] for n in range(len(SMALL))
    ]:
        try:
            found = TantivyDirectory.decode(damaged)
        except FormatError:
            continue
        assert all(".." not in file.relative_path.split("/") for file in found.files)


def test_the_specifications_example_comes_back() -> None:
    """The text of the specification decodes and encodes to itself."""
    text = spec_block("index-fulltext.md", "tantivy-directory").strip()
    assert TantivyDirectory.decode(text.encode()).encode().decode() == text
