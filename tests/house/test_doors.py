"""Only lakehouse.io opens paths and URLs, and the scan that says so can fail."""

from __future__ import annotations

import pytest

from tests.house.allowances import IO_MARKS
from tests.house.doors import doors, marked_lines
from tests.house.source_tree import library, none_of, parse, within


def test_only_io_opens_anything() -> None:
    """Every byte from outside comes through the object store, where it is counted and bounded."""
    none_of(doors(library()), "doors outside lakehouse/io:")


def test_marked_lines_are_counted() -> None:
    """Each line that says it is no door is on a list with its reason."""
    marks = [(path, path) for path, count in marked_lines(library()).items() for _ in range(count)]
    within(marks, IO_MARKS, "lines marked '# io-ok' (list them in tests/house/allowances.py):")


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "with open(p, 'rb') as f: pass",
        "io.open(p)",
        "os.open(p, 0)",
        "os.path.exists(p)",
        "Path(p).read_text()",
        "path.write_bytes(b'')",
        "Path(p).open()",
        "pq.read_table(source)",
        "pyarrow.parquet.ParquetFile(source)",
        "pq.write_table(t, sink)",
        "csv.read_csv(p)",
        "pyarrow.feather.read_table(p)",
        "dataset.dataset(p)",
        "read = to_thread.run_sync(pq.read_table, p)",
        "datafusion.read_avro(p)",
        "fsspec.open(p)",
        "fsspec.filesystem('s3')",
        "import urllib.request",
        "from urllib.request import urlopen",
        "import requests",
        "import sqlite3",
        "duckdb.connect('x.db')",
        "duckdb.connect(database=path)",
        "tempfile.mkdtemp()",
        "np.load(p)",
        "pa.memory_map(p)",
    ],
)
def test_the_scan_finds_a_door(text: str) -> None:
    """What opens a path or a URL is found outside io, and is at home inside."""
    assert list(doors([parse("lakehouse/storage/x.py", text)]))
    assert not list(doors([parse("lakehouse/io/x.py", text)]))
    assert not list(doors([parse("lakehouse/io/backends/x.py", text)]))


@pytest.mark.parametrize(
    "text",
    [
        "duckdb.connect()",
        "duckdb.connect(':memory:')",
        "store.open(key)",
        "text.replace('a', 'b')",
        "requests.append(1)",
        "def f(file: pq.ParquetFile) -> pq.ParquetFile: ...",
        "pq.read_table(  # io-ok: a buffer\n    source)",
        "open(fd)  # io-ok: a descriptor we were given",
    ],
)
def test_the_scan_accepts_what_is_no_door(text: str) -> None:
    """Memory, annotations, other things of the same name and marked lines are left alone."""
    assert not list(doors([parse("lakehouse/storage/x.py", text)]))


def test_a_mark_needs_a_reason() -> None:
    """A mark without a reason marks nothing."""
    assert list(doors([parse("lakehouse/storage/x.py", "open(p)  # io-ok:")]))


def test_marks_are_counted_by_file() -> None:
    """Counting sees each marked line, and no file without one."""
    marked = parse("lakehouse/sql/x.py", "a = 1  # io-ok: one\nb = 2  # io-ok: two\n")
    assert marked_lines([marked, parse("lakehouse/sql/y.py", "")]) == {"lakehouse/sql/x.py": 2}
