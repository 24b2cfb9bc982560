"""Tantivy indexes in puffin files: written as GreptimeDB does, found again, searched row by row."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.expr import col, parse_where
from lakehouse.format.puffin.builder import PuffinBuilder
from lakehouse.format.schema.target_key import ColumnTarget
from lakehouse.format.text.config import Analyzer, FulltextConfig
from lakehouse.format.text.match import matches
from lakehouse.format.text.tokens import query_tokens, tokenize
from lakehouse.index.building.builder import IndexSpec, PuffinIndexBuilder
from lakehouse.index.models import IndexType
from lakehouse.index.puffin.reader import PuffinReader
from lakehouse.index.puffin.tantivy import english_analyzer, phrases_of
from lakehouse.index.puffin.writer import PuffinWriter
from lakehouse.index.search.searcher import IndexSearcher
from lakehouse.io.scratch import ScratchSpace
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.tantivy_samples import sample_file, sample_files, sample_texts

BLOB = "greptime-fulltext-index-v1-1"
COLUMNS = {"text": (1, pa.string())}
PIECES = [
    "Hello",
    "full",
    "b",
    "WORLD",
    "disk_full",
    "a_b_c",
    "_",
    "__x",
    "ΟΔΟΣ",
    "οδος",
    "İx",
    "Straße",
    "3.14%",
    "…",
    "é",
    "中文",
]
CHINESE_PIECES = [
    "我喜欢苹果",
    "user",
    "登录手机号",
    "手机",
    "key829889AC8",
    "user_id",
    "3.14%",
    "。",
    " ",
    "ABC",
    "plain text",
]


async def indexed(
    texts: Sequence[str | None], scratch: ScratchSpace, *, table_style: bool = False, **how: object
) -> RecordingStore:
    """A store with the index file over some texts."""
    spec = IndexSpec(kind=IndexType.FULLTEXT_TANTIVY, target=ColumnTarget(column_id=1), **how)  # type: ignore[arg-type]
    store = RecordingStore(memory_store())
    async with scratch.workspace() as workspace:
        builder = PuffinIndexBuilder([spec], {1: "text"}, table_style=table_style, workspace=workspace)
        for start in range(0, len(texts), 3):
            builder.push(pa.record_batch({"text": pa.array(texts[start : start + 3], pa.string())}))
        async with PuffinWriter(store, "x.puffin") as writer:
            await builder.finish(writer)
    store.clear()
    return store


async def stored(data: bytes) -> RecordingStore:
    """A store with that file."""
    store = RecordingStore(memory_store())
    await store.put("x.puffin", data)
    store.clear()
    return store


async def found_rows(store: RecordingStore, scratch: ScratchSpace, terms: str, count: int) -> list[int]:
    """The rows a search for some words leaves."""
    searcher = IndexSearcher(PuffinReader(store, "x.puffin"), COLUMNS, row_count=count, scratch=scratch)
    return np.flatnonzero((await searcher.may_match(col("text").matches(terms))).mask().tolist()).tolist()


async def test_rows_are_found_exactly() -> None:
    """A search for words of letters and digits finds the rows that have them all, and no other."""
    texts = ["Hello, world", "hello there", None, "WORLD hello", "", "other worlds"]
    async with ScratchSpace() as scratch:
        store = await indexed(texts, scratch)
        for terms, rows in (("hello", [0, 1, 3]), ("World HELLO", [0, 3]), ("worlds", [5]), ("no", [])):
            assert await found_rows(store, scratch, terms, 6) == rows
        assert await found_rows(store, scratch, "...", 6) == [0, 1, 2, 3, 4, 5]


async def test_the_file_is_as_upstream_lays_it_out() -> None:
    """One blob for each file, its type a UUID, then the directory blob, which lists them."""
    async with ScratchSpace() as scratch:
        store = await indexed(["a b"], scratch)
        *files, directory = (await PuffinReader(store, "x.puffin").footer()).blobs
        assert directory.type == BLOB
        assert directory.properties == {"fulltext_config": '{"analyzer":"English","case_sensitive":false}'}
        listed = json.loads(await PuffinReader(store, "x.puffin").blob(directory))["files"]
        assert [(file["key"], file["blob_index"]) for file in listed] == [
            (blob.type, place) for place, blob in enumerate(files)
        ]
        assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", blob.type) for blob in files)
        assert {blob.codec for blob in files} == {"zstd"}
        assert {file["relative_path"].rpartition(".")[2] for file in listed} == {
            *("fast", "fieldnorm", "idx", "json", "lock", "pos", "store", "term")
        }
        plain = await indexed(["a b"], scratch, compress=False)
        assert {blob.codec for blob in (await PuffinReader(plain, "x.puffin").footer()).blobs} == {None}


@pytest.mark.parametrize("name", ["english-one", "chinese"])
async def test_terms_are_byte_for_byte_those_of_the_crates(name: str) -> None:
    """Terms, postings, positions and norms are the bytes GreptimeDB's crates write for the same texts."""
    theirs = {suffix_of(path): data for path, data in sample_files(name).items()}
    spec = IndexSpec(
        kind=IndexType.FULLTEXT_TANTIVY, target=ColumnTarget(column_id=1), analyzer=ANALYZER[name]
    )
    store = memory_store()
    async with ScratchSpace() as scratch, scratch.workspace() as workspace:
        builder = PuffinIndexBuilder([spec], {1: "text"}, workspace=workspace)
        builder.push(pa.record_batch({"text": sample_texts(name)}))
        async with PuffinWriter(store, "x.puffin") as writer:
            await builder.finish(writer)
    reader = PuffinReader(store, "x.puffin")
    files = json.loads(await reader.blob(BLOB))["files"]
    ours = {suffix_of(file["relative_path"]): await reader.blob(file["key"]) for file in files}
    for suffix in ("term", "idx", "pos", "fieldnorm"):
        assert body_of(ours[suffix]) == body_of(theirs[suffix]), suffix


ANALYZER = {
    "english": Analyzer.ENGLISH,
    "english-one": Analyzer.ENGLISH,
    "chinese": Analyzer.CHINESE,
}


def suffix_of(path: str) -> str:
    """What kind of file it is."""
    return path.rpartition(".")[2]


def body_of(data: bytes) -> bytes:
    """A tantivy file without the footer, which names the version that wrote it."""
    return data[: -8 - int.from_bytes(data[-8:-4], "little")]


@pytest.mark.parametrize(
    ("name", "terms", "rows"),
    [
        ("english", "hello", [0, 6]),
        ("english", "FULL disk", [0, 1, 2, 9]),
        ("english", "disk_full", [0, 2]),
        ("english", "user_id_42", [6]),
        ("english", "straße", [5]),
        ("english", "nobody", []),
        ("english-one", "WORLD", [0, 7, 9]),
        ("chinese", "苹果", [0, 5]),
        ("chinese", "手机", [1, 5]),
        ("chinese", "你好 世界", [4]),
    ],
)
async def test_files_of_the_crates_are_searched(name: str, terms: str, rows: list[int]) -> None:
    """Files whose documents are zstd, of one segment and of several, give the rows with the words."""
    texts = pa.array(sample_texts(name))
    wanted = matches(texts, terms, FulltextConfig(analyzer=ANALYZER[name])).to_numpy(zero_copy_only=False)
    async with ScratchSpace() as scratch:
        store = await stored(sample_file(name))
        assert await found_rows(store, scratch, terms, len(texts)) == rows
    assert set(np.flatnonzero(wanted).tolist()) <= set(rows)


@settings(max_examples=6, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map(" ".join), min_size=1, max_size=8),
    case_sensitive=st.booleans(),
)
async def test_english_rows_are_never_lost(texts: list[str], case_sensitive: bool) -> None:
    """Every row that has the words is found, whatever letters they are made of."""
    await check_rows(texts, PIECES, Analyzer.ENGLISH, case_sensitive, table_style=False)


@settings(max_examples=6, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(CHINESE_PIECES), max_size=4).map("".join), min_size=1, max_size=8
    ),
    table_style=st.booleans(),
)
async def test_chinese_rows_are_never_lost(texts: list[str], table_style: bool) -> None:
    """Every row that has the tokens is found, in files like GreptimeDB's and in ours."""
    await check_rows(texts, CHINESE_PIECES, Analyzer.CHINESE, False, table_style=table_style)


async def check_rows(
    texts: list[str], pieces: list[str], analyzer: Analyzer, case_sensitive: bool, *, table_style: bool
) -> None:
    """Rows found are those that match, and those that do where names with ``_`` are several words."""
    config = FulltextConfig(analyzer=analyzer, case_sensitive=case_sensitive)
    cut_names = [text.replace("_", " ") for text in texts]
    async with ScratchSpace() as scratch:
        store = await indexed(
            texts, scratch, table_style=table_style, analyzer=analyzer, case_sensitive=case_sensitive
        )
        for terms in [*pieces, *map(" ".join, itertools.pairwise(pieces))]:
            wanted = matching_rows(texts, terms, config)
            found = await found_rows(store, scratch, terms, len(texts))
            assert set(wanted) <= set(found), terms
            words = [token.decode() for token in query_tokens(terms, config)]
            if all(word.isalnum() and is_looked_for(word, config, table_style) for word in words):
                assert set(found) <= {*wanted, *matching_rows(cut_names, terms, config)}, terms


def matching_rows(texts: list[str], terms: str, config: FulltextConfig) -> list[int]:
    """The rows that a scan finds."""
    found = matches(pa.array(texts), terms, config).to_numpy(zero_copy_only=False)
    return [int(row) for row in np.flatnonzero(found)]


def is_looked_for(word: str, config: FulltextConfig, table_style: bool) -> bool:
    """Whether a search of the index asks for that word, and does not leave it out."""
    style = table_style and config.analyzer is Analyzer.CHINESE
    return bool(phrases_of(word, config, own_tokens=style))


@pytest.mark.parametrize("case_sensitive", [True, False])
def test_every_character_is_the_same_to_both(case_sensitive: bool) -> None:
    """Whatever character stands in it, tantivy cuts and lowers a text as ours does, but for ``_``."""
    # Behind two planes there are ideographs, alike all of them, and nothing.
    config = FulltextConfig(case_sensitive=case_sensitive)
    points = [*range(0xD800), *range(0xE000, 0x20000), *range(0x20000, 0x110000, 97)]
    chars = [chr(point) for point in points]
    chars.remove("_")
    texts = [
        " ".join(f"a{char}B" for char in chars[start : start + 512]) for start in range(0, len(chars), 512)
    ]
    analyzer = english_analyzer(config)
    for text, tokens in zip(texts, tokenize(pa.array(texts), config).to_pylist(), strict=True):
        assert analyzer.analyze(text) == [token.decode() for token in tokens]


def test_what_is_looked_for() -> None:
    """English words become phrases of tantivy's; what the two spell in different ways is left out."""
    english, chinese = FulltextConfig(), FulltextConfig(analyzer=Analyzer.CHINESE)
    assert phrases_of("Disk_Full at 3.14", english) == (("disk", "full"), ("at",), ("3",), ("14",))
    assert phrases_of("Disk _ ΟΔΟΣ", english) == (("disk",),)
    assert phrases_of("ΟΔΟΣ", FulltextConfig(case_sensitive=True)) == (("ΟΔΟΣ",),)
    assert phrases_of("x" * 70_000, english) == ()
    assert phrases_of("手机 key", chinese) == (("手机",),)
    assert phrases_of("手机 KEY", chinese, own_tokens=True) == (("手机",), ("key",))


async def test_a_second_search_fetches_nothing() -> None:
    """Unpacked files stay in scratch space, for this reader and for others of the file."""
    async with ScratchSpace() as scratch:
        store = await indexed(["a b", "c"], scratch)
        assert await found_rows(store, scratch, "c", 2) == [1]
        assert store.kinds() == {"get": 1}
        used = scratch.used_bytes
        reader = PuffinReader(store, "x.puffin")
        store.clear()
        for terms in ("a", "b c"):
            searcher = IndexSearcher(reader, COLUMNS, row_count=2, scratch=scratch)
            await searcher.may_match(col("text").matches(terms))
        assert store.kinds() == {"get": 1}
        assert scratch.used_bytes == used


async def test_nothing_is_unpacked_where_no_row_is_left() -> None:
    """Tantivy is asked last, and not at all when cheaper answers leave no row."""
    specs = [
        IndexSpec(kind=kind, target=ColumnTarget(column_id=column_id))
        for kind, column_id in ((IndexType.FULLTEXT_TANTIVY, 1), (IndexType.INVERTED, 2))
    ]
    store = RecordingStore(memory_store())
    async with ScratchSpace() as scratch:
        async with scratch.workspace() as workspace:
            builder = PuffinIndexBuilder(specs, {1: "text", 2: "n"}, workspace=workspace)
            builder.push(pa.record_batch({"text": ["a"], "n": [1]}))
            async with PuffinWriter(store, "x.puffin") as writer:
                await builder.finish(writer)
        searcher = IndexSearcher(
            PuffinReader(store, "x.puffin"), {**COLUMNS, "n": (2, pa.int64())}, scratch=scratch
        )
        found = await searcher.may_match(parse_where("n = 2 and matches(text, 'a')"))
        assert found.is_empty
        assert scratch.used_bytes == 0
        assert not (await searcher.may_match(parse_where("n = 1 and matches(text, 'a')"))).is_empty
        assert scratch.used_bytes > 0


async def test_without_scratch_space_or_package_every_row_may_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that cannot use tantivy does without it."""
    async with ScratchSpace() as scratch:
        store = await indexed(["a", "b"], scratch)
        reader = PuffinReader(store, "x.puffin")
        without = IndexSearcher(reader, COLUMNS, row_count=2)
        assert (await without.may_match(col("text").matches("a"))).is_all
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        missing = IndexSearcher(reader, COLUMNS, row_count=2, scratch=scratch)
        assert (await missing.may_match(col("text").matches("a"))).is_all


@pytest.mark.parametrize("package", ["tantivy", "rjieba"])
async def test_building_without_a_package_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a package an index cannot be built, and the error has the command that helps."""
    monkeypatch.setitem(sys.modules, package, None)
    async with ScratchSpace() as scratch:
        with pytest.raises(InvalidInputError, match=r"pip install 'aiolakehouse\[fulltext\]'") as missing:
            await indexed(["a"], scratch, analyzer=Analyzer.CHINESE)
    assert missing.value.kind == "missing-extra"


async def test_an_index_of_another_file_is_noticed() -> None:
    """An index of another number of rows than the data file has is damage, not an answer."""
    async with ScratchSpace() as scratch:
        store = await indexed(["a", "b"], scratch)
        with pytest.raises(CorruptionError, match=r"x\.puffin.*is about 2 rows, the data file has 3"):
            await found_rows(store, scratch, "a", 3)


def repacked(files: dict[str, bytes], *, keys: Sequence[str] = ()) -> bytes:
    """A puffin file with these files of an index."""
    builder = PuffinBuilder()
    parts: list[bytes | memoryview] = []
    listed = []
    for place, (path, data) in enumerate(files.items()):
        parts += builder.add(f"key-{place}", data)
        listed.append({"relative_path": path, "blob_index": place, "key": f"key-{place}"})
    for entry, key in zip(listed, keys, strict=False):
        entry["key"] = key
    parts += builder.add(BLOB, json.dumps({"files": listed}).encode())
    return b"".join([*parts, builder.finish()])


@pytest.mark.parametrize(
    "damage",
    ["meta.json", ".managed.json", "term", "idx", "store", "fieldnorm"],
)
async def test_damaged_files_are_an_error_or_an_answer(damage: str, tmp_path: Path) -> None:
    """Files that tantivy cannot read are an error that names the file, also where it would panic."""
    files = sample_files("chinese")
    (path,) = (path for path in files if path.endswith(damage))
    for data in (b"", files[path][:-1], files[path][: len(files[path]) // 2], bytes(len(files[path]))):
        store = await stored(repacked({**files, path: data}))
        async with ScratchSpace(parent=str(tmp_path)) as scratch:
            try:
                await found_rows(store, scratch, "苹果", len(sample_texts("chinese")))
            except CorruptionError as error:
                assert "x.puffin" in str(error)  # noqa: PT017 - a file that is not looked at does no harm
    assert os.listdir(tmp_path) == []


async def test_a_directory_that_names_other_blobs() -> None:
    """A directory whose keys are not those of the blobs is damage."""
    store = await stored(repacked(sample_files("chinese"), keys=["other"]))
    async with ScratchSpace() as scratch:
        with pytest.raises(CorruptionError, match="which is another"):
            await found_rows(store, scratch, "苹果", 6)
