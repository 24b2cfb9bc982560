"""Providers that installed packages bring."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.hints import EngineHintManager, found_providers
from lakehouse.errors import InvalidInputError
from tests.kit.hint_providers import Provider
from tests.kit.system_listings import table_node


def _install(directory: Path, monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    """Installs a package whose metadata name these entry points."""
    about = directory / "toy_planner-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-planner\nVersion: 1.0\n")
    lines = [f"{name} = {target}" for name, target in entries.items()]
    (about / "entry_points.txt").write_text("\n".join(["[lakehouse.engine_hints]", *lines]) + "\n")
    monkeypatch.setattr(sys, "path", [str(directory), *sys.path])


async def test_entry_points_bring_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider in the group of entry points is asked, behind those that were registered by code."""
    _install(tmp_path, monkeypatch, toy="tests.kit.hint_providers:Provider")
    registered = Provider(b"mine", kinds=("duckdb",))
    manager = EngineHintManager(providers=[registered])
    node = table_node(("db", "t"))
    for engine, payload in (("duckdb", b"mine"), ("postgres", b"1")):
        hint = await manager.hint(node, EngineKey(engine), "test.type+json")
        assert hint is not None
        assert hint.payload == payload


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("no_such_module_at_all:X", "cannot be loaded"),
        ("tests.kit.hint_providers:NoSuchName", "cannot be loaded"),
        ("builtins:dict", "makes no provider"),
    ],
)
def test_a_broken_entry_point_is_named(
    target: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be loaded, or is no provider, is an error that says which package brought it."""
    _install(tmp_path, monkeypatch, toy=target)
    with pytest.raises(InvalidInputError, match=rf"'toy' \({target}\) of toy-planner .* {told}"):
        list(found_providers())
