"""Expiry of partitions: the rows of all partitions before a moment are deleted by one commit.

Invariant: the rows deleted are those that ``delete`` of the condition *column < moment* deletes. Whole files
are removed unread where they cannot hide a row of another partition; else keys are deleted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, col
from lakehouse.format.keys import encode_value
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import Field, Primitive, StringType, TableSchema, type_text
from lakehouse.io.work import DryRunReport, measured
from lakehouse.storage.tables.moments import time_ms_of
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.write.conditional_writes import ReplacingWrite
from lakehouse.suggest import suggestion

__all__ = ["PartitionExpiryReport", "expire_partitions"]

_MOMENTS = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartitionExpiryReport(DryRunReport):
    """Result of an expiry of partitions, or with ``dry_run`` its estimate."""

    snapshot: int
    """Id of its snapshot; of the newest one when there was nothing to do."""
    changed: bool
    """Whether rows were deleted."""
    condition: str
    """Condition that the deleted rows match, as SQL."""
    partitions: int = 0
    """Number of partitions before the moment that had files."""
    files: int = 0
    """Number of files of these partitions."""
    rows: int = 0
    """Rows of these files, of every kind."""
    bytes: int = 0
    """Bytes of these files."""

    def __str__(self) -> str:
        return (
            f"{self.partitions:,} partitions where {self.condition} {self._did('expired')}: {self.files:,} "
            f"files, {self.rows:,} rows, {self.bytes:,} bytes; {self.cost}"
        )


@measured
async def expire_partitions(
    table: OpenTable, older_than: object, *, column: str | None = None, dry_run: bool = False
) -> PartitionExpiryReport:
    """Deletes the rows of old partitions; see ``Table.expire_partitions``."""
    view = await table.newest()
    partition_column = _column(view.schema, column)
    limit = _limit(partition_column, older_than)
    old = _before(await view.files(), view.schema, partition_column, limit)
    snapshot, changed = view.snapshot.id, False
    where: Expr = col(partition_column.name) < limit
    if not dry_run:
        done = await ReplacingWrite(table, (), where=where, deletes=True).run()
        snapshot, changed = done.snapshot, done.changed
    return PartitionExpiryReport(
        snapshot=snapshot,
        changed=changed,
        condition=str(where),
        partitions=len({entry.partition for entry in old}),
        files=len(old),
        rows=sum(entry.rows for entry in old),
        bytes=sum(entry.size for entry in old),
        dry_run=dry_run,
    )


def _column(schema: TableSchema, name: str | None) -> Field:
    """Returns the partition column that holds the age of rows."""
    fields = {field.name: field for field in schema.partition_fields}
    if name is None:
        dated = [field for field in fields.values() if _is_moment(field)]
        if len(dated) == 1:
            return dated[0]
        raise InvalidInputError(
            f"expire_partitions needs one partition column of a date or a timestamp; there are {len(dated)} "
            f"among {', '.join(fields) or 'none'}: name one with column=",
        )
    if name not in fields:
        raise InvalidInputError(
            f"{name!r} is not a partition column; {suggestion(name, list(fields))}", column=name
        )
    if not _is_moment(fields[name]) and not isinstance(fields[name].type, StringType):
        raise InvalidInputError(
            f"partition column {name!r} is {type_text(fields[name].type)}: a date, a timestamp or text "
            "tells how old rows are",
            column=name,
        )
    return fields[name]


def _is_moment(field: Field) -> bool:
    return isinstance(field.type, Primitive) and field.type.name in ("date", *_MOMENTS)


def _limit(field: Field, older_than: object) -> object:
    """Returns the first value that stays, typed like the column."""
    if isinstance(field.type, StringType):
        if isinstance(older_than, str):
            return older_than
        raise InvalidInputError(f"{field.name} is text, so older_than is too, not {older_than!r}")
    if isinstance(older_than, dt.date) and not isinstance(older_than, dt.datetime):
        older_than = dt.datetime(older_than.year, older_than.month, older_than.day, tzinfo=dt.UTC)
    if not isinstance(older_than, dt.datetime | int | str):
        raise InvalidInputError(
            f"older_than is a date, a datetime, ISO text or milliseconds, not {older_than!r}"
        )
    moment = dt.datetime.fromtimestamp(time_ms_of(older_than) / 1000, dt.UTC)
    if field.type == Primitive("date"):
        return moment.date()
    return moment if field.type == Primitive("timestamp") else moment.replace(tzinfo=None)


def _before(
    entries: Sequence[FileEntry], schema: TableSchema, field: Field, limit: object
) -> list[FileEntry]:
    """Returns the files of partitions before the limit; files that delete keys of any partition have none."""
    place, bound = schema.partition_by.index(field.name), encode_value(limit, field.type)
    return [entry for entry in entries if entry.partition and entry.partition[place] < bound]
