"""Groups of settings, and what one setting says of itself.

Invariant: a group's values are within the bounds that it declares, however it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from lakehouse.errors import InvalidInputError
from lakehouse.options import Option, declare, declared

__all__ = [
    "ENV_PREFIX",
    "CacheSettings",
    "CatalogSettings",
    "IcebergSettings",
    "IndexSettings",
    "IoSettings",
    "SettingInfo",
    "SettingsGroup",
    "SqlSettings",
    "TableSettings",
    "settings_of",
]

ENV_PREFIX = "LAKEHOUSE_"
"""Prefix of the environment variables that are settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo(Option):
    """Description of one setting; its name is ``group.field``."""

    group: str
    """Name of the group: attributes from :class:`Settings` on, such as ``io`` or ``meta.cache.pointer``."""

    @property
    def env(self) -> str:
        """Name of the environment variable that sets it."""
        return f"{ENV_PREFIX}{self.group}_{self.field}".replace(".", "_").upper()

    def check(self, value: Any, origin: str) -> Any:
        """Returns an acceptable value as it is; else raises InvalidInputError with setting and origin."""
        wanted = self.wanted(value)
        if wanted:
            raise InvalidInputError(
                f"setting {self.name!r} (from {origin}) must be {wanted}, not {value!r}",
                setting=self.name,
                value=value,
            )
        return value


class SettingsGroup:
    """A group of settings: refuses values out of bounds, also when it is constructed directly."""

    __slots__ = ()
    group: ClassVar[str]
    """Name of the group, for messages."""

    def __post_init__(self) -> None:
        for info in settings_of(self.group, self):
            info.check(getattr(self, info.field), f"the arguments of {type(self).__name__}")


def settings_of(name: str, group: SettingsGroup) -> Iterator[SettingInfo]:
    """Yields the settings of a group that goes by a name; its values are their defaults."""
    for about in declared(type(group)):
        about["default"] = getattr(group, about["field"])
        yield SettingInfo(name=f"{name}.{about['field']}", group=name, **about)


@dataclass(frozen=True, slots=True, kw_only=True)
class IoSettings(SettingsGroup):
    """Bounds and timeouts of requests to the object store."""

    group = "io"

    max_concurrency: int = declare(64, "Requests one store has under way at once.", low=1)
    connect_timeout_s: float = declare(5.0, "Seconds to wait for a connection.", low=0.001)
    read_timeout_s: float = declare(30.0, "Seconds without a byte before a request is given up.", low=0.001)
    request_timeout_s: float = declare(120.0, "Seconds one attempt at a request may take in all.", low=0.001)
    retry_attempts: int = declare(
        6,
        "Attempts at one request, the first included. A store that is away or asks for fewer requests is "
        "waited for until retry_deadline_s instead, unless it never answered or there are no waits.",
        low=1,
    )
    retry_base_s: float = declare(
        0.05, "Upper bound of the first wait between attempts; doubles each time.", low=0
    )
    retry_cap_s: float = declare(5.0, "Upper bound of any wait between attempts.", low=0)
    retry_deadline_s: float = declare(30.0, "No attempt starts later than this after the first.", low=0)
    coalesce_gap_bytes: int = declare(
        64 * 1024, "Ranges of one object at most this far apart are read in one request.", low=0
    )
    coalesce_max_bytes: int = declare(
        8 * 1024 * 1024, "A coalesced request grows no larger than this.", low=1
    )
    ranges_concurrency: int = declare(16, "Ranged requests of one get_ranges call under way at once.", low=1)
    list_page_size: int = declare(
        1_000, "Keys asked for in one list request (S3 sends no more than 1,000).", low=1
    )
    single_put_max_bytes: int = declare(
        64 * 1024 * 1024, "Writers send objects up to this size as one PUT, larger ones in parts.", low=0
    )
    part_bytes: int = declare(
        16 * 1024 * 1024, "Size of one part of a multipart upload (S3 asks for at least 5 MiB).", low=1
    )
    part_concurrency: int = declare(4, "Parts of one upload under way at once.", low=1)
    delete_batch: int = declare(1_000, "Keys in one delete request (S3 allows 1,000).", low=1, high=1_000)
    delete_concurrency: int = declare(8, "Delete requests of one delete_many call under way at once.", low=1)
    fsync: bool = declare(True, "On file:// stores, sync file and directory before a put returns.")
    fast_reads: str = declare(
        "auto",
        "Gets and log segments through obstore: auto (with the [fast] extra), off, or require.",
        choices=("auto", "off", "require"),
    )
    threads: int = declare(8, "Threads for blocking file systems and libraries.", low=1)
    scratch_max_bytes: int = declare(
        2 * 1024 * 1024 * 1024, "Bytes of local files that scratch space holds for libraries.", low=1
    )
    check_rounds: int = declare(100, "Rounds of each race of check_store.", low=1)
    recheck_interval_s: float = declare(
        10.0,
        "Seconds between two looks at whether what was acknowledged is still there, beside commits to stores "
        "that may ignore conditions; 0 looks beside every one.",
        low=0,
    )
    recheck_grace_s: float = declare(
        10.0,
        "Seconds that the last such look may take when a writer or a connection is closed, for all tables "
        "together: a store that is away keeps no program from ending.",
        low=0,
    )
    check_short_rounds: int = declare(
        20, "Rounds of each race of check_store's short form, which connect(check=True) runs.", low=1
    )
    check_writers: int = declare(8, "Writers in each round of check_store.", low=2)
    check_large_bytes: int = declare(
        1024 * 1024, "Bytes of the large bodies that check_store races; 0 races small ones alone.", low=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings(SettingsGroup):
    """Bounds of the in-memory caches."""

    group = "cache"

    max_bytes: int = declare(
        256 * 1024 * 1024,
        "Bytes all caches of one process may hold together; 0 turns them off. In a container with a memory "
        "limit the default is an eighth of that, at least this and at most a quarter of the limit or 4 GiB.",
        low=0,
    )
    max_entry_share: float = declare(
        0.25,
        "Values heavier than this share of max_bytes are handed out and not kept.",
        low=0.001,
        high=1,
    )
    refresh_concurrency: int = declare(
        8, "Values refreshed behind the scenes at once; 0 leaves them until they expire.", low=0
    )
    refresh_retry_s: float = declare(
        5.0,
        "Seconds from a refresh that failed to the next of the same value; doubles with each that fails.",
        low=0,
    )
    account_floor_bytes: int = declare(
        256 * 1024,
        "Bytes of each account's pointers and listings that others cannot push out; all floors together "
        "take no more than half of max_bytes, and accounts beyond that have none.",
        low=0,
    )
    slow_load_s: float = declare(1.0, "Loads that take longer are logged; 0 logs all.", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings(SettingsGroup):
    """Bounds of loads of the catalog: each sort has its own, so that no sort starves another."""

    group = "catalog"

    load_concurrency: int = declare(64, "Loads that somebody waits for, under way at once.", low=1)
    refresh_concurrency: int = declare(
        8, "Loads ahead of time under way at once; cache.refresh_concurrency bounds them too.", low=1
    )
    statistics_concurrency: int = declare(8, "Loads of statistics under way at once.", low=1)
    listing_concurrency: int = declare(8, "Loads of listings under way at once.", low=1)
    queue_max: int = declare(
        10_000, "Loads of one sort that may wait for their turn; more are refused at once.", low=0
    )
    load_deadline_s: float = declare(
        60.0, "Seconds that one load may take, its wait included, before it is given up.", low=0.001
    )
    hint_max_bytes: int = declare(
        1024 * 1024, "Bytes of an engine's hint at most; larger ones are refused.", low=1
    )
    accounts_max: int = declare(
        1_000, "Accounts that the process keeps pointers, counters and connections for at once.", low=1
    )
    account_idle_s: float = declare(
        600.0, "Seconds without a use after which an account gives back what is kept for it.", low=0
    )
    queries_max: int = declare(10_000, "Queries of a lake that are open at once; more are refused.", low=1)
    query_lifetime_s: float = declare(
        60.0, "Seconds that a query lives unless it is asked to, or renewed.", low=0.001
    )
    query_age_max_s: float = declare(
        86_400.0,
        "Seconds from its beginning up to which a query may be renewed; its commits hold no longer.",
        low=1,
        high=86_400,
    )
    bundle_items_max: int = declare(25, "Relations in one chunk of a bundle.", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings(SettingsGroup):
    """Bounds of reading Puffin files and the indexes in them."""

    group = "index"

    concurrency: int = declare(16, "Files read at once when indexes are enumerated.", low=1)
    prefetch_bytes: int = declare(16 * 1024, "Bytes of a file's tail that the first request fetches.", low=64)
    prefetch_max_bytes: int = declare(
        128 * 1024, "The prefetch of an enumeration grows up to this when footers do not fit.", low=64
    )
    metadata_gap_bytes: int = declare(
        1024 * 1024, "Metadata of one file at most this far apart is read in one request.", low=0
    )
    footer_max_bytes: int = declare(
        64 * 1024 * 1024,
        "Longest footer, stored or decompressed, and longest metadata of a blob that is read.",
        low=1,
    )
    blob_max_bytes: int = declare(
        1024 * 1024 * 1024, "Largest blob, decompressed, that is read: a bound for bombs.", low=1
    )
    search_whole_bytes: int = declare(
        256 * 1024, "A search reads indexes up to this size whole, larger ones in steps.", low=0
    )
    search_max_bytes: int = declare(
        64 * 1024 * 1024,
        "Bytes a search reads of one index; where it would take more, it does without that index.",
        low=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSettings(SettingsGroup):
    """Bounds of statements of SQL; a lake has one DuckDB for each account that uses SQL."""

    group = "sql"

    memory_bytes: int = declare(
        1024 * 1024 * 1024,
        "Memory of DuckDB, for all statements of an account together; beyond it they spill to the disk.",
        low=64 * 1024 * 1024,
    )
    spill_bytes: int = declare(
        16 * 1024 * 1024 * 1024, "Bytes that statements may spill to the disk; 0 = none, they fail.", low=0
    )
    spill_directory: str = declare(
        "", "Directory that a private one for spilled bytes is made in; empty = the system's for such files."
    )
    threads: int = declare(0, "Threads of DuckDB; 0 = one for each core.", low=0, high=1024)
    concurrency: int = declare(4, "Statements of an account under way at once; others wait.", low=1)
    text_max_bytes: int = declare(1024 * 1024, "Bytes of a text of SQL at most.", low=1)
    result_buffer_bytes: int = declare(
        8 * 1024 * 1024,
        "Bytes of a result that are fetched before the call returns; a larger one streams from there.",
        low=0,
    )
    plan_files: int = declare(
        64,
        "Files up to which a table is handed to DuckDB whole; of a larger one, metadata first say which "
        "files a statement needs.",
        low=0,
    )
    source_bytes: int = declare(
        64 * 1024 * 1024, "Bytes of rows that are read ahead of DuckDB, for each table that is merged.", low=1
    )
    mask_locations: bool = declare(
        False, "Whether system tables show pseudonyms in place of directories and paths."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings(SettingsGroup):
    """Bounds of reading and writing tables."""

    group = "table"

    scan_concurrency: int = declare(16, "Sections of a table that one scan has under way at once.", low=1)
    scan_memory_bytes: int = declare(
        256 * 1024 * 1024,
        "Bytes of rows that one scan holds for its sections under way; a single section may need more.",
        low=1,
    )
    scan_indexes: bool = declare(
        True, "Whether scans ask the indexes of data files which rows they need not read."
    )
    read_concurrency: int = declare(
        16,
        "Objects that one step of a call opens or reads at once: data files, snapshots, manifests, schemas, "
        "segments, name pointers.",
        low=1,
    )
    fresh_memory_bytes: int = declare(
        512 * 1024 * 1024,
        "Bytes of unflushed rows and their keys that the process of a streaming writer holds for reads with "
        "freshness='wal'; with more, these read the log on the bucket until the rows are flushed.",
        low=0,
    )
    lookup_concurrency: int = declare(32, "Reads that one get_many has under way at once.", low=1)
    write_concurrency: int = declare(4, "Files that one write encodes and uploads at once.", low=1)
    compaction_concurrency: int = declare(2, "Merge units that one compaction merges at once.", low=1)
    compaction_memory_bytes: int = declare(
        1024 * 1024 * 1024,
        "Bytes of rows and files that one compaction holds, all its merge units together; where a file of "
        "the target size does not fit, files are smaller.",
        low=1024 * 1024,
    )
    keep_memory_bytes: int = declare(
        512 * 1024 * 1024,
        "Bytes of rows that one call with missing='keep' holds until it has committed.",
        low=1,
        high=1 << 30,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSettings(SettingsGroup):
    """Bounds of planning scans of Iceberg tables."""

    group = "iceberg"

    manifest_concurrency: int = declare(32, "Manifests that one plan fetches at once.", low=1)
    runtime_filters: bool = declare(True, "Whether plans apply the runtime filters that they are given.")
