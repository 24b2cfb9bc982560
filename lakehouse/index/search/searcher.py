"""Search of a file's indexes by an expression, for the rows that may match.

The steps: translate the expression into conditions on targets
(:mod:`lakehouse.index.search.target_conditions`), choose the indexes that can answer them
(:mod:`lakehouse.index.search.probes`), and run the probes (:mod:`lakehouse.index.search.rounds`).

Invariant: the selection has every row for which the expression is true. Damage that is noticed gives
an error that names the file, never a smaller selection; scanning every row is always right.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakehouse.config import IndexSettings
from lakehouse.expr import Expr, bind, to_sql
from lakehouse.expr.nodes import FunctionCall
from lakehouse.format.schema import ColumnSetTarget, ExpressionTarget, IndexTarget
from lakehouse.index.puffin.reader import PuffinReader
from lakehouse.index.puffin.tantivy import is_installed
from lakehouse.index.search.file_indexes import FileIndexes, FileIndexReader
from lakehouse.index.search.probes import plan
from lakehouse.index.search.rounds import ProbeRounds
from lakehouse.index.search.selection import RowSelection
from lakehouse.index.search.target_conditions import ColumnTypes, HasWords, Holds, conditions
from lakehouse.index.search.tree import Tree, leaves
from lakehouse.io.scratch import ScratchSpace

__all__ = ["IndexSearcher"]


class IndexSearcher:
    """Searches one index file, any number of times, also concurrently.

    It keeps the metadata and term lists that it read, so that a later search costs one read.

    Args:
        reader: reader of the index file.
        columns: for each name in expressions a column's id and its type **as the data file has
            it**: a column that was widened since is indexed by its narrower type.
        row_count: rows of the data file; taken from the indexes when not given.
        scratch: space in which tantivy indexes are unpacked; without it, or without the package, they
            are not used.
        settings: limits of requests.

    Example::

        searcher = IndexSearcher(PuffinReader(store, key), {"host": (1, pa.string())})
        selection = await searcher.may_match(col("host") == "a")
    """

    def __init__(
        self,
        reader: PuffinReader,
        columns: ColumnTypes,
        *,
        row_count: int | None = None,
        scratch: ScratchSpace | None = None,
        settings: IndexSettings | None = None,
    ) -> None:
        settings = settings or IndexSettings()
        self._columns = columns
        self._schema = pa.schema([(name, type_) for name, (_, type_) in columns.items()])
        self._has_tantivy = scratch is not None and is_installed()
        self._file = FileIndexReader(reader, row_count=row_count, settings=settings)
        self._lookup = ProbeRounds(reader, scratch=scratch, settings=settings)

    async def may_match(self, expr: Expr) -> RowSelection:
        """Returns the rows for which the condition may be true.

        Raises:
            InvalidInputError: the expression does not fit the columns.
            FormatError: the index file is damaged; scanning every row still gives the right result.
        """
        bound = bind(expr, self._schema)
        tree = conditions(bound, self._columns)
        concern = _Concern(bound, tree)
        indexes = await self._file.load(concern, inverted=concern.values)
        if indexes.expressions or indexes.sets:
            tree = conditions(bound, self._columns, expressions=indexes.expressions, sets=indexes.sets)
        return await self._search(tree, indexes)

    async def search(self, wanted: Tree[Holds | HasWords]) -> RowSelection:
        """Returns the rows that may fulfil conditions on targets, also on those that no expression can name.

        Example::

            target = JsonPathTarget(column_id=3, pointer="/user/id")
            await searcher.search(Holds(target.key, OneOf(values=(b"7",))))
        """
        asked: Iterator[Holds | HasWords] = leaves(wanted)
        keys = {leaf.target_key for leaf in asked}
        indexes = await self._file.load(lambda target: target.key in keys, inverted=True)
        return await self._search(wanted, indexes)

    async def _search(self, wanted: Tree[Holds | HasWords], indexes: FileIndexes) -> RowSelection:
        tree = plan(wanted, indexes, tantivy=self._has_tantivy)
        return await self._lookup.select(tree, indexes.row_count)


class _Concern:
    """Predicate of the targets whose indexes may answer an expression, used before any index is read."""

    def __init__(self, expr: Expr, tree: Tree[Holds | HasWords]) -> None:
        asked: list[Holds | HasWords] = list(leaves(tree))
        self._keys = {leaf.target_key for leaf in asked}
        # Words are looked up as such; no index has the truth values of ``matches``.
        self._nodes = [
            node for node in expr.walk() if isinstance(node, FunctionCall) and node.name != "matches"
        ]
        self._expressions: frozenset[str] | None = None
        self.values = bool(self._nodes) or any(isinstance(leaf, Holds) for leaf in asked)
        """True if there are conditions on values, not on words alone."""

    def __call__(self, target: IndexTarget) -> bool:
        if isinstance(target, ExpressionTarget):
            if self._expressions is None:
                self._expressions = frozenset(ExpressionTarget.of(to_sql(node)).key for node in self._nodes)
            return target.key in self._expressions
        if isinstance(target, ColumnSetTarget):
            return self._keys.issuperset(map(str, target.column_ids))
        return target.key in self._keys
