"""The frame of commands: words, what is opened, what is printed and the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from lakehouse.cli.frame import Outcome, finish, on_object

if TYPE_CHECKING:
    from lakehouse.io import ObjectStore
    from lakehouse.io.work import ProgressCallback


@on_object()
async def _size(
    store: ObjectStore, key: str, factor: int = 1, *, url: str, as_json: bool, tell: ProgressCallback
) -> Outcome:
    """Says how large an object is."""
    assert callable(tell)
    size = (await store.head(key)).size * factor
    return Outcome(f"{url}: {size}", {"size": size, "as_json": as_json}, 5)


def test_a_command_has_the_words_of_the_frame_and_its_own(tmp_path: Path) -> None:
    """What it works on comes first, then its own words, then the options of all; nothing else."""
    app = typer.Typer(add_completion=False)
    app.command()(_size)
    command = typer.main.get_command(app)
    assert [one.name for one in command.params] == [
        *("object_url", "factor", "options", "endpoint_url", "as_json")
    ]
    (tmp_path / "x").write_bytes(b"abc")
    done = CliRunner().invoke(app, [f"{tmp_path}/x", "--factor", "2"])
    assert (done.exit_code, done.stdout) == (5, f"{tmp_path}/x: 6\n")
    as_json = CliRunner().invoke(app, [f"{tmp_path}/x", "--json"])
    assert (as_json.exit_code, as_json.stdout) == (5, '{\n  "size": 3,\n  "as_json": true\n}\n')


@pytest.mark.parametrize(("as_json", "said"), [(False, ["text"]), (True, ["json"])])
def test_what_prints_it_all_is_called_for_people_or_programs(as_json: bool, said: list[str]) -> None:
    """An outcome that has functions in the place of text and document prints by one of them."""
    called: list[str] = []
    finish(Outcome(lambda: called.append("text"), lambda: called.append("json")), as_json=as_json)
    assert called == said
