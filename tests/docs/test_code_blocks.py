"""Every Python example in the README and the guides runs as it stands, against a real store.

A block is run as a program of its own, forked from a process that has loaded the engine, with
``s3://bucket`` standing for a fresh bucket and the credentials in the ``AWS_`` environment, as a reader
would have them. A block that is not meant to run is preceded by ``<!-- not run: the reason -->``. Pages
about Spark, and blocks that use it, run in ``tests/spark``, where there is a session.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lakehouse.testing.endpoint import ServerInfo
from tests.kit.forking import run_program

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)


def blocks(*, spark: bool = False) -> list[tuple[str, str]]:
    """Every block that is meant to run, with or without Spark, and where it stands."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("code")) + 1
            about = page.stem.startswith("spark") or "lakehouse.spark" in match["code"]
            if not match["reason"] and about == spark:
                found.append((f"{page.relative_to(ROOT)}:{line}", match["code"]))
    return found


@pytest.mark.parametrize(("where", "code"), blocks(), ids=[where for where, _ in blocks()])
def test_example_runs(
    where: str, code: str, object_store_server: ServerInfo, bucket_url: str, tmp_path: Path
) -> None:
    """The example runs without an error, and without a warning."""
    program = tmp_path / "example.py"
    program.write_text(code.replace("s3://bucket", bucket_url))
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": object_store_server.endpoint_url,
        "AWS_ACCESS_KEY_ID": object_store_server.key,
        "AWS_SECRET_ACCESS_KEY": object_store_server.secret,
        "AWS_DEFAULT_REGION": object_store_server.region or "us-east-1",
    }
    code_of_exit, errors = run_program(program, environment, timeout=100)
    assert code_of_exit == 0, f"{where}:\n{errors}"
    assert "Warning" not in errors, errors
