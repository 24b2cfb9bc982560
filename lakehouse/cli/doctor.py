"""``lakehouse doctor``: whether everything that is needed is here, and what to do where it is not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated

import anyio
import typer
from rich.text import Text

from lakehouse._version import __version__, install_command
from lakehouse.cli.arguments import Endpoint, Json, Options, parse_options
from lakehouse.cli.frame import Outcome, finish
from lakehouse.cli.output import print_table
from lakehouse.clock import SystemClock
from lakehouse.errors import LakehouseError
from lakehouse.ids import new_token
from lakehouse.io import ObjectStore, load_settings, open_store
from lakehouse.io.work import in_thread
from lakehouse.java import java_problem

__all__ = ["doctor"]

_EXTRAS = {
    "fast": ("numba", "obstore"),
    "fulltext": ("rjieba", "tantivy"),
    "iceberg": ("pyiceberg",),
    "spark": ("pyspark",),
    "sql": ("duckdb", "prompt-toolkit"),
}
_NEEDED = ("pyarrow", "numpy", "fsspec", "s3fs")
_DUCKDB = "2.0."
"""Versions of DuckDB whose interface for sources was tested."""
_PYTHON = (3, 11)
_SKEW_S = 2.0
"""Seconds by which clocks may differ without a word: commits correct for more."""
_FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """Result of looking at one thing."""

    name: str
    is_good: bool
    found: str
    todo: str = ""
    """Words on what to do; empty = nothing."""
    is_needed: bool = True
    """Whether nothing works without it."""


def doctor(
    url: Annotated[
        str | None,
        typer.Argument(help="A warehouse or store to try; may be left out.", metavar="WAREHOUSE"),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Put no object, which says nothing of the store's clock.")
    ] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Say whether Python, packages, Java and a store are as they should be; exit code 3 if not."""
    parsed = parse_options(options, endpoint_url)

    async def look() -> list[_Finding]:
        found = [*_of_python(), *_of_packages(), *await in_thread(lambda: [*_of_programs()]), _of_settings()]
        if url is None:
            return found
        async with open_store(url, storage_options=parsed) as store:
            return [*found, *[one async for one in _of_store(store, read_only=read_only)]]

    findings = anyio.run(look)
    is_well = all(one.is_good or not one.is_needed for one in findings)
    finish(
        Outcome(lambda: _print(findings), [asdict(one) for one in findings], 0 if is_well else _FAILED),
        as_json=as_json,
    )


def _print(findings: list[_Finding]) -> None:
    marks = {True: Text("yes", style="green"), False: Text("no", style="red")}
    optional = Text("no", style="yellow")
    rows = [
        (one.name, marks[one.is_good] if one.is_good or one.is_needed else optional, one.found, one.todo)
        for one in findings
    ]
    print_table(("what", "good", "found", "to do"), rows, whole=("what", "good"))


def _of_python() -> Iterator[_Finding]:
    wanted = ".".join(map(str, _PYTHON))
    yield _Finding(
        name="python",
        is_good=sys.version_info[:2] >= _PYTHON,
        found=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        todo="" if sys.version_info[:2] >= _PYTHON else f"use Python {wanted} or newer",
    )
    yield _Finding(name="lakehouse", is_good=True, found=__version__)


def _of_packages() -> Iterator[_Finding]:
    for name in _NEEDED:
        version = _version(name)
        todo = "" if version else install_command()
        yield _Finding(name=name, is_good=version is not None, found=version or "not installed", todo=todo)
    for extra, names in _EXTRAS.items():
        for name in names:
            version = _version(name)
            is_good = version is not None and (name != "duckdb" or version.startswith(_DUCKDB))
            yield _Finding(
                name=name,
                is_good=is_good,
                found=version or "not installed",
                todo="" if is_good else f"for {extra}: {install_command(extra)}",
                is_needed=False,
            )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _of_programs() -> Iterator[_Finding]:
    problem = java_problem()
    yield _Finding(
        name="java",
        is_good=problem is None,
        found=problem or "as Spark needs it",
        todo="for Spark: install it, and set JAVA_HOME" if problem else "",
        is_needed=False,
    )
    go = shutil.which("go")  # io-ok: where a program is
    yield _Finding(
        name="go",
        is_good=go is not None,
        found=go or "not found",
        todo="" if go else "for a MinIO in tests and the demo: install Go",
        is_needed=False,
    )


def _of_settings() -> _Finding:
    try:
        load_settings()
    except LakehouseError as error:
        return _Finding(
            name="settings", is_good=False, found=error.message, todo="correct environment or file"
        )
    return _Finding(name="settings", is_good=True, found=os.environ.get("LAKEHOUSE_CONFIG") or "no file")


async def _of_store(store: ObjectStore, *, read_only: bool) -> AsyncIterator[_Finding]:
    began = time.perf_counter()
    try:
        await store.list_page("", limit=1)
    except LakehouseError as error:
        todo = "check URL, endpoint (--endpoint-url) and credentials (AWS_…, -o key=…)"
        yield _Finding(name="store", is_good=False, found=error.message, todo=todo)
        return
    took_ms = (time.perf_counter() - began) * 1000
    yield _Finding(name="store", is_good=True, found=f"{store.url} answers a listing in {took_ms:.0f} ms")
    if not read_only:
        async for one in _of_writes(store):
            yield one


async def _of_writes(store: ObjectStore) -> AsyncIterator[_Finding]:
    """Puts an object that nobody reads, and takes it away again."""
    clock, key = SystemClock(), f"_doctor-{new_token()}"
    try:
        before = clock.now_ms()
        stored = await store.put(key, b"lakehouse doctor")
        between = (before + clock.now_ms()) / 2
        await store.delete_batch([key])
    except LakehouseError as error:
        todo = "this account reads only; writing needs the rights to put and delete objects"
        yield _Finding(name="writing", is_good=False, found=error.message, todo=todo, is_needed=False)
        return
    yield _Finding(
        name="writing",
        is_good=True,
        found="an object was put and deleted",
        todo=f"lakehouse check-store {store.url} tries whether commits are safe",
    )
    if stored.store_time_ms is None:
        yield _Finding(name="clock", is_good=True, found="the store tells no time")
        return
    ahead_s = (between - stored.store_time_ms) / 1000
    is_good = abs(ahead_s) <= _SKEW_S
    side = "ahead of" if ahead_s > 0 else "behind"
    yield _Finding(
        name="clock",
        is_good=is_good,
        found=f"this machine is {abs(ahead_s):.1f} s {side} the store",
        todo="" if is_good else "set the clock right (NTP): credentials are refused when it is far off",
        is_needed=False,
    )
