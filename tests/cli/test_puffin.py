"""The commands about indexes, run as a person runs them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakehouse.format.puffin.builder import PuffinBuilder
from lakehouse.format.puffin.deletion_vector import (
    DELETION_VECTOR,
    deletion_vector_properties,
    encode_deletion_vector,
)
from lakehouse.format.puffin.theta_sketch import THETA_SKETCH
from lakehouse.testing.index_files import all_kinds
from tests.cli.test_store import lakehouse
from tests.kit.region_manifests import change, delta, edit, file

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


def test_a_scan_shows_how_far_it_is(bucket: Path) -> None:
    """On a terminal a line counts files and indexes, and is gone at the end; elsewhere there is none."""
    ours, theirs = pty.openpty()
    done = lakehouse_on(theirs, "index-metas", str(bucket), "--format", "ndjson")
    os.close(theirs)
    shown = drained(ours)
    assert len(done.stdout.splitlines()) == 15
    assert b"3 files, 15 indexes, 0 bad" in shown
    assert shown.rstrip().endswith(b"\x1b[2K")
    assert lakehouse("index-metas", str(bucket), "--format", "ndjson").stderr == b""


def lakehouse_on(terminal: int, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Runs ``lakehouse`` with a terminal for its standard error."""
    command = [sys.executable, "-c", "from lakehouse.cli import main; main()", *words]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=terminal, timeout=60, check=True, env=environment
    )


def drained(terminal: int) -> bytes:
    """What was written to a terminal whose other side is closed."""
    shown = b""
    with contextlib.suppress(OSError):  # the end, on Linux
        while part := os.read(terminal, 1 << 16):
            shown += part
    os.close(terminal)
    return shown


def test_files_that_no_manifest_names_are_told(bucket: Path) -> None:
    """With ``--source manifest`` only files count that a manifest names, and the others are told of."""
    region = bucket / "data/greptime/public/1024/1024_0000000002"
    named = file(0, size=len(all_kinds()), region=1024 << 32 | 2)
    named["file_id"] = FILE_ID.format(0)
    for objects in (delta(0, change(1024 << 32 | 2)), delta(1, edit(add=[named]))):
        for name, data in objects.items():
            (region / name).parent.mkdir(parents=True, exist_ok=True)
            (region / name).write_bytes(data)
    done = lakehouse("index-metas", str(bucket), "--source", "manifest", "--format", "ndjson")
    assert {json.loads(line)["file_id"] for line in done.stdout.splitlines()} == {FILE_ID.format(0)}
    assert b"2 index files are named by no manifest" in done.stderr
    assert done.returncode == 0


def test_a_table_is_not_written_to_a_file(bucket: Path, tmp_path: Path) -> None:
    """A table is for people; what goes to a file is asked for by its format."""
    done = lakehouse("index-metas", str(bucket), "--output", str(tmp_path / "x"))
    assert done.returncode == 1
    assert b"ndjson or parquet" in done.stderr


def test_puffin_inspect_knows_icebergs_blobs(tmp_path: Path) -> None:
    """Deletion vectors and sketches are named by what their properties say of them."""
    builder = PuffinBuilder()
    vector = encode_deletion_vector([1, 5, 9])
    parts = [
        *builder.add(DELETION_VECTOR, vector, properties=deletion_vector_properties("s3://b/f", 3)),
        *builder.add(THETA_SKETCH, b"", properties={"ndv": "1234"}),
        builder.finish(),
    ]
    (tmp_path / "x.puffin").write_bytes(b"".join(parts))
    done = lakehouse("puffin", "inspect", f"{tmp_path}/x.puffin", env={**os.environ, "COLUMNS": "160"})
    assert b"3 deleted rows" in done.stdout
    assert b"1,234 distinct values" in done.stdout


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
    here = f"{FILE_ID.format(0)}.puffin"
    assert lakehouse("puffin", "cat", here, "2", cwd=bucket / INDEX_DIR).stdout == b'{"files":[]}'
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
