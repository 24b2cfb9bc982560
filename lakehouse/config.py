"""Settings: every number that bounds the engine, with its meaning, in one place.

A setting is a field of one of the groups below; its public name is ``group.field``.
Values come from arguments, then the environment (``LAKEHOUSE_GROUP_FIELD``), then a
TOML file (a table per group), then the default. A name nobody knows is an error that
says which one was probably meant. Settings are immutable and travel to Spark workers
by pickle. Credentials are not settings; they live in storage options, and
:class:`Secret` keeps them out of every ``repr``.

This module does no I/O: ``lakehouse.io.load_settings`` reads the file and the
environment and hands both in.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, get_type_hints

from lakehouse.errors import InvalidInputError

__all__ = [
    "ENV_PREFIX",
    "RESERVED_ENV",
    "CacheSettings",
    "IoSettings",
    "Secret",
    "SettingInfo",
    "Settings",
]

ENV_PREFIX = "LAKEHOUSE_"
"""Environment variables that begin so are settings."""
RESERVED_ENV = ("LAKEHOUSE_CONFIG", "LAKEHOUSE_TEST_")
"""Variables with our prefix that are not settings: the TOML file's path, and the test kit's."""


class Secret(str):
    """A string that never shows itself: ``repr`` and formatting print ``***``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def reveal(self) -> str:
        """The real text, for the one place that signs requests."""
        return str.__str__(self)


def _setting(default: Any, doc: str, *, low: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"doc": doc, "low": low, "choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class IoSettings:
    """How the engine talks to the object store."""

    max_concurrency: int = _setting(64, "Requests one store has under way at once.", low=1)
    connect_timeout_s: float = _setting(5.0, "Seconds to wait for a connection.", low=0.001)
    read_timeout_s: float = _setting(30.0, "Seconds without a byte before a request is given up.", low=0.001)
    retry_attempts: int = _setting(6, "Attempts at one request, the first included.", low=1)
    retry_base_s: float = _setting(
        0.05, "Upper bound of the first wait between attempts; doubles each time.", low=0
    )
    retry_cap_s: float = _setting(5.0, "Upper bound of any wait between attempts.", low=0)
    retry_deadline_s: float = _setting(30.0, "No attempt starts later than this after the first.", low=0)
    coalesce_gap_bytes: int = _setting(
        64 * 1024, "Ranges of one object at most this far apart are read in one request.", low=0
    )
    coalesce_max_bytes: int = _setting(
        8 * 1024 * 1024, "A coalesced request grows no larger than this.", low=1
    )
    ranges_concurrency: int = _setting(
        16, "Ranged requests of one get_ranges call under way at once.", low=1
    )
    list_page_size: int = _setting(1_000, "Keys asked for in one list request (S3 allows 1,000).", low=1)
    single_put_max_bytes: int = _setting(
        64 * 1024 * 1024, "Writers send objects up to this size as one PUT, larger ones in parts.", low=0
    )
    part_bytes: int = _setting(
        16 * 1024 * 1024, "Size of one part of a multipart upload (S3 asks for at least 5 MiB).", low=1
    )
    part_concurrency: int = _setting(4, "Parts of one upload under way at once.", low=1)
    delete_batch: int = _setting(1_000, "Keys in one delete request (S3 allows 1,000).", low=1)
    delete_concurrency: int = _setting(8, "Delete requests of one delete_many call under way at once.", low=1)
    fsync: bool = _setting(True, "On file:// stores, sync file and directory before a put returns.")
    fast_reads: str = _setting(
        "auto",
        "Read through obstore: auto (when the [fast] extra is there), off, or require.",
        choices=("auto", "off", "require"),
    )
    threads: int = _setting(8, "Threads for blocking file systems and libraries.", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Bounds of the in-memory caches."""

    max_bytes: int = _setting(
        256 * 1024 * 1024, "Bytes all caches of one process may hold together; 0 turns them off.", low=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """What there is to know about one setting."""

    name: str
    """Public name, ``group.field``."""
    env: str
    """Environment variable."""
    type: str
    """``int``, ``float``, ``bool`` or ``str``."""
    default: object
    """Value when nothing sets it."""
    doc: str
    """One sentence: what it means and in which unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, by group."""

    io: IoSettings = field(default_factory=IoSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)

    @classmethod
    def resolve(
        cls,
        overrides: Mapping[str, object] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        file: Mapping[str, object] | None = None,
    ) -> Self:
        """Settings from arguments (``{"io.max_concurrency": 16}``), environment and parsed TOML."""
        values: dict[str, object] = {}
        for origin, layer in (
            ("the configuration file", _flatten(file or {})),
            ("the environment", _from_env(env or {})),
            ("the arguments", dict(overrides or {})),
        ):
            for name, value in layer.items():
                values[name] = _checked(name, value, origin)
        groups: dict[str, Any] = {}
        for f in dataclasses.fields(cls):
            prefix = f.name + "."
            own = {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}
            groups[f.name] = _group_types()[f.name](**own)
        return cls(**groups)

    def replace(self, **overrides: object) -> Self:
        """A copy with some settings changed: ``settings.replace(**{"io.fsync": False})``."""
        return type(self).resolve({**self.as_dict(), **overrides})

    def as_dict(self) -> dict[str, object]:
        """Every setting by its public name."""
        return {
            info.name: getattr(getattr(self, info.name.split(".")[0]), info.name.split(".")[1])
            for info in self.describe()
        }

    @classmethod
    def describe(cls) -> Iterator[SettingInfo]:
        """Every setting there is, in order."""
        for group, group_type in _group_types().items():
            hints = get_type_hints(group_type)
            for f in dataclasses.fields(group_type):
                yield SettingInfo(
                    name=f"{group}.{f.name}",
                    env=f"{ENV_PREFIX}{group}_{f.name}".upper(),
                    type=hints[f.name].__name__,
                    default=f.default,
                    doc=f.metadata["doc"],
                )


def _group_types() -> dict[str, Any]:
    return {"io": IoSettings, "cache": CacheSettings}


def _flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _from_env(env: Mapping[str, str]) -> dict[str, object]:
    known = {info.env: info.name for info in Settings.describe()}
    values: dict[str, object] = {}
    for variable, text in env.items():
        if not variable.startswith(ENV_PREFIX) or variable.startswith(RESERVED_ENV):
            continue
        if variable not in known:
            raise _unknown(variable, known, "the environment")
        values[known[variable]] = text
    return values


def _unknown(name: str, known: Mapping[str, object], origin: str) -> InvalidInputError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return InvalidInputError(
        f"there is no setting {name!r} (from {origin}); did you mean {near[0]!r}?",
        kind="unknown-setting",
        setting=name,
        nearest=near[0],
    )


def _checked(name: str, value: object, origin: str) -> object:
    known = {info.name: info for info in Settings.describe()}
    if name not in known:
        raise _unknown(name, known, origin)
    info = known[name]
    group, field_name = name.split(".")
    metadata = {f.name: f.metadata for f in dataclasses.fields(_group_types()[group])}[field_name]

    def refuse(wanted: str) -> InvalidInputError:
        return InvalidInputError(
            f"setting {name!r} (from {origin}) must be {wanted}, not {value!r}", setting=name, value=value
        )

    converted = _convert(info.type, value)
    if converted is None:
        raise refuse({"int": "a whole number", "float": "a number", "bool": "true or false"}.get(info.type, "text"))
    low, choices = metadata["low"], metadata["choices"]
    if low is not None and isinstance(converted, int | float) and not converted >= low:
        raise refuse(f"at least {low}")
    if choices and converted not in choices:
        raise refuse("one of " + ", ".join(choices))
    return converted


_BOOLS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def _convert(kind: str, value: object) -> object | None:
    """The value as that type, or None when it is not one. Text is parsed (environment)."""
    if kind == "bool":
        return value if isinstance(value, bool) else _BOOLS.get(str(value).lower())
    if isinstance(value, bool):
        return None
    if kind == "str":
        return value if isinstance(value, str) else None
    try:
        if kind == "int":
            return int(str(value).replace("_", "")) if isinstance(value, int | str) else None
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None
