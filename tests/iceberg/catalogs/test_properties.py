"""Properties of catalogs: what is needed, what is refused, and what reaches files."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.iceberg.catalogs.properties import CatalogProperties
from lakehouse.io.location import Location

_S3 = Location.parse("s3://bucket/wh")


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "'ice' has no type: give 'type' as one of directory, glue, hive, rest, sql"),
        ({"type": "rset", "uri": "x"}, "no type 'rset' of catalogs, did you mean 'rest'"),
        ({"type": 7}, "no type 7 of catalogs"),
        ({"type": "rest"}, "of type 'rest' needs the property 'uri'"),
        ({"type": "SQL"}, "of type 'sql' needs the property 'uri'"),
        ({"type": "hive", "uri": ""}, "needs the property 'uri'"),
        ({"type": "directory"}, "needs the property 'warehouse'"),
        ({"type": "directory", "warehouse": "s3://b/w", "uri": "x"}, "a directory has no property 'uri'"),
        ({"type": "directory", "warehouse": "/tmp/w", "s3.region": "x"}, "no property 's3.region'"),
        ({"type": "directory", "warehouse": "s3://b/w", "s3.regions": "x"}, "did you mean 's3.region'"),
        ({"type": "rest", "uri": "x", "py-io-impl": "y"}, "py-io-impl has no effect"),
        ({"type": "rest", "uri": "x", "py-catalog-impl": "y"}, "py-catalog-impl has no effect"),
        ({"type": "rest", "uri": "x", "storage_options": "y"}, "storage_options is a mapping"),
        ("rest", "not with str"),
    ],
)
def test_wrong_properties_are_said_before_anything_is_contacted(properties: Any, said: str) -> None:
    """An unknown type, a missing property and one without effect are named."""
    with pytest.raises(InvalidInputError) as wrong:
        CatalogProperties.parse("ice", properties)
    assert said in wrong.value.message


def test_properties_of_stores_are_storage_options() -> None:
    """``s3.…`` goes before ``client.…``, ``storage_options`` before both, what is handed out before all."""
    given = {
        "type": "rest",
        "uri": "http://127.0.0.1:9",
        "s3.endpoint": "http://one",
        "client.region": "general",
        "s3.region": "plain",
        "s3.access-key-id": "mine",
        "storage_options": {"secret": "told"},
    }
    parsed = CatalogProperties.parse("ice", given)
    handed_out = {"s3.access-key-id": "theirs", "s3.session-token": "now", "unknown.to.us": "x"}
    assert parsed.options_at(_S3, handed_out).reveal() == {
        "endpoint_url": "http://one",
        "client_kwargs": {"region_name": "plain"},
        "key": "theirs",
        "secret": "told",
        "token": "now",
    }


def test_properties_of_s3_say_nothing_about_other_stores(tmp_path: Any) -> None:
    """A table on another store than S3 is not reached with keys of S3."""
    parsed = CatalogProperties.parse(
        "ice", {"type": "sql", "uri": "sqlite://", "s3.access-key-id": "mine", "s3.secret-access-key": "s"}
    )
    assert parsed.options_at(Location.parse(str(tmp_path)), {"s3.endpoint": "x"}).reveal() == {}


def test_a_property_of_a_store_without_effect_is_refused() -> None:
    """What the caller says of files is taken whole or refused."""
    parsed = CatalogProperties.parse("ice", {"type": "rest", "uri": "x", "s3.connect-timeout": "3"})
    with pytest.raises(InvalidInputError, match=r"io.connect_timeout_s"):
        parsed.options_at(_S3)


def test_pyiceberg_is_told_text() -> None:
    """Truth values and numbers become text, mappings stay, and what is ours is not passed on."""
    given = {"echo": True, "rest-page-size": 10, "auth": {"type": "noop"}, "prefix": None}
    parsed = CatalogProperties.parse(
        "ice", {"type": "rest", "uri": "x", "storage_options": {"key": "y"}, **given}
    )
    assert parsed.for_pyiceberg() == {
        "uri": "x",
        "echo": "true",
        "rest-page-size": "10",
        "auth": {"type": "noop"},
    }


def test_properties_show_no_secrets() -> None:
    """Neither the text of properties nor errors made with them repeat a key."""
    parsed = CatalogProperties.parse(
        "ice", {"type": "rest", "uri": "x", "credential": "id:very-secret-words", "token": "another-secret"}
    )
    assert "secret-words" not in repr(parsed)
    assert parsed.secrets.masked("very-secret-words? id:very-secret-words, another-secret") == (
        "very-secret-words? ***, ***"
    )
