"""Rules of engines: which match, and what they publish together."""

from __future__ import annotations

import json
from typing import Any

from lakehouse.catalog.engines import EngineKey, EngineRule, VersionWindow, matching, published

_PG16 = EngineKey("postgres", "16.1")


def _rule(payload: bytes | None = None, **given: Any) -> EngineRule:
    return EngineRule(**{"payload_type": "x.type+json", "payload": payload, **given})


def test_a_rule_without_a_kind_inherits_its_files() -> None:
    """A rule that names no engine is for the engine of its file; one that names another keeps it."""
    assert _rule().inheriting("postgres").matches(_PG16)
    assert not _rule().inheriting("duckdb").matches(_PG16)
    assert _rule(kind="postgres").inheriting("duckdb").kind == "postgres"


def test_rules_match_inside_their_window() -> None:
    """Only rules of the engine's kind whose window has its version match, in their order."""
    rules = [
        _rule(b"1", kind="postgres"),
        _rule(b"2", kind="duckdb"),
        _rule(b"3", kind="postgres", window=VersionWindow(first="17")),
        _rule(b"4", kind="postgres", window=VersionWindow(first="16", last="16.1")),
    ]
    assert [rule.payload for rule in matching(rules, _PG16)] == [b"1", b"4"]


def test_the_last_match_wins_for_each_payload_type() -> None:
    """Of rules that match, the last one's payload is published; other types do not matter to it."""
    other = _rule(b"other", payload_type="x.other+json")
    hints = published([_rule(b"1"), other, _rule(b"2"), _rule(b"3", kind="duckdb")], _PG16)
    assert {name: hint.payload for name, hint in hints.items()} == {
        "x.type+json": b"2", "x.other+json": b"other"
    }  # fmt: skip


def test_properties_override_in_order() -> None:
    """Properties of later rules replace those of earlier ones by name, and leave the others."""
    rules = [_rule(b"1", properties={"a": "1", "b": "1"}), _rule(properties={"b": "2"})]
    hint = published(rules, _PG16)["x.type+json"]
    assert dict(hint.metadata) == {"a": "1", "b": "2"}
    assert hint.payload == b"1"


def test_properties_alone_are_published_as_json() -> None:
    """Rules that give no payload publish their properties."""
    hint = published([_rule(properties={"b": "2", "a": "1"})], _PG16)["x.type+json"]
    assert json.loads(hint.payload) == {"a": "1", "b": "2"}
