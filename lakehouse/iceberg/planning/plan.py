"""Plan of a scan: the data files that may hold wanted rows, in columns; tasks are made only when asked for.

A plan is a value. Runtime filters that arrive later make another plan of it, without planning again.

Invariant: every file of the snapshot that may hold a row that is wanted is in the plan.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakehouse.expr import to_sql
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.iceberg.manifests import ManifestFile
from lakehouse.iceberg.metadata import IcebergSnapshot
from lakehouse.iceberg.planning.bounds_maker import BoundsMaker
from lakehouse.iceberg.planning.delete_set import DeleteSet
from lakehouse.iceberg.planning.deletes import assigned
from lakehouse.iceberg.planning.explanation import CacheUse, Explanation, FilterEffect, Pruned, range_text
from lakehouse.iceberg.planning.files import FileSet
from lakehouse.iceberg.planning.filters import AppliedFilter, bound_filters
from lakehouse.iceberg.planning.matching import Pairs
from lakehouse.iceberg.planning.question import Answers, Question, without
from lakehouse.iceberg.planning.splits import SplitSizes, shares
from lakehouse.iceberg.planning.tasks import ScanTask
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.io.cost import Cost
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["Candidates", "IcebergPlan"]

_LISTED_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Manifests and files that a plan chooses from."""

    snapshot: IcebergSnapshot | None
    schema: IcebergSchema
    """Columns of the condition, and of the rows."""
    manifests: Sequence[ManifestFile]
    """Data manifests of the snapshot, ordered by partition spec."""
    read: I64
    """Numbers of the manifests that the files are of."""
    files: FileSet
    admitted: Mask
    """For each file, True if the plan may keep it, whatever its bounds."""
    deletes: DeleteSet
    """Delete files of the delete manifests that were read."""
    bounds: BoundsMaker
    cache: CacheUse
    """Manifests that were in memory, of those that were asked for."""

    def of_manifests(self, mask: Mask) -> Mask:
        """Returns for each file what is true of its manifest."""
        repeated: Mask = np.repeat(mask[self.read], np.diff(self.files.begins))
        return repeated


class IcebergPlan:
    """The data files that a scan reads; made by ``IcebergTable.plan``.

    Example::

        plan = await table.plan("event_time >= '2026-01-01'")
        plan = plan.prune([RuntimeFilter.in_("user_id", users)])
        print(plan.files(), plan.explain())
    """

    def __init__(
        self,
        candidates: Candidates,
        question: Question,
        *,
        of_manifests: Answers,
        of_files: Answers,
        filters: Sequence[AppliedFilter] = (),
        sizes: SplitSizes,
        cost: Cost,
    ) -> None:
        self._candidates, self._question = candidates, question
        self._of_manifests, self._of_files, self._filters = of_manifests, of_files, tuple(filters)
        self._sizes = sizes
        self.cost = cost
        """Requests and bytes of the planning."""

    def __len__(self) -> int:
        return len(self._at)

    def __repr__(self) -> str:
        return f"<IcebergPlan of {len(self):,} files, {self.bytes:,} bytes>"

    @property
    def snapshot(self) -> IcebergSnapshot | None:
        """Snapshot that is read; None while the table has none."""
        return self._candidates.snapshot

    @property
    def schema(self) -> IcebergSchema:
        """Columns of the rows."""
        return self._candidates.schema

    @property
    def files_pruned(self) -> int:
        """Number of files that were left out, of the manifests that were read."""
        return int(self._read.sum()) - len(self)

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return int(self._candidates.files.sizes[self._at].sum())

    @property
    def rows(self) -> int:
        """Rows of the files, deleted ones included."""
        return int(self._candidates.files.rows[self._at].sum())

    @functools.cached_property
    def _manifests_kept(self) -> Mask:
        return without(self._of_manifests.kept, (one.manifests for one in self._filters))

    @functools.cached_property
    def _read(self) -> Mask:
        """For each candidate, True if it is admitted and its manifest is not left out."""
        read: Mask = self._candidates.of_manifests(self._manifests_kept) & self._candidates.admitted
        return read

    @functools.cached_property
    def _at(self) -> I64:
        """Places of the files among the candidates."""
        kept = self._read & self._of_files.kept
        return np.flatnonzero(without(kept, (one.files for one in self._filters)))

    @functools.cached_property
    def _deletes(self) -> Pairs:
        return assigned(self._candidates.files, self._at, self._candidates.deletes)

    def prune(self, filters: Iterable[RuntimeFilter]) -> IcebergPlan:
        """Returns the plan without the files that these filters exclude; makes no request."""
        made, bounds = self._candidates, self._candidates.bounds
        applied = [
            AppliedFilter(
                filter=one,
                manifests=one.of_manifests(made.manifests, bounds),
                files=one.of_files(made.files, bounds),
            )
            for one in bound_filters(filters, self.schema.table_schema.arrow())
        ]
        return IcebergPlan(
            self._candidates,
            self._question,
            of_manifests=self._of_manifests,
            of_files=self._of_files,
            filters=(*self._filters, *applied),
            sizes=self._sizes,
            cost=self.cost,
        )

    def files(self) -> pa.Table:
        """The data files, a row each: path, format, spec, partition, rows, size, sequence, deletes, residual.

        ``deletes`` are the paths of the delete files that apply, ``residual`` is the condition that the
        file's rows have still to be asked, null where all of them match.
        """
        files, at = self._candidates.files, self._at
        return (
            files.table(at)
            .append_column("deletes", self._candidates.deletes.path_lists(self._deletes, len(at)))
            .append_column("residual", pa.array(self._of_files.residual_texts(at), pa.string()))
        )

    def tasks(self) -> list[ScanTask]:
        """The data files with their delete files and residual conditions, as objects that travel."""
        return list(self._tasks())

    def splits(
        self, *, target_size: int | None = None, open_cost: int | None = None
    ) -> list[tuple[ScanTask, ...]]:
        """The tasks in shares of about equal size; large files are cut at row groups.

        Args:
            target_size: bytes of a share; None = the table's ``read.split.target-size``.
            open_cost: least weight of a file; None = the table's ``read.split.open-file-cost``.
        """
        sizes = SplitSizes(
            target=self._sizes.target if target_size is None else target_size,
            open_cost=self._sizes.open_cost if open_cost is None else open_cost,
        )
        return shares(self._tasks(), sizes)

    def _tasks(self) -> Iterator[ScanTask]:
        files, deletes, pairs = self._candidates.files, self._candidates.deletes, self._deletes
        ends = np.searchsorted(pairs.files, np.arange(len(self._at)), side="right").tolist()
        begin = 0
        residuals = self._of_files.residuals(self._at)
        for task, end, residual in zip(files.tasks(self._at), ends, residuals, strict=True):
            numbers, begin = pairs.deletes[begin:end].tolist(), end
            applying = tuple(deletes.delete_file(delete) for delete in numbers)
            yield replace(task, deletes=applying, residual=residual)

    def explain(self, *, limit: int = _LISTED_MAX) -> Explanation:
        """Says which condition or filter excludes which manifest and which file, and why.

        Args:
            limit: maximum number of manifests and files that are listed.
        """
        files, read = self._candidates.files, self._read
        pruned = itertools.chain(self._pruned_manifests(), self._pruned_files(limit))
        return Explanation(
            snapshot=None if self.snapshot is None else self.snapshot.id,
            manifests=len(self._candidates.manifests),
            manifests_pruned=int((~self._manifests_kept).sum()),
            files=len(self),
            files_pruned=self.files_pruned,
            bytes=self.bytes,
            rows=self.rows,
            delete_files=len(self._candidates.deletes),
            filters=tuple(self._effects(files.sizes, read)),
            pruned=tuple(itertools.islice(pruned, limit)),
            cost=self.cost,
            cache=self._candidates.cache,
        )

    def _effects(self, sizes: I64, read: Mask) -> Iterator[FilterEffect]:
        for part, manifests, files in zip(
            self._question.asked, self._of_manifests.excluded, self._of_files.excluded, strict=True
        ):
            yield _effect(to_sql(part), "where", manifests, files & read, sizes)
        for one in self._filters:
            yield _effect(str(one.filter), "runtime", one.manifests, one.files & read, sizes)

    def _pruned_manifests(self) -> Iterator[Pruned]:
        manifests = self._candidates.manifests
        at = np.flatnonzero(~self._manifests_kept)
        if not len(at):
            return
        names = self._question.names.union(*([one.filter.column] for one in self._filters))
        bounds = self._candidates.bounds.of_manifests(manifests, names)
        for number in at.tolist():
            at_part = self._of_manifests.first_excluding(number)
            if at_part is not None:
                part = self._question.asked[at_part]
                by, why, columns = "partition", to_sql(part), sorted(part.columns())
            else:
                excluding = next(one.filter for one in self._filters if one.manifests[number])
                by, why, columns = "runtime filter", str(excluding), [excluding.column]
            yield Pruned(
                path=manifests[number].path,
                what="manifest",
                by=by,
                why=f"{why}, and {range_text(bounds, columns, number)}",
            )

    def _pruned_files(self, limit: int) -> Iterator[Pruned]:
        files, bounds = self._candidates.files, self._candidates.bounds
        left_out = self._read.copy()
        left_out[self._at] = False
        at = np.flatnonzero(left_out)[:limit]
        if not len(at):
            return
        names = self._question.names.union(*([one.filter.column] for one in self._filters))
        known = bounds.of_files(files, names)
        by_partition = self._question.ask(bounds.of_partitions(files, self._question.names))
        for place, path in zip(at.tolist(), files.paths(at).to_pylist(), strict=True):
            number = self._of_files.first_excluding(place)
            if number is not None:
                part = self._question.asked[number]
                by = "partition" if by_partition.excluded[number][place] else "metrics"
                why, columns = to_sql(part), sorted(part.columns())
            else:
                excluding = next(one.filter for one in self._filters if one.files[place])
                by, why, columns = "runtime filter", str(excluding), [excluding.column]
            yield Pruned(path=path, what="file", by=by, why=f"{why}, and {range_text(known, columns, place)}")


def _effect(text: str, kind: str, manifests: Mask, files: Mask, sizes: I64) -> FilterEffect:
    return FilterEffect(
        filter=text,
        kind=kind,
        manifests=int(manifests.sum()),
        files=int(files.sum()),
        bytes=int(sizes[files].sum()),
    )
