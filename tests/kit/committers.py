"""Committers for tests: tables without rows, on stores that fail."""

from __future__ import annotations

from lakehouse.cache import CacheBudget
from lakehouse.clock import Clock, SystemClock
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.metadata.snapshot import CommitKind, SchemaRef, Snapshot
from lakehouse.ids import new_token, new_uuid
from lakehouse.io import ObjectStore, RetryPolicy
from lakehouse.io.retrying import RetryingStore
from lakehouse.storage.commit.changes import AddFiles
from lakehouse.storage.commit.committer import Committer
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.manifests import Manifests
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.storage.metadata.snapshots import Snapshots
from lakehouse.storage.tables.recheck import Recheck
from lakehouse.storage.wal.log import Wal
from lakehouse.storage.wal.segment_runs import SegmentRuns
from tests.kit.table_samples import TABLE

ROOT = "db/t-01020304"


async def create_table(store: ObjectStore) -> None:
    """Snapshot 1 of an empty table."""
    first = Snapshot(
        id=1,
        token=new_token(),
        parent=None,
        kind=CommitKind.CREATE,
        time_ms=1_000,
        table=TABLE,
        schema=SchemaRef(id=0, path="schema/schema-none"),
    )
    await committer(store).snapshots.append(first)


class TestTable:
    """One process's view of the table."""

    __test__ = False

    def __init__(
        self,
        store: ObjectStore,
        *,
        clock: Clock | None = None,
        deadline_s: float = 300,
        max_retries: int = 200,
    ) -> None:
        clock = clock or SystemClock()
        policy = RetryPolicy(attempts=4, base_s=0, cap_s=0, deadline_s=60, clock=clock)
        self.store = RetryingStore(store, policy)
        caches = TableCaches(CacheBudget())
        self.snapshots = Snapshots(
            self.store, ROOT, table=TABLE, clock=clock, deadline_s=deadline_s, cache=caches.snapshots
        )
        self.manifests = Manifests(self.store, ROOT, TABLE, caches.manifests)
        wal = Wal(self.store, ROOT, TABLE)
        self.committer = Committer(
            self.store,
            ROOT,
            snapshots=self.snapshots,
            manifests=self.manifests,
            schemas=Schemas(self.store, ROOT, TABLE, caches.schemas),
            wal=wal,
            runs=SegmentRuns(wal, ROOT, caches.runs.blocks),
            clock=clock,
            guard=Recheck(self.store, ROOT, self.snapshots, wal, clock, None, concurrency=4).before_write,
        )
        self.max_retries = max_retries

    async def add(
        self, *paths: str, writer: tuple[str, int] | None = None, uploaded_ms: int | None = None
    ) -> Snapshot:
        """Commits files of these names."""
        change = AddFiles(kind=CommitKind.APPEND, written=UploadedFiles(entries=tuple(map(entry, paths))))
        done = await self.committer.commit(
            change, writer=writer, uploaded_ms=uploaded_ms, max_retries=self.max_retries
        )
        return done.snapshot

    async def paths(self) -> list[str]:
        """Names of the live files."""
        head = await self.snapshots.head()
        return [one.path for one in await self.manifests.entries(head.snapshot)]


def committer(store: ObjectStore) -> TestTable:
    """A process that has the table open."""
    return TestTable(store)


def entry(path: str) -> FileEntry:
    """A file that is nowhere."""
    return FileEntry(path=path, size=10, rows=1)


def unique() -> str:
    """A path nobody else uses."""
    return f"data/{new_uuid()}"
