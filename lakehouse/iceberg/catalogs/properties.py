"""Properties of catalogs: what each type needs, which of them reach files, and what pyiceberg is told.

Names are pyiceberg's, so that what works there can be copied. ``storage_options`` says besides how files are
reached, in the words of :func:`lakehouse.connect`, and stays with us.

Invariant: what comes from the caller is taken whole or refused by name; of what a catalog hands out, known
names of credentials and endpoints are taken and the rest is left, because it is meant for other programs too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakehouse.errors import InvalidInputError, LakehouseError, PermissionDeniedError
from lakehouse.io.location import Location
from lakehouse.io.open import understood_options
from lakehouse.io.options import StorageOptions
from lakehouse.suggest import suggestion

__all__ = ["CATALOG_TYPES", "AskCredentials", "CatalogProperties"]

CATALOG_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "directory": ("warehouse",),
    "glue": (),
    "hive": ("uri",),
    "rest": ("uri",),
    "sql": ("uri",),
}
"""Types of catalogs, each with the properties that it cannot do without."""
_EXAMPLES: Final[Mapping[str, str]] = {
    "uri": "such as 'http://localhost:8181' (rest), 'sqlite:////path/catalog.db' (sql) or "
    "'thrift://host:9083' (hive)",
    "warehouse": "the URL of the directory that holds namespaces of tables, such as 's3://bucket/warehouse'",
}
AskCredentials = Callable[[], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Returns properties that hold credentials."""
_STORAGE = "storage_options"
_CREDENTIALS = "credentials"
_PLACES = ("uri", "warehouse")
"""Properties that say which catalog it is."""
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")
_OF_STORES: Final = ("s3.", "client.")
"""Beginnings of the properties that say how files are reached."""
_DECIDED: Final[Mapping[str, str]] = {
    "py-io-impl": "files are read through the engine's own stores",
    "py-catalog-impl": "catalogs are of a type: give type",
}
_HANDED_OUT: Final = frozenset(
    {
        "client.region",
        "s3.access-key-id",
        "s3.anonymous",
        "s3.endpoint",
        "s3.path-style-access",
        "s3.region",
        "s3.secret-access-key",
        "s3.session-token",
    }
)
"""Names by which catalogs hand out credentials and endpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogProperties:
    """Properties that a catalog was attached with."""

    name: str
    type: str
    given: Mapping[str, Any] = field(repr=False)
    """Properties for pyiceberg, without ``type`` and ``storage_options``."""
    storage_options: Mapping[str, Any] = field(repr=False)
    ask: AskCredentials | None = field(default=None, repr=False)
    """Gives properties that hold credentials, fresh each time."""
    is_waiting: bool = False
    """Nobody was asked for credentials yet."""

    @classmethod
    def parse(cls, name: str, properties: Mapping[str, Any]) -> CatalogProperties:
        """Checks properties; nothing is contacted.

        Raises:
            InvalidInputError: the type is unknown, a property that it needs is missing, or one has no effect.
        """
        if not isinstance(properties, Mapping):
            raise InvalidInputError(
                f"a catalog is attached with properties, such as {{'type': 'rest', 'uri': …}}, not with "
                f"{type(properties).__name__}",
                catalog=name,
            )
        given = dict(properties)
        kind = _checked_type(name, given.pop("type", None))
        options = given.pop(_STORAGE, None) or {}
        ask = given.pop(_CREDENTIALS, None)
        if ask is not None and not callable(ask):
            raise InvalidInputError(
                f"catalog {name!r}: {_CREDENTIALS} is a function that returns properties, such as "
                "{'token': …}",
                catalog=name,
                option=_CREDENTIALS,
            )
        if not isinstance(options, Mapping):
            raise InvalidInputError(f"catalog {name!r}: {_STORAGE} is a mapping", catalog=name)
        for one, why in _DECIDED.items():
            if one in given:
                raise InvalidInputError(
                    f"catalog {name!r}: {one} has no effect: {why}", catalog=name, option=one
                )
        for one in CATALOG_TYPES[kind]:
            if not given.get(one):
                raise InvalidInputError(
                    f"catalog {name!r} of type {kind!r} needs the property {one!r}: {_EXAMPLES[one]}",
                    catalog=name,
                    option=one,
                )
        made = cls(
            name=name, type=kind, given=given, storage_options=options, ask=ask, is_waiting=ask is not None
        )
        if kind == "directory":
            made._check_directory()
        return made

    async def asked(self) -> CatalogProperties | None:
        """Returns the properties with fresh credentials; None where there is nobody to ask."""
        if self.ask is None:
            return None
        try:
            answer = self.ask()
            fresh = await answer if inspect.isawaitable(answer) else answer
        except LakehouseError:
            raise
        except Exception as error:  # noqa: BLE001 - somebody else's function, which may say secrets
            raise PermissionDeniedError(
                f"catalog {self.name!r}: asking for credentials failed: {type(error).__name__}",
                catalog=self.name,
            ) from None
        if not isinstance(fresh, Mapping):
            raise InvalidInputError(
                f"catalog {self.name!r}: {_CREDENTIALS} returns properties, not {type(fresh).__name__}",
                catalog=self.name,
                option=_CREDENTIALS,
            )
        whole = {**self.given, _STORAGE: self.storage_options, **fresh, "type": self.type}
        parsed = replace(self.parse(self.name, whole), ask=self.ask)
        self.check_same_catalog(parsed)
        return parsed

    def is_like(self, other: CatalogProperties) -> bool:
        """Returns whether two sets of properties say the same."""
        return (self.given, self.storage_options) == (other.given, other.storage_options)

    def check_same_catalog(self, other: CatalogProperties) -> None:
        """Refuses properties of another catalog, whose tables would be others under the same names."""
        changed = [one for one in _PLACES if _place(self.given.get(one)) != _place(other.given.get(one))]
        if self.type != other.type:
            changed.insert(0, "type")
        if changed:
            raise InvalidInputError(
                f"catalog {self.name!r}: {' and '.join(changed)} would make it another catalog, and only "
                "credentials are replaced while it is attached: detach it and attach the other one",
                catalog=self.name,
                option=changed[0],
            )

    def _check_directory(self) -> None:
        location = Location.parse(str(self.given["warehouse"]))
        for one in self.given:
            if one != "warehouse" and not (one.startswith(_OF_STORES) and location.scheme == "s3"):
                raise InvalidInputError(
                    f"catalog {self.name!r}: a directory has no property {one!r}; it takes 'warehouse' and "
                    f"{_STORAGE!r}",
                    catalog=self.name,
                    option=one,
                )
        self.options_at(location)

    @property
    def secrets(self) -> StorageOptions:
        """All properties, hidden where they look secret: for messages."""
        return StorageOptions({**self.storage_options, **self.given})

    def options_at(self, location: Location, handed_out: Mapping[str, Any] | None = None) -> StorageOptions:
        """Returns the storage options of files at a place.

        Args:
            location: of a file or directory.
            handed_out: properties that the catalog gave with a table; they go before those of the caller.
        """
        layers: list[Mapping[str, Any]] = []
        if location.scheme == "s3":
            layers.append(_of_stores(self.given))
        layers.append(self.storage_options)
        if location.scheme == "s3" and handed_out:
            layers.append({one: handed_out[one] for one in _HANDED_OUT if one in handed_out})
        return understood_options(location, *map(_plain_before_general, layers))

    def for_pyiceberg(self) -> dict[str, Any]:
        """Returns the properties as pyiceberg takes them: text, and mappings as they are."""
        return {one: _as_text(value) for one, value in self.given.items() if value is not None}


def _checked_type(name: str, kind: object) -> str:
    if isinstance(kind, str) and kind.lower() in CATALOG_TYPES:
        return kind.lower()
    if kind is None:
        said = f"catalog {name!r} has no type"
    else:
        said = (
            f"catalog {name!r}: there is no type {kind!r} of catalogs, {suggestion(str(kind), CATALOG_TYPES)}"
        )
    raise InvalidInputError(
        f"{said}: give 'type' as one of {', '.join(CATALOG_TYPES)}", catalog=name, option="type"
    )


def _place(value: object) -> str:
    """Returns a property of a place without the user that may stand in it."""
    return _USER_IN_URL.sub("", str(value))


def _of_stores(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {one: value for one, value in properties.items() if one.startswith(_OF_STORES)}


def _plain_before_general(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leaves out ``client.…`` where ``s3.…`` says the same thing of S3 alone."""
    return {
        one: value
        for one, value in layer.items()
        if not (one.startswith("client.") and f"s3.{one.removeprefix('client.')}" in layer)
    }


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str | Mapping) else str(value)
