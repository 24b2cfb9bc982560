"""Maintenance that keeps a table small, sound and quick, as methods of ``Table``.

Invariant: a method that deletes or rewrites can estimate its work with ``dry_run=True``, reports
its cost, and is safe to run beside writers and other maintenance, to end anywhere, and to repeat.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from lakehouse.errors import InvalidInputError
from lakehouse.io.work import ProgressCallback
from lakehouse.storage.compact.rescaling import RescaleReport, rescale
from lakehouse.storage.maintenance.analyze import AnalyzeReport, analyze_table
from lakehouse.storage.maintenance.expire import ExpireReport, expire_snapshots
from lakehouse.storage.maintenance.orphans import OrphanReport, remove_orphans
from lakehouse.storage.maintenance.partition_expiry import PartitionExpiryReport, expire_partitions
from lakehouse.storage.maintenance.repair import repair_table
from lakehouse.storage.maintenance.repair_report import RepairReport
from lakehouse.storage.maintenance.verify import verify_table
from lakehouse.storage.maintenance.verify_report import VerifyReport
from lakehouse.storage.tables.moments import time_ms_of
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.publishing import PublishReport

__all__ = ["TableMaintenance"]

_Moment = dt.datetime | int | str


class TableMaintenance:
    """Base of ``Table`` with its methods for maintenance."""

    _table: OpenTable

    async def analyze(
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

            report = await table.analyze(["id", "amount"])
            print(report.columns[0].ndv)
        """
        return await analyze_table(self._table, columns, sample=sample, progress=progress)

    async def expire_snapshots(
        self,
        *,
        retain: int | None = None,
        older_than: _Moment | None = None,
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

            print(await table.expire_snapshots(retain=100))
        """
        return await expire_snapshots(
            self._table,
            retain=retain,
            older_than_ms=None if older_than is None else time_ms_of(older_than),
            grace_s=grace_s,
            dry_run=dry_run,
            progress=progress,
        )

    async def remove_orphans(
        self,
        *,
        older_than: _Moment | None = None,
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

            print(await table.remove_orphans(dry_run=True))
        """
        return await remove_orphans(
            self._table,
            older_than_ms=None if older_than is None else time_ms_of(older_than),
            dry_run=dry_run,
            progress=progress,
        )

    async def expire_partitions(
        self, older_than: _Moment | dt.date, *, column: str | None = None, dry_run: bool = False
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

            await table.expire_partitions("2026-01-01")
        """
        return await expire_partitions(self._table, older_than, column=column, dry_run=dry_run)

    async def verify(
        self,
        *,
        deep: bool = False,
        snapshot: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> VerifyReport:
        """Looks for damage: every object that snapshots need must exist and be what they describe.

        One listing shows which data files exist; snapshots, manifests and schemas are read. Nothing
        is changed and nothing raised: the report names damaged objects and the snapshots they affect.

        Args:
            deep: read every data file too: checksums, rows, kinds, keys and their order, bounds, indexes.
            snapshot: only this one; None = all that exist.
            progress: called with the progress made.

        Example::

            report = await table.verify(deep=True)
            assert report.ok, report
        """
        return await verify_table(self._table, deep=deep, snapshot=snapshot, progress=progress)

    async def publish_iceberg(
        self, *, format_version: int | None = None, dry_run: bool = False
    ) -> PublishReport:
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

            await table.compact(full=True)
            print(await table.publish_iceberg())
        """
        publish = self._table.env.publish
        if publish is None:
            raise InvalidInputError(
                f"{self._table.name} was opened without a lake, which publishes tables: open it by "
                "lakehouse.connect(…)"
            )
        return await publish(self._table, format_version=format_version, dry_run=dry_run)

    async def rescale(
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

            await table.rescale(16)
        """
        return await rescale(self._table, buckets, dry_run=dry_run, progress=progress)

    async def repair(
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

            print(await table.repair(dry_run=True))
        """
        return await repair_table(self._table, deep=deep, dry_run=dry_run, progress=progress)
