"""Batches of a stream: where one ends, and what its tasks read. Decided in the driver.

A batch is pieces of the first state, or pieces of what one commit brought where that is more than a
batch may hold, or whole commits.

Invariant: the rows of a batch follow from its two positions and the columns of the stream, so a batch that is
planned again has the same rows. Consecutive batches leave nothing out and bring nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.expr import Expr
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.spark.streaming.offsets import StreamOffset
from lakehouse.storage.cdc import (
    Increment,
    Limit,
    added_by,
    appended_in,
    changed_pieces,
    check_kept,
    file_pieces,
    read_snapshots,
    state_pieces,
    token_of,
    view_behind,
)
from lakehouse.storage.files import EVERY_KEY, KeyRange, has_keys
from lakehouse.storage.scan import (
    LARGE,
    OPENED_MAX,
    Pruner,
    Split,
    bind_where,
    cut_files,
    opened_splits,
    pieces_of,
    plan_files,
)
from lakehouse.storage.schema import Lifetime, lifetime, shown_where
from lakehouse.storage.tables import OpenTable, View

__all__ = ["StreamPlan", "StreamWork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWork:
    """The files and keys that one task of a batch reads."""

    snapshot: int
    """Id of the earlier state's snapshot: while it is kept, so is all that is read."""
    split: Split
    """Files of the later state, and which of their rows."""
    before: tuple[FileEntry, ...] = ()
    """Files of the earlier state with those keys."""
    compared: bool
    """True: the rows are the net changes between the two states; False: those that the files hold."""
    schema: TableSchema
    """Schema that they are read with."""
    shows: tuple[Lifetime | None, Lifetime | None] = (None, None)
    """Lifetimes that decide which rows the two states show, the earlier first; None = all rows."""


class StreamPlan:
    """Plans the batches of one stream.

    Args:
        table: the table.
        columns: that the stream delivers.
        starting: where it begins, see :class:`lakehouse.spark.reading.options.ReadOptions`.
        where: which rows it delivers.
        split_bytes: about how much a task reads, given how much all of them do.
    """

    def __init__(
        self,
        table: OpenTable,
        columns: Sequence[str],
        *,
        starting: str,
        where: Expr | None,
        split_bytes: Callable[[int], int],
    ) -> None:
        self._table = table
        self._columns = tuple(columns)
        self._starting = starting
        self._where = where
        self._split_bytes = split_bytes
        self._schema: TableSchema | None = None

    # --- where a batch ends -------------------------------------------------------

    async def newest(self) -> int:
        """Returns the id of the newest snapshot."""
        return (await self._table.newest()).snapshot.id

    async def end_of_batch(self, start: StreamOffset, limit: Limit | None, upto: int | None) -> StreamOffset:
        """Finds the end of a batch that begins at a position; returns the position when nothing has come.

        Args:
            start: where the batch before ended.
            limit: what the batch holds at most; None = all there is.
            upto: no later snapshot is looked at; None = the newest.
        """
        newest = await self._table.newest()
        self._check_columns(newest)
        if start.at is None:
            begun = await self._begin(newest)
            return replace(await self._after(begun, newest, limit, upto), begun=begun)
        return await self._after(start.place, newest, limit, upto)

    async def _begin(self, newest: View) -> StreamOffset:
        """Finds the position where a new stream begins."""
        table, word = self._table, self._starting
        if word == "initial":
            return StreamOffset(at=token_of(table, newest), state=0)
        if word == "latest":
            return StreamOffset(at=token_of(table, newest))
        if word == "earliest":
            view = await table.view(snapshot=newest.snapshot.earliest)
        elif word.isdecimal():
            view = await table.view(snapshot=int(word))
        else:
            view = await table.view(timestamp=word)
        return StreamOffset(at=token_of(table, view))

    async def _after(
        self, start: StreamOffset, newest: View, limit: Limit | None, upto: int | None
    ) -> StreamOffset:
        if start.state is None and start.step is None and start.at == token_of(self._table, newest):
            return start
        view = await self._view(start)
        check_kept(self._table, view, newest)
        if start.state is not None:
            pieces = await self._state(view)
            end = len(pieces) if limit is None else limit.take(pieces, start.state)
            return StreamOffset(at=start.at, state=end) if end < len(pieces) else StreamOffset(at=start.at)
        last = newest.snapshot.id if upto is None else min(upto, newest.snapshot.id)
        if view.snapshot.id >= last:
            return start
        if start.step is not None:
            return await self._within(view, start.step, limit)
        if limit is None:
            return await self._at(last)
        return await self._some(view, newest, last, limit)

    async def _within(self, view: View, begin: int, limit: Limit | None) -> StreamOffset:
        """Finds the end of a batch within what the commit after a snapshot brought."""
        following = view.snapshot.id + 1
        after = await self._table.read_view(snapshot=following)
        pieces = await self._step(view, after)
        end = len(pieces) if limit is None else limit.take(pieces, begin)
        if end < len(pieces):
            return StreamOffset(at=token_of(self._table, view), step=end)
        return StreamOffset(at=token_of(self._table, after))

    async def _some(self, view: View, newest: View, last: int, limit: Limit) -> StreamOffset:
        """Takes as many commits after a snapshot as the limit allows, or a part of the first one."""
        files = rows = size = 0
        first = view.snapshot.id + 1
        self._check_steps(view, newest)
        snapshots = read_snapshots(self._table, first, newest.snapshot)
        async with aclosing(snapshots):
            async for snapshot in snapshots:
                if snapshot.id > last:
                    break
                more = added_by(snapshot)
                files, rows, size = files + more[0], rows + more[1], size + more[2]
                if limit.exceeded(files, rows, size):
                    if snapshot.id == first:
                        return await self._within(view, 0, limit)
                    return await self._at(snapshot.id - 1)
        return await self._at(last)

    async def _at(self, number: int) -> StreamOffset:
        return StreamOffset(at=token_of(self._table, await self._table.read_view(snapshot=number)))

    # --- what a batch reads -------------------------------------------------------

    async def work(self, start: StreamOffset, end: StreamOffset) -> list[StreamWork]:
        """Plans what the tasks of a batch read."""
        if start.at is None:
            if end.begun is None:
                return []
            start = end.begun
        if start.place == end.place:
            return []
        newest = await self._table.newest()
        self._check_columns(newest)
        view = await self._view(start)
        check_kept(self._table, view, newest)
        if start.state is not None:
            pieces = (await self._state(view))[start.state : end.state]
            return await self._held(view, pieces, self._shows(view))
        if start.step is not None or end.step is not None:
            after = await self._table.read_view(snapshot=view.snapshot.id + 1)
            pieces = (await self._step(view, after))[start.step or 0 : end.step]
        else:
            after = await self._view(end)
            pieces = await self._steps(view, after, newest)
        if not self._read_with.primary_key:
            return await self._held(view, pieces, None)
        return await self._compared(view, pieces, (self._shows(view), self._shows(after)))

    async def _held(
        self, view: View, pieces: Sequence[Increment], shows: Lifetime | None
    ) -> list[StreamWork]:
        """Plans tasks that read what files hold."""
        schema, where = self._read_with, shown_where(self._where, shows)
        pruner = None if where is None else Pruner(bind_where(where, schema), schema)
        entries = [entry for piece in pieces for entry in piece.after]
        units = plan_files(entries, schema, pruner).units
        step = self._split_bytes(sum(entry.size for entry in entries))
        splits = await opened_splits(units, step, self._table, schema)
        return [
            StreamWork(
                snapshot=view.snapshot.id, split=split, compared=False, schema=schema, shows=(None, shows)
            )
            for split in splits
        ]

    async def _compared(
        self, view: View, pieces: Sequence[Increment], shows: tuple[Lifetime | None, Lifetime | None]
    ) -> list[StreamWork]:
        """Plans tasks that compare two states: neighbouring pieces together, large ones cut by keys."""
        step = self._split_bytes(sum(piece.size for piece in pieces))
        groups: list[list[Increment]] = []
        held = 0
        for piece in pieces:
            if not groups or held + piece.size > step:
                groups.append([])
                held = 0
            groups[-1].append(piece)
            held += piece.size
        work = []
        for group in groups:
            ranges = await self._ranges(group, step)
            size = sum(piece.size for piece in group) // len(ranges)
            for keys in ranges:
                before, after = (
                    tuple(entry for files in sides for entry in files if has_keys(entry, keys))
                    for sides in ([piece.before for piece in group], [piece.after for piece in group])
                )
                split = Split(entries=after, keys=keys, size=size)
                work.append(
                    StreamWork(
                        snapshot=view.snapshot.id,
                        split=split,
                        before=before,
                        compared=True,
                        schema=self._read_with,
                        shows=shows,
                    )
                )
        return work

    async def _ranges(self, group: Sequence[Increment], step: int) -> list[KeyRange]:
        """Returns ranges of keys to read a group in; groups of several pieces are small."""
        if len(group) > 1 or group[0].size < LARGE * step:
            return [EVERY_KEY]
        files = group[0].added_files
        pieces = await pieces_of(self._table, self._read_with, files[:OPENED_MAX])
        return cut_files(files, step, pieces)

    async def _state(self, view: View) -> list[Increment]:
        return state_pieces(await view.entries(), self._read_with)

    async def _step(self, view: View, after: View) -> list[Increment]:
        """Returns what one commit brought, in pieces."""
        if not self._read_with.primary_key:
            return file_pieces(await appended_in(self._table, after.snapshot))
        return await self._changed(view, after)

    async def _steps(self, view: View, after: View, newest: View) -> list[Increment]:
        """Returns what the commits between two states brought, in pieces."""
        if self._read_with.primary_key:
            return await self._changed(view, after)
        self._check_steps(view, newest)
        entries: list[FileEntry] = []
        snapshots = read_snapshots(self._table, view.snapshot.id + 1, newest.snapshot)
        async with aclosing(snapshots):
            async for snapshot in snapshots:
                if snapshot.id > after.snapshot.id:
                    break
                entries += await appended_in(self._table, snapshot)
        return file_pieces(entries)

    async def _changed(self, view: View, after: View) -> list[Increment]:
        return changed_pieces(
            await view.entries(),
            await after.entries(),
            self._read_with,
            every=self._shows(view) is not None or self._shows(after) is not None,
        )

    def _shows(self, view: View) -> Lifetime | None:
        return lifetime(view.schema, view.snapshot.time_ms, later=self._read_with)

    async def _view(self, offset: StreamOffset) -> View:
        return await view_behind(self._table, offset.at)

    # --- checks -------------------------------------------------------------------

    @property
    def _read_with(self) -> TableSchema:
        assert self._schema is not None
        return self._schema

    def _check_steps(self, view: View, newest: View) -> None:
        """Refuses to go on when commits after a snapshot have expired; a tag keeps its own snapshot only."""
        if view.snapshot.id + 1 < newest.snapshot.earliest:
            raise NotFoundError(
                f"commits to {self._table.name} after snapshot {view.snapshot.id} have expired; there are "
                f"{newest.snapshot.earliest} to {newest.snapshot.id}. Begin a new stream, with a new "
                "checkpoint; .option('starting', 'initial') reads what the table holds first.",
                kind="position-expired",
                snapshot=view.snapshot.id,
                earliest=newest.snapshot.earliest,
            )

    def _check_columns(self, newest: View) -> None:
        """Refuses to go on when columns of the stream are no longer those of the table."""
        if self._schema is None:
            self._schema = newest.schema
            return
        if newest.schema.id == self._schema.id:
            return
        was, now = (
            {field.name: field for field in schema.fields} for schema in (self._schema, newest.schema)
        )
        looked_at = set(self._columns)
        if looked_at >= was.keys():  # a stream of all columns lacks a new one
            looked_at |= now.keys()
        changed = sorted(
            name
            for name in looked_at
            if name not in was
            or name not in now
            or (was[name].id, was[name].type) != (now[name].id, now[name].type)
        )
        if changed:
            raise InvalidInputError(
                f"columns of {self._table.name} changed while it was streamed: {', '.join(changed)}. Make "
                "the data frame anew and start the query again with its checkpoint: it goes on where it was, "
                "with the columns as they are now",
                columns=tuple(changed),
            )
