"""Catalogs and accounts of a configuration file: what a lake attaches when it is made.

They stand in tables of their own beside the settings, because they hold credentials, which settings do not::

    [catalogs.ice]
    type = "rest"
    uri = "https://catalog.example.com"
    token = "…"

    [accounts.acme]
    include = ["acme_*"]
    [accounts.acme.catalogs.theirs]
    type = "directory"
    warehouse = "s3://acme/warehouse"

Invariant: no text of theirs shows a property; only names do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from lakehouse.errors import InvalidInputError
from lakehouse.suggest import suggestion

__all__ = ["ACCOUNTS", "CATALOGS", "AccountConfig", "CatalogConfig"]

ACCOUNTS, CATALOGS = "accounts", "catalogs"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountConfig:
    """Catalogs and authority of one account."""

    catalogs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Properties by the name that a catalog is attached under."""
    include: Sequence[Any] | None = None
    """Patterns of databases of the warehouse that it sees; None = all."""
    exclude: Sequence[Any] | None = None
    authorise: Callable[..., Any] | None = field(default=None, repr=False)
    """Asked besides for databases that the patterns allow."""

    @classmethod
    def parse(cls, name: str, given: object) -> AccountConfig:
        """Checks the configuration of an account."""
        where = f"{ACCOUNTS}.{name}"
        table = _table(given, where)
        known = [one.name for one in fields(cls)]
        for one in table:
            if one not in known:
                raise InvalidInputError(
                    f"{where} has no {one!r}, {suggestion(one, known)}", kind="unknown-setting", setting=one
                )
        return cls(**{**table, CATALOGS: _catalogs(table.get(CATALOGS), f"{where}.{CATALOGS}")})


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogConfig:
    """Catalogs of a lake, and its accounts."""

    catalogs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    accounts: Mapping[str, AccountConfig] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, catalogs: object = None, accounts: object = None) -> CatalogConfig:
        """Checks what is given; properties are checked when a catalog is attached."""
        return cls(
            catalogs=_catalogs(catalogs, CATALOGS),
            accounts={
                name: one if isinstance(one, AccountConfig) else AccountConfig.parse(name, one)
                for name, one in _table(accounts, ACCOUNTS).items()
            },
        )

    @classmethod
    def of_file(cls, table: Mapping[str, object]) -> CatalogConfig:
        """Returns what a configuration file says."""
        return cls.parse(table.get(CATALOGS), table.get(ACCOUNTS))

    def over(self, below: CatalogConfig) -> CatalogConfig:
        """Returns both; of one name this one counts."""
        return CatalogConfig(
            catalogs={**below.catalogs, **self.catalogs}, accounts={**below.accounts, **self.accounts}
        )


def _catalogs(given: object, where: str) -> dict[str, Mapping[str, Any]]:
    return {name: _table(properties, f"{where}.{name}") for name, properties in _table(given, where).items()}


def _table(given: object, where: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidInputError(f"{where} is a table of names, not {type(given).__name__}", setting=where)
    return given
