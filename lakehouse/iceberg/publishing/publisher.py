"""Publication of a table: its newest snapshot becomes one of an Iceberg table over the same files.

The steps, each of which leaves the publication before readable: the newest metadata are found, our snapshot
is held by a tag, manifests and a manifest list are written, the next version of the metadata is created. Of
two publishers of one version the second finds its number taken: it deletes what it wrote, and begins again
from what the first published.

Invariant: a publication never follows that of a newer snapshot of ours, and ``commit.deadline_s`` lies at
most between a look for the newest version and the creation of the next. So no version is created that was
deleted meanwhile, and no snapshot is listed whose hold was dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakehouse.errors import ConflictError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.format.metadata import FileEntry
from lakehouse.iceberg.manifests.manifest_list import ManifestFile
from lakehouse.iceberg.publishing.assembly import (
    Assembly,
    KeptManifest,
    assemble,
    coverage_digest,
    summary_of,
    with_row_ids,
)
from lakehouse.iceberg.publishing.coverage import VECTORS_VERSION, Coverage
from lakehouse.iceberg.publishing.documents import COVERAGE, OURS, Published, next_document
from lakehouse.iceberg.publishing.holds import MoveHolds
from lakehouse.iceberg.publishing.lag import lag_of
from lakehouse.iceberg.publishing.manifests import (
    Content,
    PublishedFile,
    encode_list,
    encode_manifest,
    listed_of,
)
from lakehouse.iceberg.publishing.schemas import DEFAULTS_VERSION
from lakehouse.iceberg.publishing.statistics import statistics_of
from lakehouse.iceberg.publishing.store import PublishedStore
from lakehouse.iceberg.publishing.vectors import VectorWriter
from lakehouse.iceberg.publishing.view_coverage import coverage_of
from lakehouse.ids import new_token
from lakehouse.io import ObjectMeta, map_bounded
from lakehouse.io.work import in_thread, measured
from lakehouse.log import get_logger
from lakehouse.storage.metadata import DATA_PREFIX, join, new_published_path, published_version
from lakehouse.storage.tables import OpenTable, PublishReport, View

__all__ = ["publish_table"]

_log = get_logger(__name__)
_VERSIONS = (2, 3)
_ATTEMPTS_MAX = 10
"""Times that a publication begins again behind others."""


@measured
async def publish_table(
    table: OpenTable, *, format_version: int | None = None, dry_run: bool = False
) -> PublishReport:
    """Publishes the newest snapshot of a table; see ``Table.publish_iceberg``."""
    if format_version is not None and format_version not in _VERSIONS:
        raise InvalidInputError(
            f"tables are published in version 2 or 3 of Iceberg's format, not {format_version!r}",
            format_version=format_version,
        )
    lost: LakehouseError | None = None
    for _ in range(_ATTEMPTS_MAX):
        publication = await _begin(table, format_version)
        if dry_run:
            return dataclasses.replace(await publication.report(), dry_run=True)
        try:
            return await publication.run()
        except (ConflictError, NotFoundError) as error:
            if isinstance(error, NotFoundError) and error.kind == "missing-bucket":
                raise
            lost = error
    raise ConflictError(
        f"{_ATTEMPTS_MAX} attempts to publish {table.name} each came second, or found their snapshot "
        "expired: publish again",
    ) from lost


async def _begin(table: OpenTable, format_version: int | None) -> _Publication:
    """Finds what is published, and decides what of the newest snapshot is to be."""
    began = table.env.clock.steady()
    place = PublishedStore(store=table.env.store, root=table.root, table=str(table.uuid))
    listed = await place.listed()
    before = await place.newest(listed)
    view = await table.newest()
    version = format_version or max(view.options.iceberg_format_version, before.format_version)
    if version < before.format_version:
        raise InvalidInputError(
            f"{table.name} is published in version {before.format_version} of Iceberg's format, which has no "
            f"way back to {version}: leave format_version out, or delete what is in {place.location}",
            format_version=version,
        )
    coverage = await coverage_of(table, view, version)
    return _Publication(
        table=table,
        place=place,
        listed=listed,
        before=before,
        view=view,
        version=version,
        coverage=coverage,
        statistics=await statistics_of(table, place, view, coverage, before),
        began=began,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Publication:
    """One attempt to publish a snapshot behind what was published before."""

    table: OpenTable
    place: PublishedStore
    listed: Mapping[str, ObjectMeta]
    """Published objects when it began."""
    before: Published
    view: View
    version: int
    """Version of the format."""
    coverage: Coverage
    statistics: Mapping[str, Any] | None
    """Statistics file to tell readers of; None = there is nothing new."""
    began: float
    """Steady time of the look for the newest version."""

    async def run(self) -> PublishReport:
        """Publishes the snapshot, unless it or a newer one is published already.

        Raises:
            ConflictError: another publisher was first.
            NotFoundError: the snapshot has expired meanwhile.
        """
        digest = _digest(self.coverage, self.view, self.version)
        if self._is_published(digest):
            return await self._published_report()
        snapshots = {one["snapshot-id"] for one in self.before.snapshots}
        await self.table.commit(
            MoveHolds(snapshot=self._snapshot, listed=snapshots), view=await self.table.known()
        )
        held = await self._held()
        kept = await self._kept(held)
        files = {file.data_file: file for file in map(self._data_file, self.coverage.shown)}
        written: list[str] = []
        try:
            vectors = await self._vectors(held, kept, written)
            assembly = await in_thread(partial(assemble, files, vectors, kept, snapshot=self._snapshot))
            version = await self._publish(assembly, [*files.values(), *vectors.values()], digest, written)
        except ConflictError:
            # Nobody else knows these objects, and nobody will.
            await self.table.env.store.delete_many(
                [join(self.table.root, self.place.path(url)) for url in written]
            )
            raise
        return dataclasses.replace(
            await self.report(),
            changed=True,
            version=version,
            metadata=self.place.version_url(version),
            added=sum(file.vector is None for file in assembly.added),
            removed=sum(file.vector is None for file in assembly.removed),
            manifests=len(assembly.written),
            rows=sum(file.rows for file in files.values()) - sum(file.rows for file in vectors.values()),
            vectors=len(vectors),
        )

    async def _published_report(self) -> PublishReport:
        """Returns what readers see already."""
        current = self.before.current or {}
        told = {name: int(value) for name, value in current["summary"].items() if name.startswith("total-")}
        return dataclasses.replace(
            await self.report(),
            snapshot=self.before.current_id,
            files=told["total-data-files"],
            rows=told["total-records"] - told["total-position-deletes"],
            vectors=told["total-delete-files"],
        )

    @property
    def _snapshot(self) -> int:
        return self.view.snapshot.id

    @property
    def _sequence(self) -> int:
        return self.before.sequence + 1

    def _is_published(self, digest: str) -> bool:
        """Returns whether readers see the snapshot, or a newer one, or all that is new, already."""
        current = self.before.current
        if current is None:
            return False
        return self.before.current_id >= self._snapshot or (
            self.before.format_version == self.version
            and current["summary"].get(COVERAGE) == digest
            and self.statistics is None
        )

    def _data_file(self, entry: FileEntry) -> PublishedFile:
        return PublishedFile(data_file=self.place.url(entry.path), entry=entry, rows=entry.rows)

    async def _kept(self, held: View | None) -> list[KeptManifest]:
        """Reads the manifests of the publication before, with our entries of their files as far as known."""
        current = self.before.current
        if current is None:
            return []
        manifests = await self.place.manifests(current["manifest-list"])
        known = {file.path: file for file in (await held.files() if held is not None else ())}
        known |= {file.path: file for file in self.coverage.files}
        at_once = self.table.settings.read_concurrency
        read = map_bounded(self.place.entries, manifests, at_once)
        return [
            KeptManifest(listed=listed, files=[self._with_entry(file, known) for file in files])
            for listed, files in zip(manifests, [files async for files in read], strict=True)
        ]

    def _with_entry(self, file: PublishedFile, known: Mapping[str, FileEntry]) -> PublishedFile:
        return dataclasses.replace(file, entry=known.get(self.place.path(file.data_file)))

    async def _held(self) -> View | None:
        """Returns our snapshot that was published before; None = there is none, or its hold was deleted."""
        if self.before.current is None:
            return None
        try:
            return await self.table.view(snapshot=self.before.current_id)
        except NotFoundError:
            return None

    async def _covered_before(self, held: View | None) -> Coverage | None:
        """Returns the files that were published before; None = it is not known."""
        if held is None or self.before.current is None:
            return None
        version = self.before.format_version
        coverage = await coverage_of(self.table, held, version)
        # Another release may have published other files.
        is_that = self.before.current["summary"].get(COVERAGE) == _digest(coverage, held, version)
        return coverage if is_that else None

    async def _vectors(
        self, held: View | None, manifests: Sequence[KeptManifest], written: list[str]
    ) -> dict[str, PublishedFile]:
        if self.version < VECTORS_VERSION:
            return {}
        writer = VectorWriter(
            table=self.table,
            place=self.place,
            schema=self.view.schema,
            snapshot=self._snapshot,
            written=written,
        )
        return await writer.vectors(self.coverage, await self._covered_before(held), manifests)

    async def _publish(
        self, assembly: Assembly, shown: Sequence[PublishedFile], digest: str, written: list[str]
    ) -> int:
        """Writes the manifests and creates the next version; returns its number."""
        manifests = [*assembly.kept, *await self._write_manifests(assembly, written)]
        next_row_id = self.before.next_row_id
        if self.version >= DEFAULTS_VERSION:
            manifests, next_row_id = with_row_ids(manifests, next_row_id)
        parent = self.before.current_id or None
        data = encode_list(
            manifests,
            version=self.version,
            snapshot=self._snapshot,
            parent=parent,
            sequence=self._sequence,
        )
        path = new_published_path("snap", self._snapshot, "avro")
        url = await self.place.put(path, data)
        written.append(url)
        made: dict[str, Any] = {
            "snapshot-id": self._snapshot,
            "sequence-number": self._sequence,
            "timestamp-ms": self.view.snapshot.time_ms,
            "manifest-list": url,
            "summary": summary_of(assembly, shown, {OURS: str(self._snapshot), COVERAGE: digest}),
            "schema-id": self.view.schema.id,
        }
        if parent is not None:
            made["parent-snapshot-id"] = parent
        if self.version >= DEFAULTS_VERSION:
            made |= {
                "first-row-id": self.before.next_row_id,
                "added-rows": next_row_id - self.before.next_row_id,
            }
        return await self._create(made)

    async def _write_manifests(self, assembly: Assembly, written: list[str]) -> list[ManifestFile]:
        async def write(part: tuple[Content, Sequence[PublishedFile]]) -> ManifestFile:
            content, files = part
            encode = partial(encode_manifest, files, self.view.schema, version=self.version, content=content)
            data = await in_thread(encode)
            url = await self.place.put(new_published_path("manifest", self._snapshot, "avro"), data)
            written.append(url)
            return listed_of(
                url,
                len(data),
                files,
                self.view.schema,
                snapshot=self._snapshot,
                sequence=self._sequence,
                content=content,
            )

        at_once = self.table.settings.read_concurrency
        return [listed async for listed in map_bounded(write, assembly.written, at_once)]

    async def _create(self, made: Mapping[str, Any]) -> int:
        """Creates the next version, tells readers of it, and deletes what nobody reads any more."""
        options, head = self.view.options, self.view.snapshot
        now_ms = await self.table.snapshots.store_now_ms(head)
        grace_ms = int((options.delete_grace_s + options.commit_deadline_s) * 1000)
        token = new_token()
        document = next_document(
            self.before,
            self.view.schema,
            table=str(self.table.uuid),
            location=self.place.location,
            data=self.place.url(DATA_PREFIX.rstrip("/")),
            version=self.version,
            now_ms=now_ms,
            made=made,
            statistics=self.statistics,
            head=head,
            retain=options.iceberg_retain,
            log_from_ms=now_ms - grace_ms,
            token=token,
        )
        await self._look_again(options.commit_deadline_s)
        number = self.before.version + 1
        await self.place.create(number, document, token=token)
        try:
            await self.place.hint(number)
            await self._clean(document, before_ms=now_ms - grace_ms)
        except LakehouseError as error:
            _log.warning("published, and what it replaced was not cleaned up", error=error)
        return number

    async def _look_again(self, deadline_s: float) -> None:
        """Makes sure, after work that took long, that the newest version still is the one that it began from.

        Raises:
            ConflictError: it is not.
        """
        clock = self.table.env.clock
        if clock.steady() - self.began <= deadline_s:
            return
        looked = clock.steady()
        newest = self.place.newest_version(await self.place.listed())
        if newest != self.before.version or clock.steady() - looked > deadline_s:
            raise ConflictError(
                f"version {newest} of what is published came first: snapshot {self._snapshot} begins anew"
            )

    async def _clean(self, document: Mapping[str, Any], *, before_ms: int) -> None:
        """Deletes what was written for metadata that nobody reads any more, if there are such."""
        log = document["metadata-log"]
        if not log or len(log) > len(self.before.document.get("metadata-log", ())):
            return
        path = self.place.path(log[0]["metadata-file"])
        oldest = await self.place.version(published_version(path) or 0)
        await self.place.clean(self.listed, oldest, before_ms=before_ms)

    async def report(self) -> PublishReport:
        """Returns what readers see, and what they do not see yet."""
        files = self.coverage.shown
        return PublishReport(
            snapshot=self._snapshot,
            version=self.before.version,
            metadata=self.before.url,
            format_version=self.version,
            files=len(files),
            rows=sum(entry.rows - entry.deletes for entry in files),
            bytes=sum(entry.size for entry in files),
            lag=await lag_of(self.table, self.view, self.coverage),
        )


def _digest(coverage: Coverage, view: View, version: int) -> str:
    files = [entry.path for entry in coverage.files]
    return coverage_digest(files, schema=view.schema.id, version=version)
