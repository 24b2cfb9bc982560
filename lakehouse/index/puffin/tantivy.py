"""Fulltext indexes by tantivy: written to a directory by the ``tantivy`` package, and searched there.

The index is GreptimeDB's: text field ``greptime_fulltext_text`` with positions, stored number
``greptime_fulltext_rowid``, one thread that adds rows in order. What differs, because the package
leaves no choice or because it makes searches faster, says ``docs/spec/v1/index-tantivy.md``.

Its tokens are not quite those of :func:`lakehouse.format.text.match.matches`: English words are
cut at ``_`` too. So a query becomes phrases, and tokens that the two spell in different ways are
left out of it.

Invariant: the rows found hold every row that ``matches`` finds. They hold others where the parts of a
name with ``_`` count as words (``full`` finds ``disk_full``, and ``disk_full`` finds ``disk full``), and
where a token was left out. That is so for indexes of the package's own versions of Unicode and
jieba; which ones another writer had, no file says.

The package is optional. Everything here imports it when it is called, and is called in threads.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse._version import install_command
from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.index import TantivyDirectory, TantivyFile
from lakehouse.format.text import Analyzer, FulltextConfig, query_tokens, tokenize
from lakehouse.ids import new_uuid
from lakehouse.index.puffin.writer import BlobSink
from lakehouse.io.scratch import Workspace
from lakehouse.io.work import in_thread
from lakehouse.kernels.arrays import I64

__all__ = [
    "OWN_TOKENS",
    "ROW_FIELD",
    "TEXT_FIELD",
    "TantivyWriter",
    "english_analyzer",
    "is_installed",
    "phrases_of",
    "rows_with_phrases",
]

TEXT_FIELD = "greptime_fulltext_text"
"""Field of the text."""
ROW_FIELD = "greptime_fulltext_rowid"
"""Field of the row number, from 0."""
OWN_TOKENS = "fulltext_tokens"
"""Blob property; ``row`` says that all tokens of :func:`tokenize` are terms of the index."""
_TOKENIZER = "default"
_HEAP_BYTES = 128 << 20
"""Memory for a segment; text beyond it begins another one."""
_TERM_BYTES_MAX = 65_000
"""tantivy leaves longer terms out."""
_SIGMAS = frozenset("Σσς")
"""Letters whose lower case goes by their neighbours for us, and does not for tantivy."""


def is_installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("tantivy") is not None


def _package() -> Any:
    try:
        import tantivy
    except ImportError as error:
        raise _missing("tantivy indexes need the tantivy package") from error
    return tantivy


def _jieba() -> Any:
    try:
        import rjieba
    except ImportError as error:
        raise _missing("cutting Chinese text needs the rjieba package") from error
    return rjieba


def _missing(what: str) -> InvalidInputError:
    return InvalidInputError(f"{what}: {install_command('fulltext')}", kind="missing-extra")


class TantivyWriter:
    """Indexes a column of text that comes in pieces.

    Args:
        workspace: where the package keeps its files.
        config: how text becomes tokens.
        own_tokens: of Chinese texts, also add those tokens of :func:`tokenize` that GreptimeDB's
            analyzer does not make, so that ASCII words can be searched. A search has to know of
            them, from the property :data:`OWN_TOKENS`.
    """

    def __init__(self, workspace: Workspace, config: FulltextConfig, *, own_tokens: bool = False) -> None:
        self._tantivy = _package()
        self._jieba: Any = _jieba() if config.analyzer is Analyzer.CHINESE else None
        self._workspace = workspace
        self._directory = workspace.subdirectory()
        self._config = config
        self._own_tokens = own_tokens and config.analyzer is Analyzer.CHINESE
        schema = self._tantivy.SchemaBuilder()
        schema.add_text_field(TEXT_FIELD, tokenizer_name=_TOKENIZER, index_option="position")
        schema.add_unsigned_field(ROW_FIELD, stored=True, fast=True)
        index = self._tantivy.Index(schema.build(), path=self._directory)
        index.register_tokenizer(_TOKENIZER, english_analyzer(config))
        self._writer: Any = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        self._rows = 0

    @property
    def properties(self) -> Mapping[str, str]:
        """What a search has to know beside the configuration."""
        return {OWN_TOKENS: "row"} if self._own_tokens else {}

    def push(self, texts: pa.Array) -> None:
        """Adds rows; a null is a text without words. The package takes one row at a time."""
        add, document = self._writer.add_document, self._tantivy.Document
        contents: Any = texts.to_pylist()
        if self._config.analyzer is Analyzer.CHINESE:
            own = tokenize(texts, self._config).to_pylist() if self._own_tokens else [[]] * len(texts)
            contents = [self._cut(text or "", found) for text, found in zip(contents, own, strict=True)]
        for row, content in enumerate(contents, start=self._rows):
            one = document()
            if isinstance(content, str):
                one.add_text(TEXT_FIELD, content)
            elif content is not None:
                one.add_pre_tokenized_text(TEXT_FIELD, content)
            one.add_unsigned(ROW_FIELD, row)
            add(one)
        self._rows += len(texts)

    def _cut(self, text: str, own: list[bytes]) -> Any:
        """A Chinese text with GreptimeDB's tokens, and behind them these, where they are others."""
        token = self._tantivy.Token
        lower = (lambda word: word) if self._config.case_sensitive else _lower_each
        # A token's position is its first character's place, as upstream has it.
        cuts = self._jieba.tokenize(text, mode="search")
        found = [token(lower(word), start, start, end) for word, start, end in cuts]
        known = {one.text for one in found}
        others = [word for word in dict.fromkeys(map(bytes.decode, own)) if word not in known]
        # With gaps, so that no phrase goes on from the text into the words behind it.
        found += [token(word, len(text) + 2 * at, 0, 0) for at, word in enumerate(others, start=1)]
        return self._tantivy.PreTokenizedString(text, found)

    async def finish(
        self, writer: BlobSink, blob_type: str, properties: Mapping[str, str], *, compress: bool
    ) -> None:
        """Writes a blob for each file and the directory blob behind them; the writer is used up."""
        await in_thread(self._commit)
        files: list[TantivyFile] = []
        for path, _ in await self._workspace.files(self._directory):
            data = await self._workspace.read(self._directory, path)
            key = str(new_uuid())
            files.append(TantivyFile(relative_path=path, blob_index=len(writer.footer.blobs), key=key))
            await writer.add(key, data, codec="zstd" if compress else None)
        directory = TantivyDirectory(files=tuple(files)).encode()
        await writer.add(blob_type, directory, properties={**properties, **self.properties})

    def _commit(self) -> None:
        self._writer.commit()
        self._writer.wait_merging_threads()
        self._writer = None


def english_analyzer(config: FulltextConfig) -> Any:
    """GreptimeDB's English analyzer; without the package's own, which drops long words."""
    tantivy = _package()
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    return (builder if config.case_sensitive else builder.filter(tantivy.Filter.lowercase())).build()


def _lower_each(word: str) -> str:
    """Lower case letter by letter, as tantivy has it."""
    return "".join(map(str.lower, word))


def phrases_of(
    terms: str, config: FulltextConfig, *, own_tokens: bool = False
) -> tuple[tuple[str, ...], ...]:
    """The phrases that a row with all words of a query has in the index; none = any row may match.

    Args:
        terms: the query.
        config: of the index.
        own_tokens: whether the index has the property :data:`OWN_TOKENS`.
    """
    if own_tokens:
        return tuple((token.decode(),) for token in query_tokens(terms, config) if _is_short(token))
    # Letters as they stand: tantivy's lower case is not ours, and it cuts before it lowers.
    plain = FulltextConfig(analyzer=config.analyzer, case_sensitive=True)
    words = [token.decode() for token in query_tokens(terms, plain) if _is_short(token)]
    if config.analyzer is Analyzer.CHINESE:
        # Of ASCII words jieba makes other tokens than we do: 3.14 stays whole.
        return tuple((word,) for word in words if not any(map(_has_spellings, word)))
    if not config.case_sensitive:
        words = [word for word in words if not _SIGMAS.intersection(word)]
    analyzer = english_analyzer(config)
    phrases = (tuple(analyzer.analyze(word)) for word in words)
    return tuple(dict.fromkeys(phrase for phrase in phrases if phrase))


def _is_short(token: bytes) -> bool:
    return len(token) <= _TERM_BYTES_MAX


def _has_spellings(char: str) -> bool:
    return char.isascii() or char.lower() != char or char.upper() != char


def rows_with_phrases(path: str, phrases: tuple[tuple[str, ...], ...]) -> tuple[I64, int]:
    """The rows that have all phrases, ascending, and how many rows the index has."""
    tantivy = _package()
    with _reporting(path):
        index = tantivy.Index.open(path)
        searcher, schema, make = index.searcher(), index.schema, tantivy.Query
        queries = [
            make.term_query(schema, TEXT_FIELD, phrase[0])
            if len(phrase) == 1
            else make.phrase_query(schema, TEXT_FIELD, list(phrase))
            for phrase in phrases
        ]
        query = make.boolean_query([(tantivy.Occur.Must, one) for one in queries])
        # The package makes room for as many hits as it is told to expect.
        count = searcher.search(query, limit=1).count
        rows = _hits(tantivy, searcher, query, count) if count else np.empty(0, np.int64)
        return np.sort(rows), int(searcher.num_docs)


def _hits(tantivy: Any, searcher: Any, query: Any, count: int) -> I64:
    try:
        found = searcher.search(
            query, limit=count, count=False, order_by_field=ROW_FIELD, order=tantivy.Order.Asc
        )
        return np.fromiter((row for row, _ in found.hits), np.int64, len(found.hits))
    except ValueError:
        # GreptimeDB's files have row numbers in documents only. One thread wrote them in order and
        # nothing was merged, so within a segment they go on from the first.
        places = [
            (one.segment_ord, one.doc) for _, one in searcher.search(query, limit=count, count=False).hits
        ]
        firsts = {
            segment: searcher.doc(tantivy.DocAddress(segment, 0))[ROW_FIELD][0]
            for segment in {segment for segment, _ in places}
        }
        return np.fromiter((firsts[segment] + doc for segment, doc in places), np.int64, len(places))


@contextlib.contextmanager
def _reporting(path: str) -> Iterator[None]:
    """Makes one of our errors of what the package raises on files that are none."""
    try:
        yield
    except BaseException as error:
        # A panic of the package is no Exception.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise CorruptionError(f"tantivy cannot search the index unpacked at {path}: {error}") from error
        raise
