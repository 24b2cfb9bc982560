"""TableMaintenance without await: the twin of :mod:`lakehouse.storage.table_maintenance`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/storage/table_maintenance.py: edit that file, then run `make docs`.

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from lakehouse.io.work import ProgressCallback
from lakehouse.storage.compact import RescaleReport
from lakehouse.storage.maintenance import (
    AnalyzeReport,
    ExpireReport,
    OrphanReport,
    PartitionExpiryReport,
    RepairReport,
    VerifyReport,
)
from lakehouse.storage.table_maintenance import TableMaintenance as AsyncTableMaintenance
from lakehouse.storage.tables import PublishReport
from lakehouse.sync.bridge import Bridge

__all__ = ["TableMaintenance"]


class TableMaintenance:
    """Base of ``Table`` with its methods for maintenance."""

    def __init__(self, wrapped: AsyncTableMaintenance, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        sample: float | None = None,
        progress: ProgressCallback | None = None,
    ) -> AnalyzeReport:
        """Counts distinct values, nulls and bounds of columns, for planners, and keeps them with the table.

        The newest snapshot is read; what is written is one file of sketches, and a commit that readers of
        rows and of changes do not see. The statistics stay those of that snapshot, until the next call.

        Args:
            columns: names; None = all but nested ones.
            sample: share of the rows to read, in whole parts of the table, so that it may be more; None =
                all. Distinct values of all rows are then estimated, by how many were seen once.
            progress: called with the number of rows read.

        Example::

            report = table.analyze(["id", "amount"])
            print(report.columns[0].ndv)
        """
        return self._bridge.call(self._wrapped.analyze, columns, sample=sample, progress=progress)

    def expire_snapshots(
        self,
        *,
        retain: int | None = None,
        older_than: dt.datetime | int | str | None = None,
        grace_s: float | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> ExpireReport:
        """Lets old snapshots expire, and deletes objects of those that expired long enough ago.

        Expired snapshots cannot be read from the call on; their objects are deleted by the first call
        after ``delete_grace_s`` has passed, so that readers under way can finish. With neither
        ``retain`` nor ``older_than`` nothing expires, and expired snapshots that wait are deleted. Tagged and
        pinned snapshots stay.

        Args:
            retain: number of the newest snapshots that stay.
            older_than: snapshots from this moment on stay: a datetime, ISO text (UTC without a zone),
                or milliseconds. With ``retain`` both are kept to.
            grace_s: instead of the table's option ``delete_grace_s``. Less is safe only when nobody
                reads or writes the table meanwhile.
            dry_run: change nothing and report what would be done now.
            progress: called with the progress made.

        Example::

            print(table.expire_snapshots(retain=100))
        """
        return self._bridge.call(
            self._wrapped.expire_snapshots,
            retain=retain,
            older_than=older_than,
            grace_s=grace_s,
            dry_run=dry_run,
            progress=progress,
        )

    def remove_orphans(
        self,
        *,
        older_than: dt.datetime | int | str | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> OrphanReport:
        """Deletes objects that were uploaded for commits that never happened.

        Only objects that look like ours are deleted; others in the table's directory stay. Writes that
        began to upload before ``older_than`` and are not committed yet will be refused.

        Args:
            older_than: uploads before this moment; None = those older than ``orphan.min_age_s``.
            dry_run: change nothing and report what would be deleted now.
            progress: called with the progress made.

        Example::

            print(table.remove_orphans(dry_run=True))
        """
        return self._bridge.call(
            self._wrapped.remove_orphans, older_than=older_than, dry_run=dry_run, progress=progress
        )

    def expire_partitions(
        self,
        older_than: dt.datetime | int | str | dt.date,
        *,
        column: str | None = None,
        dry_run: bool = False,
    ) -> PartitionExpiryReport:
        """Deletes the rows of partitions before a moment, in one commit; older snapshots still have them.

        Whole files are removed unread when the table has no primary key, or one that holds the
        partition columns; otherwise the rows' keys are read and deleted.

        Args:
            older_than: the first moment that stays: a date, a datetime, ISO text (UTC without a zone), or
                milliseconds; for a column of text a text, compared as such.
            column: the partition column of the age; may be left out when only one is a date or timestamp.
            dry_run: change nothing and report what would be deleted now.

        Example::

            table.expire_partitions("2026-01-01")
        """
        return self._bridge.call(self._wrapped.expire_partitions, older_than, column=column, dry_run=dry_run)

    def verify(
        self, *, deep: bool = False, snapshot: int | None = None, progress: ProgressCallback | None = None
    ) -> VerifyReport:
        """Looks for damage: every object that snapshots need must exist and be what they describe.

        One listing shows which data files exist; snapshots, manifests and schemas are read. Nothing
        is changed and nothing raised: the report names damaged objects and the snapshots they affect.

        Args:
            deep: read every data file too: checksums, rows, kinds, keys and their order, bounds, indexes.
            snapshot: only this one; None = all that exist.
            progress: called with the progress made.

        Example::

            report = table.verify(deep=True)
            assert report.ok, report
        """
        return self._bridge.call(self._wrapped.verify, deep=deep, snapshot=snapshot, progress=progress)

    def publish_iceberg(self, *, format_version: int | None = None, dry_run: bool = False) -> PublishReport:
        """Publishes the newest snapshot as an Iceberg table over the same files, for readers of that format.

        The published table is in ``iceberg/`` of the table's directory. Its readers merge nothing, so they
        see compacted rows: of every merge unit the oldest run, and in version 3, where the newest row of a
        key stays, runs above it too. The report's ``lag`` counts the rest. Nothing is written when readers
        would see the same as before. What is published is kept from expiry.

        Args:
            format_version: 2 or 3; None = the table's option ``iceberg.format_version``, or what it is
                published in already.
            dry_run: write nothing and report what would be covered now.

        Example::

            table.compact(full=True)
            print(table.publish_iceberg())
        """
        return self._bridge.call(
            self._wrapped.publish_iceberg, format_version=format_version, dry_run=dry_run
        )

    def rescale(
        self, buckets: int, *, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> RescaleReport:
        """Gives the table another number of buckets, in one commit that changes no answer.

        Every file is read and written once; others may write meanwhile, and the files they add are split too.
        Compactions under way give way. Older snapshots keep their files.

        Args:
            buckets: the new number of buckets.
            dry_run: change nothing and report how much would be split now.
            progress: called with the progress made.

        Example::

            table.rescale(16)
        """
        return self._bridge.call(self._wrapped.rescale, buckets, dry_run=dry_run, progress=progress)

    def repair(
        self, *, deep: bool = True, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> RepairReport:
        """Makes a new snapshot of everything that can still be read, and reports exactly what cannot.

        It starts from the newest snapshot that can be read. Missing and damaged files are left out;
        the sound rows of a damaged one are written anew. Nothing is deleted. Where newer rows are lost,
        older rows of their keys reappear: the report names the ranges of keys.

        Args:
            deep: read every data file; else check only that it exists and has the right size.
            dry_run: change nothing and report what would be kept and lost.
            progress: called with the progress made.

        Example::

            print(table.repair(dry_run=True))
        """
        return self._bridge.call(self._wrapped.repair, deep=deep, dry_run=dry_run, progress=progress)
