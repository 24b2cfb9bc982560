"""Planning: manifest list, manifests, files, each judged before the next are read.

Requests: the manifest list and every needed manifest once, none of what is cached.

Invariant: a manifest is left out only if no file of it can hold a wanted row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakehouse.expr import Expr
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.iceberg.manifests import ManifestFile
from lakehouse.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakehouse.iceberg.planning.bounds_maker import BoundsMaker
from lakehouse.iceberg.planning.delete_set import DeleteSet
from lakehouse.iceberg.planning.explanation import CacheUse
from lakehouse.iceberg.planning.files import FileSet
from lakehouse.iceberg.planning.filters import AppliedFilter, bound_filters
from lakehouse.iceberg.planning.plan import Candidates, IcebergPlan
from lakehouse.iceberg.planning.question import Question, without
from lakehouse.iceberg.planning.source import ManifestSource
from lakehouse.iceberg.planning.splits import SplitSizes
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.io.cost import measure
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["planned"]


async def planned(
    source: ManifestSource,
    metadata: TableMetadata,
    snapshot: IcebergSnapshot | None,
    schema: IcebergSchema,
    *,
    where: Expr | None = None,
    filters: Sequence[RuntimeFilter] = (),
    since: int | None = None,
) -> IcebergPlan:
    """Plans a scan of a snapshot.

    Args:
        source: reads the manifests.
        metadata: of the table.
        snapshot: None = the table has none.
        schema: columns of the condition and of the filters.
        where: a condition.
        filters: runtime filters that are known already, so that manifests they exclude are not read.
        since: only files that were appended after this snapshot.
    """
    bounds = BoundsMaker(schema, metadata.specs)
    question = Question(where, schema.table_schema, listed=bounds.bucketed)
    asked = bound_filters(filters, schema.table_schema.arrow())
    added_by = None if since is None else metadata.appends_since(since, snapshot)
    cache = CacheUse()
    with measure() as cost:
        every = [one for one in await source.manifests(snapshot) if _may_have(one, added_by)]
        data = [one for one in every if not one.content]
        deletes = [one for one in every if one.content]
        answers = question.ask(bounds.of_manifests(data, question.names))
        excluded = [one.of_manifests(data, bounds) for one in asked]
        read = np.flatnonzero(without(answers.kept, excluded))
        files = await source.files([data[number] for number in read.tolist()], metadata.specs, cache)
        # A delete file applies within its partition, or everywhere if it has none: then nothing excludes it.
        applying = without(
            question.ask(bounds.of_manifests(deletes, question.names)).kept,
            (one.of_manifests(deletes, bounds) for one in asked),
        )
        deleting = [deletes[number] for number in np.flatnonzero(applying).tolist()] if len(files) else []
        candidates = Candidates(
            snapshot=snapshot,
            schema=schema,
            manifests=data,
            read=read,
            files=files,
            admitted=_admitted(files, question, added_by),
            deletes=DeleteSet(await source.entries(deleting, cache), metadata.specs),
            cache=cache,
            bounds=bounds,
        )
        plan = IcebergPlan(
            candidates,
            question,
            of_manifests=answers,
            of_files=question.ask(bounds.of_files(files, question.names)),
            filters=[
                AppliedFilter(filter=one, manifests=mask, files=one.of_files(files, bounds))
                for one, mask in zip(asked, excluded, strict=True)
            ],
            sizes=SplitSizes.of(metadata.properties),
            cost=cost,
        )
    source.keep(files)
    return plan


def _may_have(manifest: ManifestFile, added_by: frozenset[int] | None) -> bool:
    """Returns whether a manifest may have live entries, or ones that some snapshots added."""
    if added_by is None:
        return (manifest.added_files, manifest.existing_files) != (0, 0)
    return not manifest.content and manifest.snapshot_id in added_by and manifest.added_files != 0


def _admitted(files: FileSet, question: Question, added_by: frozenset[int] | None) -> Mask:
    """Returns the files that a plan may keep, whatever their bounds."""
    admitted: Mask = files.rows != 0 if question.parts else np.ones(len(files), np.bool_)
    if added_by is not None:
        snapshots: I64 = np.array(sorted(added_by), np.int64)
        admitted = admitted & files.is_added & np.isin(files.snapshots, snapshots)
    return admitted
