"""Notebooks are what their scripts say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.gen_notebook import notebook, scripts


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_a_notebook_is_its_script(script: Path) -> None:
    """The cells together are the script's code, so running the script runs the notebook."""
    text = script.with_suffix(".ipynb").read_text()
    assert text == notebook(script.read_text()), "run make docs"
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    code = ["".join(cell["source"]).strip() for cell in cells]
    assert len(code) > 1
    for one in code:
        compile(one, script.name, "exec")
        assert one in script.read_text()
