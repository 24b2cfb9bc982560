"""One table as this process sees it: its snapshots, schemas, files and commits, wired together.

Invariant: everything a :class:`View` says is of one snapshot.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.errors import CorruptionError, FormatError, InvalidInputError, NotFoundError
from lakehouse.format.file_entry import FileEntry, FileFormat
from lakehouse.format.name_pointer import NamePointer, NameState
from lakehouse.format.schema_json import SchemaObject
from lakehouse.format.snapshot import CommitKind, SegmentRange, Snapshot, encode_snapshot
from lakehouse.format.table_options import TableOptions
from lakehouse.format.table_schema import TableSchema
from lakehouse.ids import new_token, new_uuid
from lakehouse.io.store import ObjectStore
from lakehouse.storage.commit import Change, Committed, Committer
from lakehouse.storage.cover import Tail
from lakehouse.storage.history import History, Spawn
from lakehouse.storage.layout import join, table_directory
from lakehouse.storage.names import Names, TableName, taken
from lakehouse.storage.open_run import open_run
from lakehouse.storage.record_ttl import Lifetime, lifetime
from lakehouse.storage.runs import RunReader
from lakehouse.storage.schemas import Schemas
from lakehouse.storage.segment_runs import SegmentRuns
from lakehouse.storage.state import Manifests
from lakehouse.storage.table_caches import TableCaches
from lakehouse.storage.wal import Wal
from lakehouse.storage.write import WrittenRows, write_rows

__all__ = ["Environment", "OpenTable", "View", "Watcher", "create_table", "open_table", "time_ms_of"]


@dataclass(frozen=True, slots=True)
class Environment:
    """What all tables of one connection share.

    Args:
        store: its root is the warehouse.
        settings: bounds.
        clock: time.
        caches: what is remembered.
        spawn: starts work that nobody waits for; None = there is none.
        opened: tables in use.
    """

    store: ObjectStore
    settings: Settings
    clock: Clock
    caches: TableCaches
    spawn: Spawn | None = None
    opened: WeakValueDictionary[uuid.UUID, OpenTable] = field(default_factory=WeakValueDictionary)
    """Tables in use. Whoever opens one again shares what is known of it, and takes turns in committing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A snapshot with its schema."""

    snapshot: Snapshot
    schema_object: SchemaObject
    manifests: Manifests
    runs: SegmentRuns
    fresh: SegmentRange | None = None
    """Acknowledged WAL segments that the snapshot does not cover, for reads that are to see them."""

    @property
    def schema(self) -> TableSchema:
        """The schema that the snapshot reads with."""
        return self.schema_object.schema

    @property
    def options(self) -> TableOptions:
        """The table's options as of the snapshot."""
        return TableOptions.parse(self.schema.options)

    async def files(self) -> tuple[FileEntry, ...]:
        """The live files."""
        return await self.manifests.entries(self.snapshot)

    @property
    def shows(self) -> Lifetime | None:
        """Which of its rows are not too old; None = all."""
        return lifetime(self.schema, self.snapshot.time_ms)

    async def entries(self) -> tuple[FileEntry, ...]:
        """All runs: live files, and WAL segments that are in no file yet."""
        files, ranges = await self.files(), self.snapshot.carried().segments
        if self.fresh is not None:
            ranges = (*ranges, self.fresh)
        return (*files, *await self.runs.entries(ranges, self.schema, together=True)) if ranges else files


class Watcher(Protocol):
    """Looks at the commits of this process."""

    def noticed(self, core: OpenTable, view: View, done: Committed) -> None:
        """A commit made a snapshot, under the options that ``view`` shows; must not wait."""
        ...


class OpenTable:
    """One incarnation of a table.

    Args:
        env: what its connection shares.
        name: what it was opened as; for messages.
        pointer: where it is.
    """

    def __init__(self, env: Environment, name: TableName, pointer: NamePointer) -> None:
        self.env, self.name, self.pointer = env, name, pointer
        self.root, self.uuid = pointer.path, pointer.table
        self.watcher: Watcher | None = None
        """Told of every commit that this process makes."""
        store, caches = env.store, env.caches
        self.history = History(
            store,
            self.root,
            table=self.uuid,
            clock=env.clock,
            deadline_s=TableOptions().commit_deadline_s,
            cache=caches.snapshots,
            spawn=env.spawn,
        )
        self.manifests = Manifests(store, self.root, self.uuid, caches.manifests)
        self.schemas = Schemas(store, self.root, self.uuid, caches.schemas)
        self.wal = Wal(store, self.root, self.uuid)
        self.runs = SegmentRuns(self.wal, self.root, caches.runs.blocks)
        self._committer = Committer(
            store,
            self.root,
            history=self.history,
            manifests=self.manifests,
            schemas=self.schemas,
            wal=self.wal,
            runs=self.runs,
            clock=env.clock,
        )

    async def known(self) -> View:
        """The newest state this process knows: good enough to prepare a write."""
        return await self.view_of((await self.history.known_head()).snapshot)

    async def newest(self) -> View:
        """The newest state there is."""
        head = (await self.history.head()).snapshot
        return await self.view_of(self.history.check_live(head))

    async def view(
        self,
        *,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        fresh: bool = False,
    ) -> View:
        """The state asked for: by id, as of a time, by tag, or the newest.

        Args:
            snapshot: its id.
            timestamp: the last one not after it.
            tag: a tag or pin.
            fresh: the newest with all that the write-ahead log holds above it.
        """
        if fresh:
            if (snapshot, timestamp, tag) != (None, None, None):
                raise InvalidInputError(
                    "freshness='wal' reads what is newest: it goes with no snapshot, timestamp or tag"
                )
            return await self.freshest()
        if sum(one is not None for one in (snapshot, timestamp, tag)) > 1:
            raise InvalidInputError("give one of snapshot, timestamp and tag, not several")
        try:
            head = self.history.check_live((await self.history.head()).snapshot)
        except FormatError:
            if snapshot is None:
                raise
            # A damaged head takes no older snapshot with it.
            head = await self.history.newest_sound()
            if snapshot > head.id:
                raise
        if tag is not None:
            ref = head.refs.get(tag)
            if ref is None:
                raise NotFoundError(
                    f"{self.name} has no tag {tag!r}; it has {sorted(head.refs) or 'none'}", tag=tag
                )
            snapshot = ref.snapshot
        if snapshot is not None:
            return await self.view_of(await self.history.snapshot(snapshot, head))
        if timestamp is not None:
            return await self.view_of(await self.history.at_time(time_ms_of(timestamp), head))
        return await self.view_of(head)

    async def view_of(self, snapshot: Snapshot) -> View:
        """A snapshot with its schema."""
        found = await self.schemas.read(snapshot.schema)
        return View(snapshot=snapshot, schema_object=found, manifests=self.manifests, runs=self.runs)

    async def freshest(self) -> View:
        """The newest state and every row that was acknowledged before the call.

        The log is listed first and the head read after it: what was acknowledged before one of the rows
        was put is there too. The other way round a commit between the two would be missing below rows
        that were put after it, and a sum would be one there never was.
        """
        view = await self.known()
        if view.snapshot.wal is None:
            view = await self.newest()
        if view.snapshot.wal is None:
            return view
        listed = await self.wal.listed(after=view.snapshot.wal.upto)
        view = await self.newest()
        if view.snapshot.wal is None:
            return view
        upto = view.snapshot.wal.upto
        fresh = self.wal.tail_of(listed, after=upto).above(upto, view.snapshot.id + 1)
        return dataclasses.replace(view, fresh=fresh)

    async def tail(self, view: View) -> Tail | None:
        """What the log holds that the view's snapshot does not cover; None in a table without one."""
        return None if view.snapshot.wal is None else await self.wal.tail(view.snapshot)

    async def open(self, entry: FileEntry, schema: TableSchema) -> RunReader:
        """A reader of one of the table's runs, for reads with a schema."""
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

    async def write(self, view: View, data: object, *, deletes: bool = False) -> WrittenRows:
        """Uploads rows, or keys to be deleted, under the schema and the options that ``view`` shows."""
        return await write_rows(
            self.env.store,
            self.root,
            view.schema,
            view.options,
            data,
            deletes=deletes,
            settings=self.env.settings.table,
        )

    async def commit(
        self,
        change: Change,
        *,
        view: View,
        writer: tuple[str, int] | None = None,
        uploaded_ms: int | None = None,
        tail: Tail | None = None,
    ) -> Committed:
        """Commits a change under the options that ``view`` shows; ``tail`` is of the log, if it was read."""
        options = view.options
        self.history.deadline_s = options.commit_deadline_s
        done = await self._committer.commit(
            change,
            writer=writer,
            uploaded_ms=uploaded_ms,
            max_retries=options.commit_max_retries,
            tail=tail,
        )
        if done.changed and self.watcher is not None:
            self.watcher.noticed(self, view, done)
        return done


def time_ms_of(when: dt.datetime | int | str) -> int:
    """Milliseconds since 1970 of a moment; text is ISO 8601, without a zone it is UTC."""
    if isinstance(when, bool) or not isinstance(when, dt.datetime | int | str):
        raise InvalidInputError(f"a timestamp is a datetime, ISO text or milliseconds, not {when!r}")
    if isinstance(when, int):
        return when
    if isinstance(when, str):
        try:
            when = dt.datetime.fromisoformat(when)
        except ValueError as error:
            raise InvalidInputError(
                f"{when!r} is not a timestamp: write it as '2026-01-31 12:00:00' or with a zone"
            ) from error
    moment = when if when.tzinfo is not None else when.replace(tzinfo=dt.UTC)
    return int(moment.timestamp() * 1000)


async def open_table(env: Environment, names: Names, name: TableName) -> OpenTable:
    """The table that a name stands for."""
    pointer = await names.resolve(name)
    found = env.opened.get(pointer.table)
    if found is None or found.name != name:
        found = env.opened[pointer.table] = OpenTable(env, name, pointer)
    return found


async def create_table(env: Environment, names: Names, name: TableName, schema: TableSchema) -> OpenTable:
    """A new table under a free name; AlreadyExistsError when the name is not free."""
    table, now_ms = new_uuid(), env.clock.now_ms()
    holder = await names.find(name)
    if holder is not None:
        if not await _is_dropped(OpenTable(env, name, holder)):
            raise taken(name)
        # A drop that ended before it gave the name back.
        await names.release(name, holder, state=NameState.DROPPED, time_ms=now_ms)
    pointer = NamePointer(
        name=str(name),
        table=table,
        path=table_directory(name.database, name.table, table.hex),
        token=new_token(),
        time_ms=now_ms,
    )
    core = OpenTable(env, name, pointer)
    first = Snapshot(
        id=1,
        token=new_token(),
        parent=None,
        kind=CommitKind.CREATE,
        time_ms=now_ms,
        table=table,
        schema=await core.schemas.write(schema, time_ms=now_ms),
    )
    began = env.clock.steady()
    stored = await core.history.log.append(1, encode_snapshot(first), token=first.token)
    core.history.time.learn(stored.store_time_ms)
    await names.claim(name, pointer, first=True)
    core.history.note(first, began)
    env.opened[table] = core
    return core


async def _is_dropped(core: OpenTable) -> bool:
    try:
        return (await core.history.head()).snapshot.kind is CommitKind.DROP
    except NotFoundError:
        return True
