"""One table as this process sees it: its snapshots, schemas, files and commits, wired together.

Invariant: everything that a :class:`View` reports belongs to one snapshot.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import uuid
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

from lakehouse.cache import CacheBudget, identity_tags
from lakehouse.clock import Clock
from lakehouse.config import Settings, TableSettings
from lakehouse.errors import CorruptionError, FormatError, InvalidInputError, NotFoundError
from lakehouse.format.metadata import CommitKind, FileEntry, FileFormat, NamePointer, Snapshot
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.storage.commit.committer import Change, Committed, Committer
from lakehouse.storage.files.open import open_run
from lakehouse.storage.files.reader import RunReader
from lakehouse.storage.files.row_writer import write_rows
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.indexes.search import IndexAnswers, IndexQuestion, search_indexes
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.expiry_guard import from_head
from lakehouse.storage.metadata.manifests import Manifests
from lakehouse.storage.metadata.paths import join
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.storage.metadata.snapshots import KEPT_S, Snapshots, Spawn
from lakehouse.storage.metadata.store_clock import StoreTime
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.rows.missing_columns import Missing
from lakehouse.storage.tables.moments import time_ms_of
from lakehouse.storage.tables.publishing import Publisher
from lakehouse.storage.tables.recheck import Recheck
from lakehouse.storage.tables.view import View
from lakehouse.storage.wal.appender import WalAppender, take_over
from lakehouse.storage.wal.log import Wal
from lakehouse.storage.wal.log_memory import LogMemory
from lakehouse.storage.wal.segment_runs import SegmentRuns
from lakehouse.storage.wal.tail import Tail

__all__ = ["CommitListener", "Environment", "OpenTable", "OpenedTables", "is_dropped", "shared_table"]

_STALENESS = "read.max_staleness_s"
_WRITTEN_MAX = 256
"""Written tables that wait for their last check until the close; with more, the oldest is checked."""


class OpenedTables(Protocol):
    """Tables that a process has open, by uuid; a table leaves when nobody holds it any more."""

    def get(self, table: uuid.UUID, /) -> OpenTable | None:
        """Returns the table of a uuid if it is open."""
        ...

    def __setitem__(self, table: uuid.UUID, opened: OpenTable, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Environment:
    """State that all tables of one connection share.

    Args:
        store: its root is the warehouse.
        settings: bounds and defaults.
        clock: the source of time.
        caches: metadata and blocks in memory.
        spawn: starts background work; None = there is none.
        publish: publishes tables for readers of other formats; None = nothing does.
        opened: tables in use.
    """

    store: ObjectStore
    settings: Settings
    clock: Clock
    caches: TableCaches
    spawn: Spawn | None = None
    publish: Publisher | None = None
    time: StoreTime = field(init=False)
    """Estimate of the store's clock."""
    opened: OpenedTables = field(default_factory=WeakValueDictionary[uuid.UUID, "OpenTable"])
    """Tables in use. A table opened again is the same object: it shares its state and commits in turn."""
    written: dict[uuid.UUID, OpenTable] = field(default_factory=dict)
    """Tables written to whose acknowledged commits are checked again, as the store is not proven."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", StoreTime(self.clock, self.store.url))

    def __reduce__(self) -> tuple[Any, ...]:
        # Estimates belong to the process that made them, and background work to the lake that runs it.
        return _arrived, (self.store, self.settings, self.clock, self.publish)

    def expect_commit(self) -> None:
        """Announces a commit: refuses a store that is not safe, or begins to find out whether it is."""
        self.store.expect_commit(self.spawn)

    async def recheck(self) -> None:
        """Checks again all that was acknowledged; raises the first loss found.

        All tables are checked within one grace period: a store that is away delays the close only once.
        """
        ends = self.clock.steady() + self.store.settings.recheck_grace_s
        lost: CorruptionError | None = None
        while self.written:
            _, table = self.written.popitem()
            try:
                await table.recheck.at_end(grace_s=max(ends - self.clock.steady(), 0))
            except CorruptionError as error:
                lost = lost or error
        if lost is not None:
            raise lost


def _arrived(store: ObjectStore, settings: Settings, clock: Clock, publish: Publisher | None) -> Environment:
    return Environment(
        store, settings, clock, TableCaches(CacheBudget.of(settings, clock=clock)), publish=publish
    )


class CommitListener(Protocol):
    """Listener that is called after each commit that this process makes to a table."""

    def on_commit(self, table: OpenTable, view: View, done: Committed) -> None:
        """Receives the new snapshot, made under the options of ``view``; must not wait or raise."""
        ...


class OpenTable:
    """One incarnation of a table, as this process knows it.

    Args:
        env: the state that its connection shares.
        name: the name it was opened by, for messages.
        pointer: its name pointer, which holds its directory.
    """

    def __init__(self, env: Environment, name: TableName, pointer: NamePointer) -> None:
        self.env, self.name, self.pointer = env, name, pointer
        self.root, self.uuid = pointer.path, pointer.table
        self._promised: Counter[int] = Counter()
        self.tags = identity_tags(self.uuid)
        """Tags of what is kept of the table in caches."""
        self._last_view: View | None = None
        """The state that was read last, as it often is read next."""
        self.listeners: list[CommitListener] = []
        """Listeners, called in this order after every commit that this process makes."""
        store, caches = env.store, env.caches
        self.snapshots = Snapshots(
            store,
            self.root,
            table=self.uuid,
            clock=env.clock,
            deadline_s=TableOptions().commit_deadline_s,
            cache=caches.snapshots,
            spawn=env.spawn,
            time=env.time,
        )
        self.manifests = Manifests(store, self.root, self.uuid, caches.manifests, env.settings.table)
        self.schemas = Schemas(store, self.root, self.uuid, caches.schemas, env.time)
        self.wal = Wal(store, self.root, self.uuid)
        self.runs = SegmentRuns(self.wal, self.root, caches.runs.blocks, env.settings.table)
        self.log_memory: LogMemory | None = None
        """Rows of the log in memory; None = this process is not its writer."""
        self._committer = Committer(
            store,
            self.root,
            snapshots=self.snapshots,
            manifests=self.manifests,
            schemas=self.schemas,
            wal=self.wal,
            runs=self.runs,
            clock=env.clock,
            guard=self.before_write,
        )
        self.recheck = Recheck(
            store,
            self.root,
            self.snapshots,
            self.wal,
            env.clock,
            env.spawn,
            concurrency=env.settings.table.read_concurrency,
        )

    def expect_commit(self) -> None:
        """Announces a commit; see :meth:`Environment.expect_commit`."""
        self.recheck.refuse()
        self.env.expect_commit()

    async def before_write(self) -> None:
        """Refuses to commit or to append when an acknowledged write is found lost."""
        await self.recheck.before_write()
        if not self.env.store.capabilities.commit_proven:
            written = self.env.written
            # Without the proof an acknowledged object may vanish, so the table is checked again later.
            written[self.uuid] = self
            if len(written) > _WRITTEN_MAX:
                await written.pop(next(iter(written))).recheck.at_end()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.env, self.name, self.pointer)

    async def known(self) -> View:
        """Returns the newest state this process knows: good enough to prepare a write."""
        self.expect_commit()
        return await self._remembered()

    async def _remembered(self) -> View:
        known = (await self.snapshots.known_head()).snapshot
        return await from_head(self.snapshots, known, self.view_of)

    async def newest(self) -> View:
        """Reads the newest state there is."""
        head = (await self.snapshots.head()).snapshot
        return await from_head(self.snapshots, head, self._live_view)

    async def view(
        self,
        *,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        fresh: bool = False,
    ) -> View:
        """Returns the state asked for: by id, as of a time, by tag, or the newest.

        Args:
            snapshot: id of the snapshot.
            timestamp: moment; the newest snapshot not after it.
            tag: name of a tag or pin.
            fresh: whether to read the newest snapshot and all that the write-ahead log holds above it.
        """
        _check_state(snapshot, timestamp, tag, fresh)
        if fresh:
            return await self.freshest()
        try:
            head = self.snapshots.check_live((await self.snapshots.head()).snapshot)
        except FormatError:
            if snapshot is None:
                raise
            # A damaged head takes no older snapshot with it.
            head = await self.snapshots.newest_sound()
            if snapshot > head.id:
                raise

        def of(head: Snapshot) -> Awaitable[View]:
            return self._view_under(self.snapshots.check_live(head), snapshot, timestamp, tag)

        return await from_head(self.snapshots, head, of)

    async def read_view(
        self,
        *,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        fresh: bool = False,
        within_s: float | None = None,
    ) -> View:
        """Returns the state that a read asks for, as :meth:`view` does, without a look where that is sound.

        A snapshot named by its id, or by a time before the newest one known, is the same for ever. All that
        has to be known is that it is kept, for which the last look is good for :data:`KEPT_S`. The newest
        snapshot, and those of tags, are known from a look no longer ago than ``within_s``.

        Args:
            snapshot: as for ``view``, like the next three.
            timestamp: moment.
            tag: name of a tag or pin.
            fresh: whether to read the log, too.
            within_s: seconds; None = the table's option, 0 = a look that begins after the call.
        """
        _check_state(snapshot, timestamp, tag, fresh)
        if snapshot is not None and self._promised[snapshot]:
            return await self._promised_view(snapshot)
        if fresh:
            return await self.freshest(within_s=within_s or 0.0)
        known = self._seen(snapshot, timestamp, within_s)
        if known is not None:
            # What is not there, or not any more, may be in a newer head.
            with contextlib.suppress(FormatError, NotFoundError):
                return await self._view_under(known, snapshot, timestamp, tag)
        return await self.view(snapshot=snapshot, timestamp=timestamp, tag=tag)

    def promise(self, snapshot: int) -> None:
        """Has reads of a snapshot that was seen go on after it has expired, while its objects are there.

        They stay for ``delete_grace_s``. :meth:`release` ends it, as often as it was called.
        """
        self._promised[snapshot] += 1

    def release(self, snapshot: int) -> None:
        """Ends a :meth:`promise`."""
        self._promised[snapshot] -= 1
        if self._promised[snapshot] <= 0:
            del self._promised[snapshot]

    async def _promised_view(self, snapshot: int) -> View:
        """Reads a snapshot without asking whether the newest one still keeps it."""
        found = await self.snapshots.find(snapshot)
        if found is None:
            raise NotFoundError(
                f"snapshot {snapshot} of {self.name} has expired, and its objects are deleted: "
                "a read of it takes less than half of the table's delete_grace_s, or holds it by a pin",
                snapshot=snapshot,
            )
        return await self.view_of(found)

    def _seen(
        self, snapshot: int | None, timestamp: dt.datetime | int | str | None, within_s: float | None
    ) -> Snapshot | None:
        """Returns the newest snapshot known where it is good enough for a read; None where it is not."""
        if snapshot is not None:
            known = self.snapshots.seen_within(KEPT_S)
            return known if known is not None and snapshot <= known.id else None
        if timestamp is not None:
            known = self.snapshots.seen_within(KEPT_S)
            # No later commit has a time at or before that of the newest.
            if known is not None and time_ms_of(timestamp) < known.time_ms:
                return known
        return self.snapshots.seen_within(self._option_s() if within_s is None else within_s)

    def _option_s(self) -> float:
        """Returns the option ``read.max_staleness_s``; 0 while nothing is known of the table."""
        known = self.snapshots.known
        kept = None if known is None else self.schemas.known(known.schema)
        if kept is None or _STALENESS not in kept.schema.options:
            return 0.0
        return TableOptions.parse({_STALENESS: kept.schema.options[_STALENESS]}).read_max_staleness_s

    async def _view_under(
        self, head: Snapshot, snapshot: int | None, timestamp: dt.datetime | int | str | None, tag: str | None
    ) -> View:
        """Returns the state asked for, looked up from a given head."""
        if tag is not None:
            ref = head.refs.get(tag)
            if ref is None:
                raise NotFoundError(
                    f"{self.name} has no tag {tag!r}; it has {sorted(head.refs) or 'none'}", tag=tag
                )
            snapshot = ref.snapshot
        if snapshot is not None:
            return await self.view_of(await self.snapshots.snapshot(snapshot, head))
        if timestamp is not None:
            return await self.view_of(await self.snapshots.at_time(time_ms_of(timestamp), head))
        return await self.view_of(head)

    def _live_view(self, head: Snapshot) -> Awaitable[View]:
        return self.view_of(self.snapshots.check_live(head))

    async def view_of(self, snapshot: Snapshot) -> View:
        """Returns a snapshot with its schema."""
        self.env.store.check_open()
        last = self._last_view
        if last is not None and last.snapshot is snapshot:
            return last
        schema_object = await self.schemas.read(snapshot.schema)
        self._last_view = view = View(
            snapshot=snapshot, schema_object=schema_object, manifests=self.manifests, runs=self.runs
        )
        return view

    @property
    def is_writer(self) -> bool:
        """Whether this process has the table's streaming writer, as far as it knows."""
        return self.log_memory is not None and self.log_memory.is_open

    async def freshest(self, *, within_s: float = 0.0) -> View:
        """Returns the newest state with every row that was acknowledged before the call.

        In the process of the log's writer commits of others may be missing that came in the last ``within_s``
        seconds; elsewhere that is the same as 0.

        The log is listed first and the head read after it: whatever was acknowledged before a row that is
        seen is seen too. The other way round, a commit between the two would be missing below rows that
        were put after it, and a sum would be one that never existed.
        """
        held = await self._held(within_s)
        if held is not None:
            return held
        view = await self._remembered()
        if view.snapshot.wal is None:
            view = await self.newest()
        if view.snapshot.wal is None:
            return view
        return await from_head(self.snapshots, view.snapshot, self._fresh_above)

    async def _held(self, within_s: float) -> View | None:
        """Returns the newest state with the rows that this process, as the log's writer, holds above it.

        None where that need not be all that is acknowledged. As with a listing, the rows are taken before the
        head is looked at.
        """
        if self.log_memory is None:
            return None
        # Whoever takes an older head may miss what others have seen, on its way or not.
        held = await self.log_memory.settled(waits=within_s <= 0)
        if held is None:
            return None
        known = self.snapshots.seen_within(within_s)
        view = await (from_head(self.snapshots, known, self.view_of) if known else self.newest())
        if not held.serves(view.snapshot):
            return None
        rows = held.above(view.snapshot, view.schema)
        return dataclasses.replace(
            view, fresh=None if rows is None else rows.range(view.snapshot.id + 1), held=rows
        )

    async def _fresh_above(self, known: Snapshot) -> View:
        """Returns the newest state and the log above it, listed from the end of a known snapshot's cover."""
        listed = await self.wal.log.listed(after=_covered(known))
        view = await self.newest()
        if view.snapshot.wal is None:
            return view
        upto = view.snapshot.wal.upto
        fresh = self.wal.tail_of(listed, after=upto).above(upto, view.snapshot.id + 1)
        return dataclasses.replace(view, fresh=fresh)

    async def tail(self, view: View) -> Tail | None:
        """Returns the part of the log that the view's snapshot does not cover; None in a table without a log.

        If some of that is deleted by now, because others have covered and flushed it, it begins where the
        newest snapshot's cover ends.
        """
        if view.snapshot.wal is None:
            return None
        return await from_head(self.snapshots, view.snapshot, self.wal.tail)

    async def take_log_over(self, head: Snapshot, *, deadline_s: float) -> WalAppender:
        """Fences off the log's current writer and returns the only appender; the head has a log."""
        over = partial(take_over, self.wal, clock=self.env.clock, deadline_s=deadline_s)
        return await from_head(self.snapshots, head, over)

    def hold_log(self, appender: WalAppender) -> LogMemory:
        """Begins to hold what is appended to the log, for fresh reads of this process."""
        self.log_memory = LogMemory(appender.fence, max_bytes=self.settings.fresh_memory_bytes)
        self.runs.held = self.log_memory.segments
        return self.log_memory

    @property
    def settings(self) -> TableSettings:
        """Bounds on work with tables."""
        return self.env.settings.table

    async def open(self, entry: FileEntry, schema: TableSchema) -> RunReader:
        """Opens a reader of one of the table's runs, for reads with a schema."""
        if entry.format is FileFormat.WAL:
            return await self.runs.open(entry, schema)
        try:
            return await open_run(self.env.store, self.root, entry, schema, self.env.caches.runs)
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            key = join(self.root, entry.path)
            raise CorruptionError(
                f"data file {key} is missing, and snapshots since {entry.at} refer to it",
                key=key,
                snapshot=entry.at,
            ) from missing

    async def ask_indexes(self, question: IndexQuestion, files: Sequence[FileEntry]) -> IndexAnswers:
        """Asks the indexes of some files, unless the setting ``table.scan_indexes`` is off."""
        if not self.settings.scan_indexes:
            return IndexAnswers()
        env = self.env
        return await search_indexes(
            env.store, self.root, question, files, caches=env.caches.runs, settings=env.settings.index
        )

    def write(
        self, view: View, data: object, *, deletes: bool = False, missing: Missing | None = "null"
    ) -> Awaitable[UploadedFiles]:
        """Uploads rows, or keys to be deleted, under the schema and the options that ``view`` shows.

        ``missing`` is as for :func:`lakehouse.storage.files.row_writer.write_rows`.
        """
        return write_rows(
            self.env.store,
            self.root,
            view.schema,
            view.options,
            data,
            deletes=deletes,
            missing=missing,
            settings=self.settings,
        )

    async def commit(
        self,
        change: Change,
        *,
        view: View,
        writer: tuple[str, int] | None = None,
        message: str | None = None,
        uploaded_ms: int | None = None,
        tail: Tail | None = None,
        undrops: bool = False,
    ) -> Committed:
        """Commits a change under the options that ``view`` shows.

        Args:
            change: the change to commit.
            view: a state of the table, whose options apply.
            writer: (id, sequence): committed at most once for a sequence of that id.
            message: the snapshot's message, for people.
            uploaded_ms: time at which the store answered the first upload of the change's files.
            tail: the uncovered end of the log, if it was read.
            undrops: whether the change may follow a drop.
        """
        self.expect_commit()
        options = view.options
        self.snapshots.adopt_deadline(options.commit_deadline_s, snapshot=view.snapshot.id)
        done = await self._committer.commit(
            change,
            writer=writer,
            message=message,
            uploaded_ms=uploaded_ms,
            max_retries=options.commit_max_retries,
            tail=tail,
            undrops=undrops,
        )
        self.recheck.beside_write()
        if done.changed:
            for listener in self.listeners:
                listener.on_commit(self, view, done)
        return done


def _check_state(snapshot: object, timestamp: object, tag: object, fresh: bool) -> None:
    """Refuses to name a state in two ways."""
    named = (snapshot is not None) + (timestamp is not None) + (tag is not None)
    if fresh and named:
        raise InvalidInputError(
            "freshness='wal' reads what is newest: it goes with no snapshot, timestamp or tag"
        )
    if named > 1:
        raise InvalidInputError("give one of snapshot, timestamp and tag, not several")


def _covered(snapshot: Snapshot) -> int:
    return snapshot.wal.upto if snapshot.wal is not None else 0


def shared_table(env: Environment, name: TableName, pointer: NamePointer) -> OpenTable:
    """Returns the one open table of a pointer, without any read.

    A table that is open under an older name goes on under this one: a second object of the same table
    would know another head, race the first in committing, and compact at the same time.
    """
    table = env.opened.get(pointer.table)
    if table is None:
        table = env.opened[pointer.table] = OpenTable(env, name, pointer)
    table.name, table.pointer = name, pointer
    return table


async def is_dropped(table: OpenTable) -> bool:
    """Returns whether a table's newest snapshot is a drop, or there is none."""
    try:
        return (await table.snapshots.head()).snapshot.kind is CommitKind.DROP
    except NotFoundError:
        return True
