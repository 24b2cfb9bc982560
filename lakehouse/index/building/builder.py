"""Builder of the indexes of a data file from its rows, as blobs of one puffin file.

Blobs come in GreptimeDB's order: the inverted indexes together in one blob, then fulltext
indexes, then bloom filters, each by target key. In index files of our tables tantivy indexes come
first, then the others, the largest first: small blobs can be read together with the footer.

Invariant: the bytes depend on the rows, their order and the specifications alone, not on how the
rows were cut into batches (files of a tantivy index excepted: tantivy names them at random).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.index import BloomBuilder, FulltextBloomBuilder, InvertedBuilder
from lakehouse.format.puffin import PuffinBuilder
from lakehouse.format.schema import FALSE_POSITIVE_RATE, SEGMENT_ROW_COUNT, ColumnSetTarget, IndexTarget
from lakehouse.format.text import FULLTEXT_CONFIG, GRANULARITY, Analyzer, FulltextConfig
from lakehouse.index.building.target_rows import TargetRows, expression_properties
from lakehouse.index.models import IndexType
from lakehouse.index.puffin.blob_types import blob_type
from lakehouse.index.puffin.tantivy import TantivyWriter
from lakehouse.index.puffin.writer import BlobSink
from lakehouse.io.scratch import Workspace
from lakehouse.io.work import in_thread, map_bounded

__all__ = ["IndexBlob", "IndexSpec", "PuffinIndexBuilder"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """Specification of an index to build."""

    kind: IndexType
    target: IndexTarget
    """Indexed values; an expression is given by its normal form, ``ExpressionTarget.of(to_sql(expr))``."""
    granularity: int = GRANULARITY
    """Rows of a segment of bloom filters."""
    false_positive_rate: float = FALSE_POSITIVE_RATE
    """False positive rate of bloom filters, above 0 and at most 1."""
    segment_row_count: int = SEGMENT_ROW_COUNT
    """Rows of a segment of inverted indexes; the same for all of a file."""
    analyzer: Analyzer = Analyzer.ENGLISH
    """Analyzer of fulltext indexes, which cuts text into tokens."""
    case_sensitive: bool = False
    """True if tokens of fulltext indexes keep their case."""
    compress: bool = True
    """True if the files of a tantivy index are stored as zstd."""

    @property
    def fulltext_config(self) -> FulltextConfig:
        """Full configuration of a fulltext index, as blobs of our tables note it."""
        return FulltextConfig(
            analyzer=self.analyzer,
            case_sensitive=self.case_sensitive,
            granularity=self.granularity,
            false_positive_rate=self.false_positive_rate,
        )

    @property
    def greptime_config(self) -> FulltextConfig:
        """The part of :attr:`fulltext_config` that GreptimeDB notes."""
        return replace(self.fulltext_config, granularity=None, false_positive_rate=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBlob:
    """A blob to be written."""

    type: str
    data: bytes = field(repr=False)
    properties: Mapping[str, str]


class PuffinIndexBuilder:
    """Builds the blobs of an index file from the rows of its data file.

    ::

        builder = PuffinIndexBuilder(specs, {1: "host", 2: "message"})
        for batch in batches:
            builder.push(batch)
        async with PuffinWriter(store, "index/x.puffin") as writer:
            await builder.finish(writer)

    Args:
        specs: the indexes; each kind at most once for a target.
        names: for each column id its name in the batches.
        table_style: True notes and indexes more than GreptimeDB does, in ways that it ignores: fulltext
            configurations have granularity and false positive rate, Chinese tantivy indexes have
            the tokens of ASCII words; blobs are in the order of our tables' index files.
        wide: True encodes numbers in the widest type that their column may become, so that searches
            need not know the type at the time of building.
        workspace: directory for tantivy's files while it builds; needed for tantivy indexes only.
    """

    def __init__(
        self,
        specs: Iterable[IndexSpec],
        names: Mapping[int, str],
        *,
        table_style: bool = False,
        wide: bool = False,
        workspace: Workspace | None = None,
    ) -> None:
        ordered = sorted(specs, key=lambda spec: (spec.target.key, spec.kind.value))
        _check(ordered)
        self._inverted: _Inverted | None = None
        self._fulltext: list[_FulltextBloom | _Tantivy] = []
        self._bloom: list[_Bloom] = []
        inverted = [spec for spec in ordered if spec.kind is IndexType.INVERTED]
        if inverted:
            self._inverted = _Inverted(inverted, names, wide)
        for spec in ordered:
            rows = TargetRows(spec.target, names, wide=wide)
            if spec.kind is IndexType.BLOOM_SKIPPING:
                self._bloom.append(_Bloom(spec, rows))
            elif spec.kind is IndexType.FULLTEXT_BLOOM:
                self._fulltext.append(_FulltextBloom(spec, rows, table_style))
            elif spec.kind is IndexType.FULLTEXT_TANTIVY:
                self._fulltext.append(_Tantivy(spec, rows, workspace, table_style))
        self._finished = False
        self._small_last = table_style
        self.row_count = 0
        """Rows added so far."""

    def push(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Adds rows behind those before; pure computation, except for tantivy, which writes its files.

        It takes long for many rows: async code calls it in a thread.
        """
        self._check_open()
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            for index in self._indexes():
                index.push(part)
            self.row_count += part.num_rows

    async def push_all(self, tables: Sequence[pa.Table]) -> None:
        """Adds rows that are in memory to all indexes at the same time, in threads."""
        self._check_open()
        batches = [batch for table in tables for batch in table.to_batches()]

        def take(index: _Index) -> None:
            for batch in batches:
                index.push(batch)

        await _beside(take, self._indexes())
        self.row_count += sum(batch.num_rows for batch in batches)

    async def finish(self, writer: BlobSink) -> None:
        """Writes the blobs; the builder is used up."""
        self._check_open()
        self._finished = True
        # A tantivy index is several blobs, whose directory refers to them by number: so it writes them
        # itself, when its turn comes.
        blobs = await _beside(_blob_of, self._indexes())
        parts = [index if blob is None else blob for index, blob in zip(self._indexes(), blobs, strict=True)]
        if self._small_last:
            parts.sort(key=lambda part: -len(part.data) if isinstance(part, IndexBlob) else -math.inf)
        for part in parts:
            if isinstance(part, IndexBlob):
                await writer.add(part.type, part.data, properties=part.properties)
            elif isinstance(part, _Tantivy):
                await part.writer.finish(writer, part.type, part.properties, compress=part.compress)

    def finish_bytes(self) -> bytes:
        """Returns the whole puffin file of a builder without tantivy indexes; the builder is used up."""
        self._check_open()
        self._finished = True
        file = PuffinBuilder()
        parts: list[bytes | memoryview] = []
        for index in self._indexes():
            if isinstance(index, _Tantivy):
                raise InvalidInputError("a tantivy index consists of files: finish it with a PuffinWriter")
            blob = index.finish()
            parts += file.add(blob.type, blob.data, properties=blob.properties)
        return b"".join([*parts, file.finish()])

    def _indexes(self) -> Iterator[_Index]:
        if self._inverted is not None:
            yield self._inverted
        yield from self._fulltext
        yield from self._bloom

    def _check_open(self) -> None:
        if self._finished:
            raise InvalidInputError("this builder is finished: make another one for another file")


def _blob_of(index: _Index) -> IndexBlob | None:
    """Finishes an index and returns its blob; None for tantivy, whose index consists of several."""
    return None if isinstance(index, _Tantivy) else index.finish()


async def _beside(work: Callable[[_Index], R], indexes: Iterable[_Index]) -> list[R]:
    """Returns the results of ``work`` on each index, in their order; all work runs at once, in threads."""
    listed = list(indexes)
    results = map_bounded(lambda index: in_thread(work, index), listed, max(1, len(listed)))
    async with aclosing(results):
        return [result async for result in results]


def _check(specs: list[IndexSpec]) -> None:
    seen: set[tuple[IndexType, str]] = set()
    for spec in specs:
        key = spec.target.key
        if (spec.kind, key) in seen:
            raise InvalidInputError(
                f"target {key} has two {spec.kind} indexes: one is enough", target_key=key
            )
        seen.add((spec.kind, key))
        if spec.kind in _OF_TEXT and isinstance(spec.target, ColumnSetTarget):
            raise InvalidInputError(
                f"a set of columns ({key}) has no text: take another kind than {spec.kind}"
            )
    segments = {spec.segment_row_count for spec in specs if spec.kind is IndexType.INVERTED}
    if len(segments) > 1:
        raise InvalidInputError(
            f"inverted indexes of a file share one segment size, not {sorted(segments)}: they are one blob"
        )


_OF_TEXT = (IndexType.FULLTEXT_BLOOM, IndexType.FULLTEXT_TANTIVY)


class _Inverted:
    """All inverted indexes of the file, which are one blob."""

    def __init__(self, specs: list[IndexSpec], names: Mapping[int, str], wide: bool) -> None:
        self._rows = {spec.target.key: TargetRows(spec.target, names, wide=wide) for spec in specs}
        self._builder = InvertedBuilder(self._rows, specs[0].segment_row_count)

    def push(self, batch: pa.RecordBatch) -> None:
        self._builder.push({key: rows.encoded(batch) for key, rows in self._rows.items()})

    def finish(self) -> IndexBlob:
        return IndexBlob(
            type=blob_type(IndexType.INVERTED),
            data=self._builder.finish(),
            properties=expression_properties(self._rows),
        )


class _Bloom:
    """A bloom filter index of one target."""

    def __init__(self, spec: IndexSpec, rows: TargetRows) -> None:
        self._type = blob_type(spec.kind, spec.target.key)
        self._rows = rows
        self._builder = BloomBuilder(spec.granularity, spec.false_positive_rate)

    def push(self, batch: pa.RecordBatch) -> None:
        self._builder.push(self._rows.encoded(batch))

    def finish(self) -> IndexBlob:
        return IndexBlob(type=self._type, data=self._builder.finish(), properties=self._rows.properties)


class _FulltextBloom:
    """A fulltext bloom index of one target."""

    def __init__(self, spec: IndexSpec, rows: TargetRows, table_style: bool) -> None:
        self._type = blob_type(spec.kind, spec.target.key)
        self._rows = rows
        self._builder = FulltextBloomBuilder(spec.fulltext_config)
        config = spec.fulltext_config if table_style else spec.greptime_config
        self._properties = {FULLTEXT_CONFIG: config.encode(), **rows.properties}

    def push(self, batch: pa.RecordBatch) -> None:
        self._builder.push(self._rows.texts(batch))

    def finish(self) -> IndexBlob:
        return IndexBlob(type=self._type, data=self._builder.finish(), properties=self._properties)


class _Tantivy:
    """A tantivy index of one target."""

    def __init__(
        self, spec: IndexSpec, rows: TargetRows, workspace: Workspace | None, table_style: bool
    ) -> None:
        if workspace is None:
            raise InvalidInputError(
                f"the tantivy index of target {spec.target.key} needs a place for its files: pass "
                "workspace=, from ScratchSpace.workspace()"
            )
        self.type = blob_type(spec.kind, spec.target.key)
        self.compress = spec.compress
        self.properties = {FULLTEXT_CONFIG: spec.greptime_config.encode(), **rows.properties}
        self.writer = TantivyWriter(workspace, spec.greptime_config, own_tokens=table_style)
        self._rows = rows

    def push(self, batch: pa.RecordBatch) -> None:
        self.writer.push(self._rows.texts(batch))


_Index: TypeAlias = "_Inverted | _FulltextBloom | _Tantivy | _Bloom"
