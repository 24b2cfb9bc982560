"""Settings: every number that bounds the engine, with its meaning, in one place.

A setting is a field of one of the groups below; its public name is ``group.field``.
Values come from arguments, then the environment (``LAKEHOUSE_GROUP_FIELD``), then a
TOML file (a table per group), then the default. An unknown name is an error that
suggests the name that was probably meant, and a value is checked however it arrives, so
a bound declared in a group always holds. Settings are immutable and travel to Spark
workers by pickle. Credentials are not settings; they live in storage options, and
:class:`Secret` keeps them out of every message.

This module does no I/O: ``lakehouse.io.load_settings`` reads the file and the
environment and hands both in.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final, get_type_hints

from lakehouse.errors import InvalidInputError
from lakehouse.options import Option, declare, declared
from lakehouse.suggest import nearest

__all__ = [
    "ENV_PREFIX",
    "RESERVED_ENV",
    "CacheSettings",
    "IcebergSettings",
    "IndexSettings",
    "IoSettings",
    "Secret",
    "SettingInfo",
    "Settings",
    "TableSettings",
]

ENV_PREFIX = "LAKEHOUSE_"
"""Prefix of the environment variables that are settings."""
RESERVED_ENV = (
    "LAKEHOUSE_CONFIG",
    "LAKEHOUSE_CHAOS_",
    "LAKEHOUSE_STORE_",
    "LAKEHOUSE_TEST_",
    "LAKEHOUSE_PORT",
    "LAKEHOUSE_PORT_",
    "LAKEHOUSE_SERVICE_",
)
"""Variables with our prefix that are not settings; one that ends with ``_`` excludes all with that prefix.

The TOML file's path, the test kit's own, those of docker-compose.yml, and what Kubernetes puts into
every container that runs beside a Service called ``lakehouse``.
"""


@final
class Secret:
    """Text that never shows itself: it is printed as ``***``.

    It is no ``str`` on purpose: a ``str`` would slip out through ``+``, ``join`` and
    ``json``, and would sign requests with ``***`` wherever a library formats it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | Secret) -> None:
        self._text: str = text._text if isinstance(text, Secret) else text

    def reveal(self) -> str:
        """Returns the real text, for the one place that signs requests."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __bool__(self) -> bool:
        return bool(self._text)


class _Group:
    """A group of settings: refuses values out of bounds, also when it is constructed directly."""

    __slots__ = ()

    def __post_init__(self) -> None:
        group: Any = type(self)
        for info in _settings_of(group):
            info.check(getattr(self, info.field), f"the arguments of {group.__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IoSettings(_Group):
    """Bounds and timeouts of requests to the object store."""

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
class CacheSettings(_Group):
    """Bounds of the in-memory caches."""

    max_bytes: int = declare(
        256 * 1024 * 1024, "Bytes all caches of one process may hold together; 0 turns them off.", low=0
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
        5.0, "Seconds from a refresh that brought nothing new to the next of the same value.", low=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings(_Group):
    """Bounds of reading Puffin files and the indexes in them."""

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
class TableSettings(_Group):
    """Bounds of reading and writing tables."""

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
class IcebergSettings(_Group):
    """Bounds of planning scans of Iceberg tables."""

    manifest_concurrency: int = declare(32, "Manifests that one plan fetches at once.", low=1)
    runtime_filters: bool = declare(True, "Whether plans apply the runtime filters that they are given.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo(Option):
    """Description of one setting; its name is ``group.field``."""

    group: str
    """Name of the group, an attribute of :class:`Settings`."""

    @property
    def env(self) -> str:
        """Name of the environment variable that sets it."""
        return f"{ENV_PREFIX}{self.group}_{self.field}".upper()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, by group."""

    io: IoSettings = field(default_factory=IoSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    table: TableSettings = field(default_factory=TableSettings)
    iceberg: IcebergSettings = field(default_factory=IcebergSettings)

    @classmethod
    def resolve(
        cls,
        overrides: Mapping[str, object] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        file: Mapping[str, object] | None = None,
    ) -> Self:
        """Resolves settings from arguments (``{"io.max_concurrency": 16}``), environment and parsed TOML.

        Text is parsed wherever it comes from. An environment variable that is set to
        nothing counts as not set.
        """
        groups: dict[str, dict[str, object]] = {group: {} for group in _group_types()}
        layers = (_from_file(file or {}), _from_env(env or {}), _from_arguments(overrides or {}))
        # Later layers replace earlier ones.
        for info, value, origin in itertools.chain(*layers):
            groups[info.group][info.field] = info.check(_meant(info, value), origin)
        return cls(**{group: make(**groups[group]) for group, make in _group_types().items()})

    def replace(self, **overrides: object) -> Self:
        """Returns a copy with some settings changed: ``settings.replace(**{"io.fsync": False})``."""
        return type(self).resolve({**self.as_dict(), **overrides})

    def as_dict(self) -> dict[str, object]:
        """Returns every setting by its public name."""
        return {info.name: getattr(getattr(self, info.group), info.field) for info in self.describe()}

    @classmethod
    def describe(cls) -> Iterator[SettingInfo]:
        """Yields every setting there is, in order."""
        yield from _known().values()


def _meant(info: SettingInfo, value: object) -> object:
    """Returns the value that text says, digits in groups included (``16_777_216``); all else as it is."""
    if not isinstance(value, str):
        return value
    meant = info.read(value.replace("_", "") if info.type == "int" else value)
    return value if isinstance(meant, str) and info.type == "int" else meant


@functools.cache
def _group_types() -> dict[str, Any]:
    return get_type_hints(Settings)


@functools.cache
def _known() -> dict[str, SettingInfo]:
    """Returns every setting by its public name."""
    known: dict[str, SettingInfo] = {}
    for group, group_type in _group_types().items():
        for about in declared(group_type):
            info = SettingInfo(name=f"{group}.{about['field']}", group=group, **about)
            known[info.name] = info
    return known


@functools.cache
def _settings_of(group_type: Any) -> tuple[SettingInfo, ...]:
    return tuple(info for info in _known().values() if _group_types()[info.group] is group_type)


def _from_arguments(overrides: Mapping[str, object]) -> Iterator[tuple[SettingInfo, object, str]]:
    for name, value in overrides.items():
        yield _recognised(name, _known(), "the arguments"), value, "the arguments"


def _from_env(env: Mapping[str, str]) -> Iterator[tuple[SettingInfo, object, str]]:
    known = {info.env: info for info in _known().values()}
    for variable, text in env.items():
        if variable.startswith(ENV_PREFIX) and not _is_reserved(variable):
            info = _recognised(variable, known, "the environment")
            if text:
                yield info, text, f"the environment variable {variable}"


def _is_reserved(variable: str) -> bool:
    return any(variable == r or (r.endswith("_") and variable.startswith(r)) for r in RESERVED_ENV)


def _from_file(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[SettingInfo, object, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _from_file(value, f"{prefix}{name}.")
        else:
            info = _recognised(prefix + name, _known(), "the configuration file")
            yield info, value, "the configuration file"


def _recognised(name: str, known: Mapping[str, SettingInfo], origin: str) -> SettingInfo:
    if name in known:
        return known[name]
    near = nearest(name, known)
    hint = f"did you mean {near!r}?" if near else f"the groups are {', '.join(_group_types())}"
    raise InvalidInputError(
        f"there is no setting {name!r} (from {origin}); {hint}",
        kind="unknown-setting",
        setting=name,
        nearest=near,
    )
