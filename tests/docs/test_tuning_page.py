"""The tuning page speaks of knobs that exist."""

from __future__ import annotations

import re
from pathlib import Path

from lakehouse.config import Settings
from lakehouse.format.schema.table_options import TableOptions

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "tuning.md").read_text(encoding="utf-8")
DOTTED = re.compile(r"[`\"]([a-z0-9]+(?:\.[a-z0-9_]+)+)[`\"]")
KNOBS = {info.name for info in Settings.describe()} | {info.name for info in TableOptions.describe()}


def test_every_knob_on_the_page_exists() -> None:
    """Whatever looks like a setting or an option is one."""
    named = set(DOTTED.findall(PAGE)) - {"shop.orders"}
    assert len(named) > 30
    assert named - KNOBS == set()


def test_every_option_of_compaction_and_streaming_is_on_the_page() -> None:
    """What bounds a writer and compaction is explained."""
    groups = ("compaction.", "wal.", "write.mem", "snapshot_interval", "table.compaction")
    assert {name for name in KNOBS if name.startswith(groups)} - set(
        re.findall(r"`([a-z0-9_.]+)`", PAGE)
    ) == set()
