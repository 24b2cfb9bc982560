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
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Self, get_type_hints

from lakehouse.config.catalogs import ACCOUNTS, CATALOGS
from lakehouse.config.groups import (
    ENV_PREFIX,
    CacheSettings,
    CatalogSettings,
    IcebergSettings,
    IndexSettings,
    IoSettings,
    SettingInfo,
    SettingsGroup,
    SqlSettings,
    TableSettings,
    settings_of,
)
from lakehouse.config.layers import MetaSettings
from lakehouse.errors import InvalidInputError
from lakehouse.suggest import nearest

__all__ = ["RESERVED_ENV", "Settings"]

RESERVED_ENV = (
    "LAKEHOUSE_CONFIG",
    "LAKEHOUSE_CHAOS_",
    "LAKEHOUSE_STORE_",
    "LAKEHOUSE_TEST_",
    "LAKEHOUSE_PORT",
    "LAKEHOUSE_PORT_",
    "LAKEHOUSE_SERVICE_",
    "LAKEHOUSE_WAREHOUSE",
)
"""Variables with our prefix that are not settings; one that ends with ``_`` excludes all with that prefix.

The TOML file's path, the warehouse of commands, the test kit's own, those of docker-compose.yml, and what
Kubernetes puts into every container that runs beside a Service called ``lakehouse``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, by group."""

    io: IoSettings = field(default_factory=IoSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    table: TableSettings = field(default_factory=TableSettings)
    iceberg: IcebergSettings = field(default_factory=IcebergSettings)
    catalog: CatalogSettings = field(default_factory=CatalogSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)
    meta: MetaSettings = field(default_factory=MetaSettings)

    @classmethod
    def resolve(
        cls,
        overrides: Mapping[str, object] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        file: Mapping[str, object] | None = None,
        derived: Mapping[str, object] | None = None,
    ) -> Self:
        """Resolves settings from arguments (``{"io.max_concurrency": 16}``), environment and parsed TOML.

        Text is parsed wherever it comes from. An environment variable that is set to
        nothing counts as not set. What is ``derived`` from the machine takes the place of defaults.
        """
        groups: dict[str, dict[str, object]] = {group: {} for group in _groups()}
        layers = (
            _from_arguments(derived or {}, "the machine"),
            _from_file(file or {}),
            _from_env(env or {}),
            _from_arguments(overrides or {}),
        )
        # Later layers replace earlier ones.
        for info, value, origin in itertools.chain(*layers):
            groups[info.group][info.field] = info.check(_meant(info, value), origin)
        made: Self = _assembled(cls, "", groups)
        return made

    def replace(self, **overrides: object) -> Self:
        """Returns a copy with some settings changed: ``settings.replace(**{"io.fsync": False})``."""
        return type(self).resolve({**self.as_dict(), **overrides})

    def as_dict(self) -> dict[str, object]:
        """Returns every setting by its public name."""
        return {info.name: attrgetter(info.name)(self) for info in self.describe()}

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
def _groups() -> dict[str, Any]:
    """Returns the default of every group by its name; groups of groups are gone through."""
    return dict(_groups_of(Settings(), ""))


def _groups_of(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for about in fields(group):
        inner = getattr(group, about.name)
        if isinstance(inner, SettingsGroup):
            yield prefix + about.name, inner
        else:
            yield from _groups_of(inner, f"{prefix}{about.name}.")


def _assembled(kind: Any, prefix: str, given: Mapping[str, Mapping[str, object]]) -> Any:
    """Returns an object of groups, each with the values that are given and its own defaults."""
    parts: dict[str, object] = {}
    for name, inner in get_type_hints(kind).items():
        group = prefix + name
        default = _groups().get(group)
        parts[name] = (
            _assembled(inner, f"{group}.", given) if default is None else replace(default, **given[group])
        )
    return kind(**parts)


@functools.cache
def _known() -> dict[str, SettingInfo]:
    """Returns every setting by its public name."""
    return {info.name: info for name, group in _groups().items() for info in settings_of(name, group)}


def _from_arguments(
    overrides: Mapping[str, object], origin: str = "the arguments"
) -> Iterator[tuple[SettingInfo, object, str]]:
    for name, value in overrides.items():
        yield _recognised(name, _known(), origin), value, origin


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
        if not prefix and name in (ACCOUNTS, CATALOGS):
            continue  # they hold credentials, and settings do not
        if isinstance(value, Mapping):
            yield from _from_file(value, f"{prefix}{name}.")
        else:
            info = _recognised(prefix + name, _known(), "the configuration file")
            yield info, value, "the configuration file"


def _recognised(name: str, known: Mapping[str, SettingInfo], origin: str) -> SettingInfo:
    if name in known:
        return known[name]
    near = nearest(name, known)
    groups = ", ".join(part.name for part in fields(Settings))
    hint = f"did you mean {near!r}?" if near else f"the groups are {groups}"
    raise InvalidInputError(
        f"there is no setting {name!r} (from {origin}); {hint}",
        kind="unknown-setting",
        setting=name,
        nearest=near,
    )
