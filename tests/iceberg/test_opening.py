"""Finding of the newest metadata of a table, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.opening import is_metadata_file, load_metadata, open_locations
from lakehouse.io import Cost, measure
from tests.kit.iceberg_metadata import document, encoded


def _file(number: int = 1, *, compressed: bool = False, at: int = 1602638573590) -> bytes:
    made = document(location="memory://anywhere", last_sequence_number=number, last_updated_ms=at)
    return encoded(made, compressed=compressed)


async def _loaded(directory: str, files: Mapping[str, bytes], opened: str = "") -> tuple[TableMetadata, Cost]:
    """Opens a directory with these files in metadata/, or one of them."""
    url = f"memory://iceberg-opening/{directory}"
    async with open_locations(url) as locations:
        for name, data in files.items():
            await locations.store.put(f"metadata/{name}", data)
    url = f"{url}/{opened}" if opened else url
    async with open_locations(url) as locations:
        with measure() as cost:
            return await load_metadata(locations, url), cost


async def test_a_metadata_file_is_one_get() -> None:
    """A table that is opened by its metadata location costs one request."""
    name = "00001-a.metadata.json"
    table, cost = await _loaded("file", {name: _file(7)}, f"metadata/{name}")
    assert table.last_sequence_number == 7
    assert table.path == f"memory://iceberg-opening/file/metadata/{name}"
    assert cost.by_kind() == {"get": 1}


async def test_a_metadata_file_need_not_be_in_a_folder_of_metadata() -> None:
    """Any JSON file is taken for one; its own directory is what was opened."""
    async with open_locations("memory://iceberg-opening/bare") as locations:
        await locations.store.put("x.json", _file(3))
    url = "memory://iceberg-opening/bare/x.json"
    async with open_locations(url) as locations:
        assert (await load_metadata(locations, url)).last_sequence_number == 3


async def test_a_hint_names_the_version() -> None:
    """By a hint a directory takes the hint, its version, and a look for the next one: five requests."""
    files = {"version-hint.text": b"2\n", "v1.metadata.json": _file(1), "v2.metadata.json": _file(2)}
    table, cost = await _loaded("hint", files)
    assert table.last_sequence_number == 2
    assert cost.by_kind() == {"get": 5}


@pytest.mark.parametrize("newest", [3, 4, 5])
async def test_a_hint_may_be_late(newest: int) -> None:
    """Versions after the hinted one are found as long as there is a next number."""
    files = {f"v{number}.metadata.json": _file(number) for number in range(2, newest + 1)}
    table, _ = await _loaded(f"late{newest}", {"version-hint.text": b"2", **files})
    assert table.last_sequence_number == newest


@pytest.mark.parametrize("end", [".gz.metadata.json", ".metadata.json.gz"])
async def test_hinted_versions_may_be_compressed(end: str) -> None:
    """Both spellings of compressed versions are found, also behind a plain one."""
    files = {"version-hint.text": b"1", "v1.metadata.json": _file(1), f"v2{end}": _file(2, compressed=True)}
    table, _ = await _loaded(f"compressed{len(end)}-{end[1]}", files)
    assert table.last_sequence_number == 2


async def test_a_hint_may_be_a_name() -> None:
    """Some writers name the file instead of a number."""
    files = {"version-hint.text": b"00009-abc", "00009-abc.metadata.json": _file(9)}
    table, _ = await _loaded("named", files)
    assert table.last_sequence_number == 9


async def test_without_a_hint_the_highest_number_counts() -> None:
    """The listing decides by number and not by name; other files of the folder are passed over."""
    files = {
        "00002-b.metadata.json": _file(2),
        "00010-a.metadata.json": _file(10),
        "v9.metadata.json": _file(9),
        "snap-99999.avro": b"",
        "99999-x.avro": b"",
        "metadata.json": b"",
    }
    table, cost = await _loaded("listed", files)
    assert table.last_sequence_number == 10
    assert cost.by_kind() == {"get": 2, "list": 1}


async def test_a_dead_hint_is_passed_over() -> None:
    """Where the version that a hint names is gone, the listing decides."""
    files = {"version-hint.text": b"3", "v7.metadata.json": _file(7)}
    table, _ = await _loaded("dead", files)
    assert table.last_sequence_number == 7


async def test_of_one_number_the_last_update_counts() -> None:
    """Of two files of the highest number, one lost a race: the one that was updated last is taken."""
    files = {
        "00004-z.metadata.json": _file(1, at=1_600_000_000_000),
        "00004-a.metadata.json": _file(2, at=1_600_000_000_001),
        "00004-b.gz.metadata.json": _file(3, at=1_600_000_000_001, compressed=True),
    }
    table, _ = await _loaded("tie", files)
    assert table.last_sequence_number == 3


async def test_no_metadata_are_not_found() -> None:
    """A directory without metadata is an error that says what to give."""
    with pytest.raises(
        NotFoundError, match="no metadata of an Iceberg table at memory://iceberg-opening/none"
    ):
        await _loaded("none", {})


@pytest.mark.parametrize("hint", [b"", b"../../x", b"\x00\x01", b"\xff\xfe/"])
async def test_a_senseless_hint_is_corruption(hint: bytes) -> None:
    """A hint that is neither a number nor a name is damage, and what to do is said."""
    with pytest.raises(CorruptionError, match="which is no version: remove it, or open a metadata file"):
        await _loaded(f"senseless{hint.hex()}", {"version-hint.text": hint})


@pytest.mark.parametrize(
    ("url", "is_file"),
    [
        ("s3://b/t", False),
        ("s3://b/t/", False),
        ("s3://b/t/metadata/v1.metadata.json", True),
        ("s3://b/t/metadata/v1.metadata.json.gz", True),
        ("s3://b/t/metadata/v1.gz.metadata.json", True),
    ],
)
def test_files_are_told_from_directories(url: str, is_file: bool) -> None:
    """The ending tells, without a request."""
    assert is_metadata_file(url) is is_file


async def test_plain_paths_are_opened(tmp_path: Path) -> None:
    """A directory of the machine is opened by its path, with characters that URLs quote."""
    root = tmp_path / "a b%20c" / "t"
    (root / "metadata").mkdir(parents=True)
    made: dict[str, Any] = document(location=f"file:{root}")
    (root / "metadata" / "00001-x.metadata.json").write_bytes(encoded(made))
    async with open_locations(str(root)) as locations:
        await load_metadata(locations, str(root))
        assert locations.find(f"file:{root}/data/x").key == "data/x"
