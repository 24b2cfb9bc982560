"""The commands about indexes, run as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakehouse.testing.index_files import all_kinds
from tests.cli.test_store import lakehouse

INDEX_DIR = "data/greptime/public/1024/1024_0000000002/index"
FILE_ID = "0123abcd-0000-4000-8000-00000000000{}"


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """A GreptimeDB data directory with three index files."""
    directory = tmp_path / "bucket" / INDEX_DIR
    directory.mkdir(parents=True)
    for number in range(3):
        (directory / f"{FILE_ID.format(number)}.puffin").write_bytes(all_kinds())
    return tmp_path / "bucket"


def test_index_metas_prints_a_table(bucket: Path) -> None:
    """The default is a table for people."""
    done = lakehouse("index-metas", str(bucket))
    assert done.returncode == 0
    assert done.stdout.decode().count("bloom_skipping") == 3


@pytest.mark.parametrize(("shape", "word"), [("compact", "bloom_skipping"), ("greptime", "bloom_filter")])
def test_index_metas_as_ndjson(bucket: Path, shape: str, word: str) -> None:
    """NDJSON is one object per row, in the shape asked for; a GreptimeDB directory is recognised."""
    done = lakehouse("index-metas", str(bucket), "--format", "ndjson", "--shape", shape)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 15
    assert {row["index_type"] for row in rows} >= {word, "inverted"}
    assert {row["region_id"] for row in rows} == {1024 << 32 | 2}


def test_index_metas_as_parquet(bucket: Path, tmp_path: Path) -> None:
    """Parquet goes to a file or URL, and other readers read it."""
    target = tmp_path / "out.parquet"
    done = lakehouse(
        "index-metas", str(bucket), "--format", "parquet", "--shape", "flat", "--output", str(target)
    )
    assert done.returncode == 0, done.stderr
    assert pq.read_table(target).num_rows == 15
    refused = lakehouse("index-metas", str(bucket), "--format", "parquet")
    assert b"--output" in refused.stderr


def test_index_metas_tells_its_cost(bucket: Path) -> None:
    """--stats says on standard error what was read: one GET per file."""
    done = lakehouse("index-metas", str(bucket), "--format", "ndjson", "--stats", "--kind", "inverted")
    stats = json.loads(done.stderr)
    assert stats["entries"] == {"inverted": 6}
    assert stats["cost"]["requests"]["get"] == 3


def test_bad_files_are_named_and_change_the_exit_code(bucket: Path) -> None:
    """A file that cannot be read is named once on standard error; the others are listed; the code is 4."""
    (bucket / INDEX_DIR / f"{FILE_ID.format(7)}.puffin").write_bytes(b"garbage" * 10)
    done = lakehouse("index-metas", str(bucket), "--format", "ndjson")
    assert done.returncode == 4
    assert len(done.stdout.splitlines()) == 15
    assert done.stderr.decode().replace("\n", "").count(f"{FILE_ID.format(7)}.puffin: ") >= 1


def test_puffin_inspect(bucket: Path) -> None:
    """Inspect shows the file, its blobs and GreptimeDB-shaped entries."""
    url = f"{bucket}/{INDEX_DIR}/{FILE_ID.format(0)}.puffin"
    shown = json.loads(lakehouse("puffin", "inspect", url, "--json").stdout)
    assert shown["file"]["size"] == len(all_kinds())
    assert shown["blobs"][0]["type"] == "greptime-inverted-index-v1"
    assert [entry["index_type"] for entry in shown["entries"]] == [
        "bloom_filter",
        "fulltext_bloom",
        "fulltext_tantivy",
        "inverted",
        "inverted",
    ]
    assert b"rows_per_segment=2" in lakehouse("puffin", "inspect", url).stdout.replace(b"\n", b"")


def test_puffin_cat(bucket: Path) -> None:
    """Cat writes a blob's content, by type or by number."""
    url = f"{bucket}/{INDEX_DIR}/{FILE_ID.format(0)}.puffin"
    assert lakehouse("puffin", "cat", url, "greptime-fulltext-index-v1-5").stdout == b'{"files":[]}'
    assert lakehouse("puffin", "cat", url, "2").stdout == b'{"files":[]}'
    assert b"has no blob" in lakehouse("puffin", "cat", url, "nothing").stderr


def test_puffin_search(bucket: Path) -> None:
    """Search says which rows may match, by column id, and costs few requests."""
    url = f"{bucket}/{INDEX_DIR}/{FILE_ID.format(0)}.puffin"
    found = json.loads(lakehouse("puffin", "search", url, "--where", "col1 = 7.0", "--json").stdout)
    assert found["total_rows"] == 20
    assert any(start <= 7 < end for start, end in found["ranges"])
    assert found["rows"] < 20
    nothing = lakehouse("puffin", "search", url, "--where", "col1 in (99.0)", "--json")
    assert json.loads(nothing.stdout)["rows"] <= 2
    shown = lakehouse("puffin", "search", url, "--where", "col1 = 7", "--type", "1=double").stdout.decode()
    assert "of 20 rows may match" in shown
    assert b"col3 for column 3" in lakehouse("puffin", "search", url, "--where", "host = 'a'").stderr
