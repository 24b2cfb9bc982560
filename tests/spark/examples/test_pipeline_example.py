"""The example pipeline runs from ingest to time travel; its own assertions say what has to be there."""

from __future__ import annotations

from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "spark_pipeline.py"


@pytest.mark.usefixtures("aws_environment")
def test_the_pipeline_runs(
    bucket_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends without an error, with devices of both revisions and every event counted once."""
    monkeypatch.setenv("WAREHOUSE", f"{bucket_url}/warehouse")
    monkeypatch.setenv("EVENTS", "2000")
    namespace: dict[str, object] = {"__name__": "pipeline"}
    exec(compile(SCRIPT.read_text(), SCRIPT.name, "exec"), namespace)
    said = capsys.readouterr().out
    assert "the move of March" in said
    assert "insert" in said
