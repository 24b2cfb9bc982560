"""Fulltext indexes by tantivy: written to a directory by the ``tantivy`` package, and searched there.

The index is GreptimeDB's: text field ``greptime_fulltext_text`` with positions, stored number
``greptime_fulltext_rowid``, one thread that adds rows in order. ``docs/spec/v1/index-tantivy.md`` lists the
differences, which the package requires or which make searches faster.

Its tokens are not quite those of :func:`lakehouse.format.text.match.matches`: English words are
cut at ``_`` too. So a query becomes phrases, without the tokens that the two spell in different ways.

Invariant: the result has every row that ``matches`` finds. It has others where the parts of a name
with ``_`` count as words (``full`` finds ``disk_full``, and ``disk_full`` finds ``disk full``), and
where a token was left out. This holds for indexes of the package's own versions of Unicode and
jieba; files do not record the versions of another writer.

The package is optional. The functions here import it when they are called, and are called in threads.
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
"""Name of the field with the text."""
ROW_FIELD = "greptime_fulltext_rowid"
"""Name of the field with the row number, from 0."""
OWN_TOKENS = "fulltext_tokens"
"""Blob property; its value ``row`` means that all tokens of :func:`tokenize` are terms of the index."""
_TOKENIZER = "default"
_HEAP_BYTES = 128 << 20
"""Bytes of memory for a segment; text beyond it begins another one."""
_TERM_BYTES_MAX = 65_000
"""Maximum bytes of a term that is searched; tantivy leaves out longer ones."""
_SIGMAS = frozenset("Σσς")
"""Letters whose lower case depends on their neighbours for us, but not for tantivy."""


def is_installed() -> bool:
    """Returns whether the package is installed."""
    return importlib.util.find_spec("tantivy") is not None


def _package() -> Any:
    try:
        import tantivy
    except ImportError as error:
        raise _missing_package_error("tantivy indexes need the tantivy package") from error
    return tantivy


def _jieba() -> Any:
    try:
        import rjieba
    except ImportError as error:
        raise _missing_package_error("cutting Chinese text needs the rjieba package") from error
    return rjieba


def _missing_package_error(what: str) -> InvalidInputError:
    return InvalidInputError(f"{what}: {install_command('fulltext')}", kind="missing-extra")


class TantivyWriter:
    """Builder of the index of a text column that comes in pieces.

    Args:
        workspace: space in which the package keeps its files.
        config: analyzer and case of the index.
        own_tokens: True adds for Chinese texts also those tokens of :func:`tokenize` that GreptimeDB's
            analyzer does not make, so that ASCII words can be searched. The property
            :data:`OWN_TOKENS` informs a search of them.
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
        """Blob properties that a search needs beside the configuration."""
        return {OWN_TOKENS: "row"} if self._own_tokens else {}

    def push(self, texts: pa.Array) -> None:
        """Adds rows; a null is a text without words. The package takes one row at a time."""
        add, document = self._writer.add_document, self._tantivy.Document
        contents: Any = texts.to_pylist()
        if self._config.analyzer is Analyzer.CHINESE:
            own = tokenize(texts, self._config).to_pylist() if self._own_tokens else [[]] * len(texts)
            contents = [self._cut(text or "", tokens) for text, tokens in zip(contents, own, strict=True)]
        for row, content in enumerate(contents, start=self._rows):
            row_document = document()
            if isinstance(content, str):
                row_document.add_text(TEXT_FIELD, content)
            elif content is not None:
                row_document.add_pre_tokenized_text(TEXT_FIELD, content)
            row_document.add_unsigned(ROW_FIELD, row)
            add(row_document)
        self._rows += len(texts)

    def _cut(self, text: str, own: list[bytes]) -> Any:
        """Returns a Chinese text with GreptimeDB's tokens, and behind them those of ``own`` that it lacks."""
        token = self._tantivy.Token
        lower = (lambda word: word) if self._config.case_sensitive else _lower_each
        # A token's position is the place of its first character, as upstream has it.
        cuts = self._jieba.tokenize(text, mode="search")
        tokens = [token(lower(word), start, start, end) for word, start, end in cuts]
        known = {cut.text for cut in tokens}
        others = [word for word in dict.fromkeys(map(bytes.decode, own)) if word not in known]
        # With gaps in their positions, so that no phrase continues from the text into the added words.
        tokens += [token(word, len(text) + 2 * at, 0, 0) for at, word in enumerate(others, start=1)]
        return self._tantivy.PreTokenizedString(text, tokens)

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
    """Returns GreptimeDB's English analyzer; the package's own would drop long words."""
    tantivy = _package()
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    return (builder if config.case_sensitive else builder.filter(tantivy.Filter.lowercase())).build()


def _lower_each(word: str) -> str:
    """Returns a word in lower case, letter by letter, as tantivy does it."""
    return "".join(map(str.lower, word))


def phrases_of(
    terms: str, config: FulltextConfig, *, own_tokens: bool = False
) -> tuple[tuple[str, ...], ...]:
    """Returns the phrases in the index of a row with all words of a query; empty = any row may match.

    Args:
        terms: the query.
        config: configuration of the index.
        own_tokens: True if the index has the property :data:`OWN_TOKENS`.
    """
    if own_tokens:
        return tuple((token.decode(),) for token in query_tokens(terms, config) if _is_short(token))
    # In the query's case: tantivy's lower case differs from ours, and it cuts words before it lowers them.
    plain = FulltextConfig(analyzer=config.analyzer, case_sensitive=True)
    words = [token.decode() for token in query_tokens(terms, plain) if _is_short(token)]
    if config.analyzer is Analyzer.CHINESE:
        # jieba cuts ASCII words otherwise than we do: 3.14 stays whole.
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
    """Returns the rows that have all phrases, ascending, and the number of rows of the index."""
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
        query = make.boolean_query([(tantivy.Occur.Must, part) for part in queries])
        # The package allocates memory for ``limit`` hits, so they are counted first.
        count = searcher.search(query, limit=1).count
        rows = _hits(tantivy, searcher, query, count) if count else np.empty(0, np.int64)
        return np.sort(rows), int(searcher.num_docs)


def _hits(tantivy: Any, searcher: Any, query: Any, count: int) -> I64:
    try:
        result = searcher.search(
            query, limit=count, count=False, order_by_field=ROW_FIELD, order=tantivy.Order.Asc
        )
        return np.fromiter((row for row, _ in result.hits), np.int64, len(result.hits))
    except ValueError:
        # GreptimeDB's files have row numbers in documents only. One thread wrote them in order and
        # nothing was merged, so within a segment they count up from the first.
        result = searcher.search(query, limit=count, count=False)
        places = [(address.segment_ord, address.doc) for _, address in result.hits]
        firsts = {
            segment: searcher.doc(tantivy.DocAddress(segment, 0))[ROW_FIELD][0]
            for segment in {segment for segment, _ in places}
        }
        return np.fromiter((firsts[segment] + doc for segment, doc in places), np.int64, len(places))


@contextlib.contextmanager
def _reporting(path: str) -> Iterator[None]:
    """Turns errors of the package about damaged files into CorruptionErrors."""
    try:
        yield
    except BaseException as error:
        # A panic of the package is no subclass of Exception.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise CorruptionError(f"tantivy cannot search the index unpacked at {path}: {error}") from error
        raise
