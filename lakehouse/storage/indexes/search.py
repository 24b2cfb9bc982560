"""What the indexes of data files say of a condition: which files, and which rows of them, may match.

A file is asked when the condition is about something that a live definition indexes and the file was
indexed by; statistics were asked before. What an index excludes is left out under the same rule of
pruning as what statistics exclude (:mod:`lakehouse.storage.scan.file_plan`).

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

__all__ = ["IndexAnswers", "IndexQuestion", "ask_indexes"]

_log = get_logger(__name__)
_COLUMNS = 8
"""Such a part of a data file is what reading an index may cost at most."""
_T = TypeVar("_T")
_Question: TypeAlias = "Tree[Holds | HasWords]"


@dataclass(slots=True, kw_only=True)
class IndexAnswers:
    """What the indexes of some files said."""

    rows: Mapping[str, RowSelection] = field(default_factory=dict)
    """By path of the data file, the rows that may match; files that are missing were not asked."""
    failed: tuple[str, ...] = ()
    """Paths of index files that could not be read."""

    def excludes(self, entry: FileEntry) -> bool:
        """Whether no row of a file matches."""
        rows = self.rows.get(entry.path)
        return rows is not None and rows.is_empty


class IndexQuestion:
    """A condition as a question to indexes.

    Args:
        where: the condition, as the user gave it.
        schema: of the snapshot that is read.
    """

    def __init__(self, where: Expr, schema: TableSchema) -> None:
        self._definitions = {one.id: one for one in schema.indexes}
        self._trees: dict[frozenset[int], _Question] = {}
        if not self._definitions:
            return
        self._columns = {
            column_name(one.id): (one.id, wide_type(arrow_type(one.type)))
            for one in columns_of(schema.fields).values()
        }
        named = NamedColumns(schema.fields)
        renamed = by_ids(where, {name: named[name].id for name in where.columns() if name in named})
        self._where = bind(renamed, pa.schema([(name, kind) for name, (_, kind) in self._columns.items()]))

    def of(self, entry: FileEntry) -> _Question | None:
        """What to ask of a file; None when its indexes can tell nothing."""
        if entry.index is None or not self._definitions:
            return None
        found = self._of_ids(frozenset(entry.index.ids))
        return None if found in (ANY_ROW, NO_ROW) else found

    def usable(self, entry: FileEntry) -> list[IndexDefinition]:
        """The live definitions that a file was indexed by."""
        ids = entry.index.ids if entry.index is not None else ()
        return [self._definitions[one] for one in ids if one in self._definitions]

    def _of_ids(self, ids: frozenset[int]) -> _Question:
        found = self._trees.get(ids)
        if found is None:
            usable = [one for number, one in self._definitions.items() if number in ids]
            tree = conditions(
                self._where,
                self._columns,
                expressions={
                    one.target.key: None for one in usable if isinstance(one.target, ExpressionTarget)
                },
                sets=[one.target.column_ids for one in usable if isinstance(one.target, ColumnSetTarget)],
            )
            found = self._trees[ids] = _answerable(tree, {(one.kind, one.target.key) for one in usable})
        return found


def _answerable(tree: _Question, known: set[tuple[IndexKind, str]]) -> _Question:
    """The question without what no index can tell."""
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
    """Whether one of a few values has to be there."""
    parts = condition.conditions if isinstance(condition, AllOf) else (condition,)
    return any(isinstance(one, OneOf) for one in parts)


async def ask_indexes(
    store: ObjectStore,
    root: str,
    question: IndexQuestion,
    files: Iterable[FileEntry],
    *,
    caches: RunCaches,
    settings: IndexSettings,
) -> IndexAnswers:
    """Asks the indexes of the files that can tell something, some at once."""
    asked = [(entry, tree) for entry in files if (tree := question.of(entry)) is not None]
    if not asked:
        return IndexAnswers()
    failed: list[str] = []
    async with AsyncExitStack() as stack:
        scratch: ScratchSpace | None = None
        if is_installed() and any(_needs_scratch(question.usable(entry), tree) for entry, tree in asked):
            scratch = await stack.enter_async_context(ScratchSpace(settings=store.settings))

        async def ask(one: tuple[FileEntry, _Question]) -> tuple[str, RowSelection]:
            entry, tree = one
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
    words = {leaf.target_key for leaf in leaves(tree) if isinstance(leaf, HasWords)}
    return any(index_type(one) is IndexType.FULLTEXT_TANTIVY and one.target.key in words for one in usable)


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
    asked = [one.id for one in usable if one.target.key in keys]
    reader = await open_index(store, root, entry.index, caches, settings, asked=asked)
    # More than the column that it is about is not worth asking; columns are a good part of a file.
    most = min(settings.search_max_bytes, max(entry.size // _COLUMNS, settings.search_whole_bytes))
    bounded = replace(settings, search_max_bytes=most)
    found = await FileIndexReader(reader, row_count=entry.rows, settings=bounded).load(
        lambda target: target.key in keys,
        inverted=any(one.kind is IndexKind.INVERTED and one.target.key in keys for one in usable),
    )
    probes = plan(tree, _only(found, usable), tantivy=scratch is not None)
    page_bytes = reader.page_bytes if entry.index.size > settings.search_whole_bytes else None
    lookup = ProbeRounds(reader, scratch=scratch, settings=bounded, page_bytes=page_bytes)
    return await lookup.select(probes, entry.rows)


def _only(found: FileIndexes, usable: Sequence[IndexDefinition]) -> FileIndexes:
    """The indexes of a file that are of live definitions."""
    keys: dict[IndexType, set[str]] = {kind: set() for kind in IndexType}
    for one in usable:
        keys[index_type(one)].add(one.target.key)
    inverted = found.inverted
    if inverted is not None:
        columns = {
            key: column for key, column in inverted.metas.columns.items() if key in keys[IndexType.INVERTED]
        }
        inverted = replace(inverted, metas=replace(inverted.metas, columns=columns))

    def of(kind: IndexType, all_of_them: Mapping[str, _T]) -> dict[str, _T]:
        return {key: one for key, one in all_of_them.items() if key in keys[kind]}

    return replace(
        found,
        blooms=of(IndexType.BLOOM_SKIPPING, found.blooms),
        fulltexts=of(IndexType.FULLTEXT_BLOOM, found.fulltexts),
        tantivys=of(IndexType.FULLTEXT_TANTIVY, found.tantivys),
        inverted=inverted,
    )
