"""``lakehouse builtins validate``: are files of an engine's builtins sound."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.catalog.system import BuiltinReport, validate_builtins
from lakehouse.cli.arguments import split_file
from lakehouse.cli.frame import Outcome, on_object
from lakehouse.cli.output import say
from lakehouse.errors import NotFoundError
from lakehouse.io import ObjectStore

__all__ = ["app"]

app = typer.Typer(help="Check files that say which types and functions an engine has.", no_args_is_help=True)

_SUFFIX = ".toml"
_BAD = 3
"""Exit code for files that cannot be used, as ``check-store`` has it for stores."""


def _split(url: str) -> tuple[str, str]:
    """Splits the URL of a file into store and key; the key of a directory is empty."""
    return split_file(url) if url.endswith(_SUFFIX) else (url, "")


@app.callback()
def _all() -> None:
    """Stands for the whole, so that a single command has a name of its own."""


@app.command("validate")
@on_object(_split)
async def _validate(
    store: ObjectStore,
    key: str,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    *,
    url: str,
) -> Outcome:
    """Check a file of builtins, or all of a directory: exit code 0 if they can be used, 3 if not.

    Types that one file of an engine defines are known in the others, and so are those of the engine's file
    that comes with the package.
    """
    keys = [key] if key else [each.key async for each in store.list("") if each.key.endswith(_SUFFIX)]
    if not keys:
        raise NotFoundError(f"{url} has no files whose names end in {_SUFFIX}", key=url)
    files = {each: bytes((await store.get(each)).data) for each in keys}
    report = validate_builtins(files)
    is_good = report.is_good(strict=strict)
    document = {"ok": is_good, "strict": strict, **report.as_dict()}
    return Outcome(lambda: _show(report), document, 0 if is_good else _BAD)


def _show(report: BuiltinReport) -> None:
    for problem in report.problems:
        say(str(problem), style="red" if problem.severity == "error" else "yellow")
    say(str(report))
