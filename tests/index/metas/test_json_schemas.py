"""JSON Schemas of the JSON columns: shipped, sound, and kept by every row."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from lakehouse.errors import InvalidInputError
from lakehouse.index import COMPACT, GREPTIME, SCHEMA_NAMES, IndexEntry, IndexType, MetaInfo, json_schema
from tests.kit.index_entries import BLOOM, entries, entry

ROOT = Path(__file__).resolve().parents[3]


def validator(name: str) -> jsonschema.Draft202012Validator:
    """The validator of a schema."""
    return jsonschema.Draft202012Validator(json_schema(name))


VALIDATORS = {name: validator(name) for name in SCHEMA_NAMES}


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_schemas_are_schemas(name: str) -> None:
    """Each schema is one of draft 2020-12, with an id of its own."""
    schema = json_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["$id"] == f"urn:lakehouse:index-meta:v1:{name}"


def test_schemas_are_package_data() -> None:
    """The schemas are files of the package, and the package takes them along."""
    files = {path.stem for path in (ROOT / "lakehouse" / "index" / "schemas").iterdir()}
    assert files == set(SCHEMA_NAMES)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "index/schemas/*.json" in project["tool"]["setuptools"]["package-data"]["lakehouse"]


def test_a_schema_may_be_changed_by_its_owner() -> None:
    """Everyone gets a copy."""
    json_schema("meta").clear()
    assert json_schema("meta")


def test_other_schemas_are_refused_by_name() -> None:
    """A schema that does not exist is an error that names those that do."""
    with pytest.raises(InvalidInputError, match=r"'flat'.*greptime_target"):
        json_schema("flat")


@given(entries())
def test_every_row_validates(one: IndexEntry) -> None:
    """The JSON columns of every row, of both shapes that have some, keep their schema."""
    for shape, prefix in ((COMPACT, ""), (GREPTIME, "greptime_")):
        row = shape.to_dict(one)
        VALIDATORS[f"{prefix}target"].validate(json.loads(row["target_json"]))
        VALIDATORS[f"{prefix}meta"].validate(json.loads(row["meta_json"]))


def test_rows_about_unknown_targets_validate() -> None:
    """What stands for a target that could not be decoded keeps the schemas too."""
    one = entry(IndexType.BLOOM_SKIPPING, "?", MetaInfo(bloom=BLOOM))
    VALIDATORS["target"].validate(json.loads(COMPACT.to_dict(one)["target_json"]))
    VALIDATORS["greptime_target"].validate(json.loads(GREPTIME.to_dict(one)["target_json"]))


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("target", {}),
        ("target", {"columns": []}),
        ("target", {"columns": [1, 1]}),
        ("target", {"columns": [-1]}),
        ("target", {"columns": [2**32]}),
        ("target", {"column": 1}),
        ("target", {"column": 1, "json_path": "a"}),
        ("target", {"expr": "a"}),
        ("target", {"expr_hash": 2**64}),
        ("target", {"error": "other"}),
        ("meta", {"meta_schema_version": 1}),
        ("meta", {"meta_schema_version": 0, "bloom": json_schema("meta")}),
        ("meta", {"bloom": {"row_count": 1}, "meta_schema_version": 1}),
        ("meta", {"fulltext": {"analyzer": "English", "case_sensitive": True}, "meta_schema_version": 1}),
        ("greptime_target", {"columns": [1]}),
        ("greptime_target", {"column": 1, "json_path": ""}),
        ("greptime_meta", {}),
        ("greptime_meta", {"fulltext": {"analyzer": "english", "case_sensitive": True}}),
        ("greptime_meta", {"fulltext": {"analyzer": "English", "case_sensitive": True, "granularity": 1}}),
        ("greptime_meta", {"meta_schema_version": 1}),
    ],
)
def test_schemas_refuse_what_is_no_row(name: str, document: dict[str, Any]) -> None:
    """A document that no writer makes is not valid."""
    assert not VALIDATORS[name].is_valid(document)


def test_schemas_take_what_later_releases_add() -> None:
    """New keys in the JSON of compact rows are valid today."""
    meta = {
        "meta_schema_version": 2,
        "bloom": {
            "bloom_filter_size": 1,
            "row_count": 1,
            "rows_per_segment": 1,
            "segment_count": 1,
            "hashes": 7,
        },
        "vector": {},
    }
    VALIDATORS["meta"].validate(meta)
    VALIDATORS["target"].validate({"columns": [1], "names": ["host"]})
