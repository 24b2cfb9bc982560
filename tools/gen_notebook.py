"""Writes notebooks of the examples: in a script, ``# %%`` begins a cell, ``# %% [markdown]`` one of text.

``python tools/gen_notebook.py`` writes them, ``--check`` says whether they are as they should be. The script
is the source, so a notebook has no outputs and shows no difference that is not one of the code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_CELL = "# %%"
_TEXT = "# %% [markdown]"


def scripts() -> list[Path]:
    """The examples that are notebooks too."""
    return [path for path in sorted((ROOT / "examples").glob("*.py")) if path.read_text().startswith(_CELL)]


def notebook(script: str) -> str:
    """A script's notebook, as JSON."""
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(f"\n{script}".split(f"\n{_CELL}")[1:]):
        head, _, body = part.partition("\n")
        is_text = f"{_CELL}{head}" == _TEXT
        lines = body.strip("\n").splitlines()
        if is_text:
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        cell = {
            "cell_type": "markdown" if is_text else "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": [f"{line}\n" for line in lines[:-1]] + lines[-1:],
        }
        cells.append(cell if is_text else {**cell, "execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes or checks."""
    stale = []
    for path in scripts():
        place, wanted = path.with_suffix(".ipynb"), notebook(path.read_text())
        if not place.is_file() or place.read_text() != wanted:
            stale.append(place)
            if "--check" not in sys.argv:
                place.write_text(wanted)
    for place in stale:
        print(f"{place.relative_to(ROOT)}: {'stale: run make docs' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
