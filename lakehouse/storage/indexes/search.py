"""Pruning by the indexes of data files: the files, and the rows of them, that may match a condition.

The index of a file is searched when a live definition by which the file was indexed can answer a part of the
condition; statistics have pruned before. Rows that an index excludes are left out under the same rule of
pruning as those that statistics exclude (:mod:`lakehouse.storage.scan.file_plan`).

Invariant: rows outside a selection do not match. An index file that is missing or damaged selects
every row: it is logged and counted, and the scan reads the data file instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import pyarrow as pa

from lakehouse.config import IndexSettings
from lakehouse.errors import FormatError, NotFoundError
from lakehouse.expr import Expr, bind
from lakehouse.format.index import AllOf, Condition, OneOf
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import (
    ColumnSetTarget,
    ExpressionTarget,
    IndexDefinition,
    IndexKind,
    NamedColumns,
    TableSchema,
    arrow_type,
    by_ids,
    column_name,
    columns_of,
)
from lakehouse.index.building import wide_type
from lakehouse.index.models import IndexType
from lakehouse.index.puffin import is_installed
from lakehouse.index.search import (
    ANY_ROW,
    NO_ROW,
    Every,
    FileIndexes,
    FileIndexReader,
    HasWords,
    Holds,
    ProbeRounds,
    RowSelection,
    Some,
    Tree,
    conditions,
    every,
    leaves,
    plan,
    some,
)
from lakehouse.io.scratch import ScratchSpace
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import map_bounded
from lakehouse.log import get_logger
from lakehouse.storage.indexes.build import index_type
from lakehouse.storage.indexes.reader import open_index
from lakehouse.storage.metadata.caches import RunCaches

__all__ = ["IndexAnswers", "IndexQuestion", "search_indexes"]

_log = get_logger(__name__)
_COLUMNS = 8
"""Divisor of a data file's bytes: the search of its indexes may read at most such a part of its size."""
_T = TypeVar("_T")
_Question: TypeAlias = "Tree[Holds | HasWords]"


@dataclass(slots=True, kw_only=True)
class IndexAnswers:
    """Selections of rows from the indexes of some files."""

    rows: Mapping[str, RowSelection] = field(default_factory=dict)
    """Rows that may match, by path of the data file; the indexes of other files were not searched."""
    failed: tuple[str, ...] = ()
    """Paths of index files that could not be read."""

    def excludes(self, entry: FileEntry) -> bool:
        """Returns whether the indexes of a file exclude all its rows."""
        rows = self.rows.get(entry.path)
        return rows is not None and rows.is_empty


class IndexQuestion:
    """Condition in the form that indexes answer: a tree of tests on index targets.

    Args:
        where: the condition, as the user gave it.
        schema: schema of the snapshot that is read.
    """

    def __init__(self, where: Expr, schema: TableSchema) -> None:
        self._definitions = {index.id: index for index in schema.indexes}
        self._trees: dict[frozenset[int], _Question] = {}
        if not self._definitions:
            return
        # Indexes name columns by id and hold numbers of the widest type, and so does the bound condition.
        self._columns = {
            column_name(column.id): (column.id, wide_type(arrow_type(column.type)))
            for column in columns_of(schema.fields).values()
        }
        named = NamedColumns(schema.fields)
        renamed = by_ids(where, {name: named[name].id for name in where.columns() if name in named})
        self._where = bind(renamed, pa.schema([(name, kind) for name, (_, kind) in self._columns.items()]))

    def of(self, entry: FileEntry) -> _Question | None:
        """Returns the tests that the indexes of a file can answer; None when they cannot exclude any row."""
        if entry.index is None or not self._definitions:
            return None
        tree = self._of_ids(frozenset(entry.index.ids))
        # No index is needed to know that any row may match, or none.
        return None if tree in (ANY_ROW, NO_ROW) else tree

    def usable(self, entry: FileEntry) -> list[IndexDefinition]:
        """Returns the live definitions that a file was indexed by."""
        ids = entry.index.ids if entry.index is not None else ()
        return [self._definitions[number] for number in ids if number in self._definitions]

    def _of_ids(self, ids: frozenset[int]) -> _Question:
        """Returns the tree of tests for files with these indexes; most files of a table have the same."""
        answerable = self._trees.get(ids)
        if answerable is None:
            usable = [index for number, index in self._definitions.items() if number in ids]
            tree = conditions(
                self._where,
                self._columns,
                expressions={
                    index.target.key: None for index in usable if isinstance(index.target, ExpressionTarget)
                },
                sets=[
                    index.target.column_ids for index in usable if isinstance(index.target, ColumnSetTarget)
                ],
            )
            known = {(index.kind, index.target.key) for index in usable}
            answerable = self._trees[ids] = _answerable(tree, known)
        return answerable


def _answerable(tree: _Question, known: set[tuple[IndexKind, str]]) -> _Question:
    """Replaces the tests that no available index can answer by one that any row passes."""
    if isinstance(tree, Every):
        return every(_answerable(part, known) for part in tree.parts)
    if isinstance(tree, Some):
        return some(_answerable(part, known) for part in tree.parts)
    if isinstance(tree, HasWords):
        return tree if (IndexKind.FULLTEXT, tree.target_key) in known else ANY_ROW
    is_inverted = (IndexKind.INVERTED, tree.target_key) in known
    is_bloom = (IndexKind.BLOOM, tree.target_key) in known and _names_values(tree.condition)
    return tree if is_inverted or is_bloom else ANY_ROW


def _names_values(condition: Condition) -> bool:
    """Returns whether a condition needs one of a few values, as bloom filters can test it."""
    parts = condition.conditions if isinstance(condition, AllOf) else (condition,)
    return any(isinstance(part, OneOf) for part in parts)


async def search_indexes(
    store: ObjectStore,
    root: str,
    question: IndexQuestion,
    files: Iterable[FileEntry],
    *,
    caches: RunCaches,
    settings: IndexSettings,
) -> IndexAnswers:
    """Searches the indexes of the files whose indexes can exclude rows, several files at once.

    Args:
        store: store of the table.
        root: the table's directory.
        question: the condition.
        files: data files that may match.
        caches: caches shared by all files of the store.
        settings: limits and concurrency of index searches.
    """
    asked = [(entry, tree) for entry in files if (tree := question.of(entry)) is not None]
    if not asked:
        return IndexAnswers()
    failed: list[str] = []
    async with AsyncExitStack() as stack:
        scratch: ScratchSpace | None = None
        if is_installed() and any(_needs_scratch(question.usable(entry), tree) for entry, tree in asked):
            scratch = await stack.enter_async_context(ScratchSpace(settings=store.settings))

        async def ask(job: tuple[FileEntry, _Question]) -> tuple[str, RowSelection]:
            entry, tree = job
            assert entry.index is not None
            try:
                found = await _ask_file(
                    store, root, entry, tree, question.usable(entry), caches, settings, scratch
                )
            except (FormatError, NotFoundError) as error:
                if error.kind == "missing-bucket":
                    raise
                failed.append(entry.index.path)
                _log.warning(
                    "an index file cannot be read: its data file is read without it; "
                    "lakehouse table rebuild-indexes makes it anew",
                    index=entry.index.path,
                    file=entry.path,
                    table=root,
                    error=error,
                )
                caches.metadata.invalidate((root, entry.index.path))
                found = RowSelection.every(entry.rows)
            return entry.path, found

        answers = {path: rows async for path, rows in map_bounded(ask, asked, settings.concurrency)}
    return IndexAnswers(rows=answers, failed=tuple(sorted(failed)))


def _needs_scratch(usable: Sequence[IndexDefinition], tree: _Question) -> bool:
    """Returns whether a search has to unpack a tantivy index."""
    words = {leaf.target_key for leaf in leaves(tree) if isinstance(leaf, HasWords)}
    return any(
        index_type(index) is IndexType.FULLTEXT_TANTIVY and index.target.key in words for index in usable
    )


async def _ask_file(
    store: ObjectStore,
    root: str,
    entry: FileEntry,
    tree: _Question,
    usable: Sequence[IndexDefinition],
    caches: RunCaches,
    settings: IndexSettings,
    scratch: ScratchSpace | None,
) -> RowSelection:
    assert entry.index is not None
    asking: list[Holds | HasWords] = list(leaves(tree))
    keys = {leaf.target_key for leaf in asking}
    asked = [index.id for index in usable if index.target.key in keys]
    reader = await open_index(store, root, entry.index, caches, settings, asked=asked)
    # An index larger than its column is not worth reading; an eighth of the file stands for a column.
    most = min(settings.search_max_bytes, max(entry.size // _COLUMNS, settings.search_whole_bytes))
    bounded = replace(settings, search_max_bytes=most)
    indexes = await FileIndexReader(reader, row_count=entry.rows, settings=bounded).load(
        lambda target: target.key in keys,
        inverted=any(index.kind is IndexKind.INVERTED and index.target.key in keys for index in usable),
    )
    probes = plan(tree, _only(indexes, usable), tantivy=scratch is not None)
    # A small file was read whole when it was opened.
    page_bytes = reader.page_bytes if entry.index.size > settings.search_whole_bytes else None
    lookup = ProbeRounds(reader, scratch=scratch, settings=bounded, page_bytes=page_bytes)
    return await lookup.select(probes, entry.rows)


def _only(indexes: FileIndexes, usable: Sequence[IndexDefinition]) -> FileIndexes:
    """Selects the indexes of a file that belong to live definitions."""
    keys: dict[IndexType, set[str]] = {kind: set() for kind in IndexType}
    for definition in usable:
        keys[index_type(definition)].add(definition.target.key)
    inverted = indexes.inverted
    if inverted is not None:
        columns = {
            key: column for key, column in inverted.metas.columns.items() if key in keys[IndexType.INVERTED]
        }
        inverted = replace(inverted, metas=replace(inverted.metas, columns=columns))

    def live(kind: IndexType, by_key: Mapping[str, _T]) -> dict[str, _T]:
        return {key: index for key, index in by_key.items() if key in keys[kind]}

    return replace(
        indexes,
        blooms=live(IndexType.BLOOM_SKIPPING, indexes.blooms),
        fulltexts=live(IndexType.FULLTEXT_BLOOM, indexes.fulltexts),
        tantivys=live(IndexType.FULLTEXT_TANTIVY, indexes.tantivys),
        inverted=inverted,
    )
