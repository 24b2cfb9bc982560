"""Build of the index file of a data file, from its rows while these are written.

Row numbers in the indexes are those of the file. An index file has a table's live definitions; one
whose expression fails on a row (an overflow, say) is left out of that file, which is then read as if
it had none: no write fails because of an index.

Invariant: an index answers for a row as evaluating the target on the stored row does, with numbers converted
to their widest type, so that a column may be widened later.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError
from lakehouse.expr.evaluate import column_of
from lakehouse.format.metadata import IndexRef
from lakehouse.format.schema import (
    Backend,
    IndexDefinition,
    IndexKind,
    TableOptions,
    TableSchema,
    by_id,
    column_name,
)
from lakehouse.index.building import IndexSpec, PuffinIndexBuilder
from lakehouse.index.models import IndexType
from lakehouse.index.puffin import PuffinBytes, PuffinImage, blob_type
from lakehouse.io.scratch import ScratchSpace, Workspace
from lakehouse.io.work import in_thread
from lakehouse.log import get_logger

__all__ = ["BuiltIndex", "build_index", "definitions_for", "index_type", "indexed_rows", "rows_at_hand"]

_log = get_logger(__name__)
_BATCH_ROWS = 1 << 17
"""Number of rows that are evaluated and indexed at once."""
_SETTINGS = IoSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIndex:
    """Index file in memory that is not in the store yet."""

    data: bytes
    ref: IndexRef


def index_type(one: IndexDefinition) -> IndexType:
    """Returns the type of a definition's index in index files and in rows of metadata."""
    if one.kind is IndexKind.BLOOM:
        return IndexType.BLOOM_SKIPPING
    if one.kind is IndexKind.INVERTED:
        return IndexType.INVERTED
    return IndexType.FULLTEXT_TANTIVY if one.backend is Backend.TANTIVY else IndexType.FULLTEXT_BLOOM


def definitions_for(
    schema: TableSchema, options: TableOptions, *, rows: int, deletes: int
) -> tuple[IndexDefinition, ...]:
    """Returns the indexes that a file of so many rows gets: none when it is small, or only deletes."""
    if rows < options.index_min_rows or rows == deletes:
        return ()
    return schema.indexes


async def build_index(
    rows: Callable[[], AsyncIterable[pa.Table]],
    schema: TableSchema,
    definitions: Sequence[IndexDefinition],
    *,
    path: str,
    of: str,
    settings: IoSettings = _SETTINGS,
) -> BuiltIndex | None:
    """Builds the index file of a data file; None when there is nothing to index.

    Args:
        rows: returns the rows of the file in its order, anew at each call, with the schema's column names.
        schema: schema of the rows.
        definitions: indexes to build.
        path: future path of the index file, relative to the table's directory.
        of: path of the data file, for people who find the index file alone.
        settings: bounds of the scratch space that tantivy indexes are built in.
    """
    left = list(definitions)
    # Each failing index costs another pass over the rows without it; failures are rare.
    while left:
        try:
            image = await _build(rows, schema, left, of, settings)
        except _Failed as failed:
            _log.warning(
                "an index cannot be built for this file, which will be read without it",
                file=of,
                index=failed.definition.id,
                error=failed.cause,
            )
            left.remove(failed.definition)
            continue
        ordered = sorted(left, key=lambda definition: definition.id)
        ref = IndexRef(
            path=path,
            size=len(image.data),
            ids=tuple(definition.id for definition in ordered),
            footer_bytes=image.footer_bytes,
            checksum=image.checksum,
            reach=_reach(image, ordered),
        )
        return BuiltIndex(data=image.data, ref=ref)
    return None


def _reach(image: PuffinImage, definitions: Sequence[IndexDefinition]) -> tuple[int, ...]:
    """Returns the distance of each index's blob from the file's end; 0 for an index of several blobs.

    Empty when all of them consist of several.
    """
    distances = []
    for definition in definitions:
        kind = index_type(definition)
        is_one = kind is not IndexType.FULLTEXT_TANTIVY
        # All inverted indexes of a file share one blob.
        key = None if kind is IndexType.INVERTED else definition.target.key
        distances.append(image.reach(blob_type(kind, key)) if is_one else 0)
    return tuple(distances) if any(distances) else ()


async def rows_at_hand(rows: pa.Table) -> AsyncIterator[pa.Table]:
    """Yields a table in memory in the form that :func:`build_index` takes."""
    yield rows


class _Failed(Exception):
    """Index that cannot be computed for some row."""

    def __init__(self, definition: IndexDefinition, cause: Exception) -> None:
        super().__init__(definition.id)
        self.definition, self.cause = definition, cause


async def _build(
    rows: Callable[[], AsyncIterable[pa.Table]],
    schema: TableSchema,
    definitions: Sequence[IndexDefinition],
    of: str,
    settings: IoSettings,
) -> PuffinImage:
    names = {number: column_name(number) for definition in definitions for number in definition.field_ids}
    ids = ",".join(str(definition.id) for definition in definitions)
    properties = {"lakehouse.indexes": ids, "lakehouse.file": of}

    async def work(workspace: Workspace | None) -> PuffinImage:
        specs = [_spec(definition) for definition in definitions]
        builder = PuffinIndexBuilder(specs, names, table_style=True, wide=True, workspace=workspace)
        async for table in rows():
            await _push(builder, table, schema, definitions)
        sink = PuffinBytes()
        await builder.finish(sink)
        return await in_thread(sink.finish, properties)

    # Only tantivy writes its index to a local directory.
    if not any(index_type(definition) is IndexType.FULLTEXT_TANTIVY for definition in definitions):
        return await work(None)
    async with ScratchSpace(settings=settings) as scratch, scratch.workspace() as workspace:
        return await work(workspace)


def _spec(one: IndexDefinition) -> IndexSpec:
    return IndexSpec(
        kind=index_type(one),
        target=one.target,
        granularity=one.granularity,
        false_positive_rate=one.false_positive_rate,
        segment_row_count=one.segment_row_count,
        analyzer=one.analyzer,
        case_sensitive=one.case_sensitive,
        compress=one.compress,
    )


async def _push(
    builder: PuffinIndexBuilder,
    rows: pa.Table,
    schema: TableSchema,
    definitions: Sequence[IndexDefinition],
) -> None:
    pieces = (rows.slice(at, _BATCH_ROWS) for at in range(0, rows.num_rows, _BATCH_ROWS))
    named = [await in_thread(indexed_rows, piece, schema, definitions) for piece in pieces]
    try:
        await builder.push_all(named)
    except (pa.ArrowException, InvalidInputError) as error:
        if isinstance(error, InvalidInputError) and error.kind == "missing-extra":
            raise  # every file would be without it, and nobody would know why
        raise await in_thread(_failed_index_error, named, definitions, error) from error


def _failed_index_error(
    rows: Iterable[pa.Table], definitions: Sequence[IndexDefinition], error: Exception
) -> _Failed | Exception:
    """Returns an error that names the definition which fails on these rows, or ``error`` when none does."""
    for definition in definitions:
        # Needs a workspace, which there is none of here.
        if index_type(definition) is IndexType.FULLTEXT_TANTIVY:
            continue
        names = {number: column_name(number) for number in definition.field_ids}
        builder = PuffinIndexBuilder([_spec(definition)], names, wide=True)
        try:
            for table in rows:
                builder.push(table)
        except (pa.ArrowException, InvalidInputError) as own:
            return _Failed(definition, own)
    return error


def indexed_rows(rows: pa.Table, schema: TableSchema, definitions: Iterable[IndexDefinition]) -> pa.Table:
    """Selects the columns that definitions read, named by their field ids."""
    names = by_id(schema.fields)
    wanted = sorted({number for definition in definitions for number in definition.field_ids})
    return pa.table({column_name(number): column_of(rows, names[number]) for number in wanted})
