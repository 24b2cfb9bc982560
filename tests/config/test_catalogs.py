"""Catalogs and accounts of a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.config import AccountConfig, CatalogConfig
from lakehouse.errors import InvalidInputError
from lakehouse.io import load_catalogs, load_settings

_TOML = """
[io]
max_concurrency = 7

[catalogs.ice]
type = "rest"
uri = "http://c"
token = "c4n4ry"

[accounts.acme]
include = ["acme_*"]
[accounts.acme.catalogs.theirs]
type = "directory"
warehouse = "s3://acme/wh"
"""


def _file(directory: Path, text: str = _TOML) -> str:
    path = directory / "lakehouse.toml"
    path.write_text(text)
    return str(path)


def test_a_file_has_catalogs_beside_settings(tmp_path: Path) -> None:
    """One file says settings, catalogs and accounts; the settings hold nothing of the others."""
    path = _file(tmp_path)
    settings = load_settings(env={}, path=path)
    assert settings.io.max_concurrency == 7
    assert "c4n4ry" not in repr(settings)
    found = load_catalogs(env={"LAKEHOUSE_CONFIG": path})
    assert found.catalogs == {"ice": {"type": "rest", "uri": "http://c", "token": "c4n4ry"}}
    assert found.accounts["acme"].include == ["acme_*"]
    assert found.accounts["acme"].catalogs["theirs"]["type"] == "directory"


def test_without_a_file_there_are_none() -> None:
    """No file is no catalog and no account."""
    assert load_catalogs(env={}) == CatalogConfig()


def test_no_property_shows(tmp_path: Path) -> None:
    """The text of a configuration has no property, secret or not."""
    found = load_catalogs(env={}, path=_file(tmp_path))
    assert "c4n4ry" not in f"{found!r} {found} {found.accounts!r}"


def test_what_is_given_counts_before_the_file() -> None:
    """Of one name the catalog of the call counts as a whole, not property by property."""
    below = CatalogConfig.parse({"a": {"type": "sql", "uri": "x"}, "b": {"type": "hive"}})
    both = CatalogConfig.parse({"a": {"type": "rest"}}).over(below)
    assert both.catalogs == {"a": {"type": "rest"}, "b": {"type": "hive"}}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"catalogs": ["ice"]}, "catalogs is a table"),
        ({"catalogs": {"ice": "c4n4ry"}}, "catalogs.ice is a table"),
        ({"accounts": {"acme": {"catalog": {}}}}, "did you mean 'catalogs'"),
        ({"accounts": {"acme": {"catalogs": {"x": 1}}}}, "accounts.acme.catalogs.x is a table"),
    ],
)
def test_what_is_no_table_is_refused(given: dict[str, Any], told: str) -> None:
    """A wrong shape is named by its place, and shows no value."""
    with pytest.raises(InvalidInputError, match=told) as raised:
        CatalogConfig.parse(**given)
    assert "c4n4ry" not in str(raised.value)


def test_accounts_may_be_given_as_values() -> None:
    """An account that is a value already is taken as it is."""
    one = AccountConfig(exclude=["hr"])
    assert CatalogConfig.parse(accounts={"a": one}).accounts["a"] is one
