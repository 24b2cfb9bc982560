"""Stream of a table's changes as they are committed, which a reader resumes where it left off.

Invariant: the tables between two tokens are the complete net changes between their two snapshots; for a
table without a primary key, the inserted rows. A reader that stores the token of the changes it has
processed, and resumes from it, misses nothing; a step that it had begun and not finished comes again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.storage.cdc.appended_rows import appended_between
from lakehouse.storage.cdc.snapshot_diff import net_changes
from lakehouse.storage.schema.row_ttl import lifetime
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["ChangeBatch", "changes_between", "check_kept", "follow_changes", "token_of", "view_behind"]

_PARTS = 3
"""Number of parts of a token: table, snapshot id, snapshot token."""
_TOKEN_DIGITS = 12
"""Number of hexadecimal digits of a table's uuid, and characters of a snapshot's token, in a token."""
_QUICKER = 4
"""Polls per ``poll_s`` right after changes came, when more are likely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """Changed rows, and the token to resume with."""

    rows: pa.Table
    """Rows with a column ``_change``: insert, update_before, update_after or delete."""
    snapshot: int
    """Id of the snapshot that the changes lead to."""
    token: str
    """Position to resume from once these rows are processed. Of several batches of one step, all but the
    last have the token from before the step: a step is processed as a whole."""


async def changes_between(
    table: OpenTable, start: View, end: View, *, net: bool = True
) -> AsyncGenerator[pa.Table, None]:
    """Yields the row changes between two snapshots.

    With ``net=False`` a table without a key reports inserts and ignores removals, instead of refusing when
    there were any. Tables with a key always report net changes.
    """
    async with (
        reading(table, start, end),
        aclosing(_changes_between(table, start, end, net=net)) as tables,
    ):
        async for rows in tables:
            yield rows


async def _changes_between(
    table: OpenTable, start: View, end: View, *, net: bool
) -> AsyncGenerator[pa.Table, None]:
    if not end.schema.primary_key:
        async with aclosing(appended_between(table, start, end, net=net)) as tables:
            async for rows in tables:
                yield rows
        return
    changes = net_changes(
        await start.entries(),
        await end.entries(),
        end.schema,
        table,
        shows=(lifetime(start.schema, start.snapshot.time_ms, later=end.schema), end.shows),
    )
    async with aclosing(changes) as tables:
        async for rows in tables:
            yield rows


async def follow_changes(
    table: OpenTable, *, after: str | int | None, poll_s: float
) -> AsyncGenerator[ChangeBatch, None]:
    """Yields the changes after a token or a snapshot, and then new ones as they come, without end.

    Args:
        table: the table.
        after: token of an earlier batch, id of a snapshot, or None = the newest snapshot.
        poll_s: seconds between looks for a new snapshot.
    """
    if poll_s <= 0:
        raise InvalidInputError(f"poll_s is a number of seconds above 0, not {poll_s!r}")
    view = await view_behind(table, after)
    pause = poll_s
    while True:
        newest = await table.newest()
        if newest.snapshot.id == view.snapshot.id:
            await table.env.clock.sleep(pause)
            pause = poll_s
            continue
        # Refused before anything is yielded, not when a file turns out to be deleted.
        check_kept(table, view, newest)
        # One table is held back, since only the last one of a step has the token of its end.
        waiting: pa.Table | None = None
        async with aclosing(changes_between(table, view, newest, net=False)) as tables:
            async for rows in tables:
                if waiting is not None:
                    yield _batch(table, waiting, newest, view)
                waiting = rows
        view = newest
        if waiting is not None:
            yield _batch(table, waiting, newest, newest)
        pause = poll_s / _QUICKER


def _batch(table: OpenTable, rows: pa.Table, newest: View, position: View) -> ChangeBatch:
    return ChangeBatch(rows=rows, snapshot=newest.snapshot.id, token=token_of(table, position))


def token_of(table: OpenTable, view: View) -> str:
    """Returns a token for a snapshot that no other table's snapshot has, nor another one of the same id."""
    return f"{table.uuid.hex[:_TOKEN_DIGITS]}.{view.snapshot.id}.{view.snapshot.token[:_TOKEN_DIGITS]}"


async def view_behind(table: OpenTable, after: str | int | None) -> View:
    """Returns the state that a reader has: that of a token, of a snapshot id, or for None the newest.

    Raises:
        InvalidInputError: ``after`` is none of these, or a position in another table or history.
        NotFoundError: the snapshot has expired.
    """
    if after is None:
        return await table.newest()
    if isinstance(after, int) and not isinstance(after, bool):  # True is an int, but no id
        return await table.read_view(snapshot=after)
    parts = after.split(".") if isinstance(after, str) else []
    if len(parts) != _PARTS or not parts[1].isdecimal():
        raise InvalidInputError(
            f"after is a token of an earlier batch, the id of a snapshot, or None, not {after!r}"
        )
    rows, number, token = parts[0], int(parts[1]), parts[2]
    if rows != table.uuid.hex[:_TOKEN_DIGITS]:
        raise InvalidInputError(
            f"{after!r} is a position in another table, or in an earlier one of the name {table.name}: begin "
            "anew from a snapshot",
            token=after,
        )
    try:
        view = await table.read_view(snapshot=number)
    except NotFoundError as gone:
        raise _expired_error(table, number, await table.newest()) from gone
    if not view.snapshot.token.startswith(token):
        raise InvalidInputError(
            f"{after!r} names another snapshot {number} than {table.name} has: begin anew from a snapshot",
            token=after,
        )
    return view


def check_kept(table: OpenTable, view: View, newest: View) -> None:
    """Raises NotFoundError when the state that the reader has has expired."""
    number, head = view.snapshot.id, newest.snapshot
    if number < head.earliest and not any(ref.snapshot == number for ref in head.refs.values()):
        raise _expired_error(table, number, newest)


def _expired_error(table: OpenTable, number: int, newest: View) -> NotFoundError:
    return NotFoundError(
        f"snapshot {number} of {table.name}, up to which changes were read, has expired; there are "
        f"{newest.snapshot.earliest} to {newest.snapshot.id}. Read the table once, and follow it from there; "
        "a tag or pin keeps a position.",
        kind="position-expired",
        snapshot=number,
        earliest=newest.snapshot.earliest,
    )
