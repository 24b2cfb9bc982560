"""Maintenance from a command line: what ``lakehouse spark …`` runs, and a file for ``spark-submit``.

    lakehouse spark compact s3://bucket/warehouse sales.orders --full --master 'local[*]'
    spark-submit --master yarn …/lakehouse/spark/submit.py compact s3://bucket/warehouse sales.orders --full

Invariant: there is one parser for both. Output is the report, or one JSON object with ``--json``; the exit
code is 0, 1 for an error of the engine, 2 for wrong usage and 4 for damage that was found. What deletes
asks first, and needs ``--yes`` where there is no terminal. A session that ``spark-submit`` has set up is
taken as it is.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # A script's directory comes first in the search path, and ours has modules such as types.
    _here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - nothing is imported yet
    while _here in sys.path:
        sys.path.remove(_here)

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.io.options import options_of_words
from lakehouse.io.work import Progress, ProgressCallback
from lakehouse.spark.jobs.clustering import rewrite
from lakehouse.spark.jobs.compaction import compact
from lakehouse.spark.jobs.maintenance import expire, rebuild_indexes, remove_orphans, verify
from lakehouse.spark.runtime.connection import Connection
from lakehouse.spark.runtime.sessions import NEEDED, session
from lakehouse.storage.maintenance import VerifyReport

__all__ = ["main", "run"]

_DAMAGED = 4


def run(words: Sequence[str], *, prog: str = "lakehouse spark", spark: SparkSession | None = None) -> int:
    """Does what a command line asks for; returns the exit code.

    Args:
        words: such as ``["compact", "s3://bucket/warehouse", "sales.orders", "--full"]``.
        prog: what help calls the program.
        spark: the session; None = one that fits the command line is made, and ended.

    Raises:
        LakehouseError: what the engine has to say.
        SystemExit: the words are wrong, or ask for help.
    """
    parser = _parser(prog)
    asked = vars(parser.parse_args(words))
    question, yes = asked.pop("question"), asked.pop("yes")
    if question is not None and not yes and not asked["dry_run"]:
        _confirm(parser, question.format_map(asked))
    work: Callable[..., Any] = asked.pop("work")
    as_json, master, memory = asked.pop("json"), asked.pop("master"), asked.pop("memory")
    connection = Connection(
        url=_url(asked.pop("warehouse")),
        storage_options=options_of_words(asked.pop("option"), asked.pop("endpoint_url")),
        settings={name: _value(text) for name, text in asked.pop("setting")},
    )
    running = spark if spark is not None else _session(master, memory)
    try:
        report = work(running, asked.pop("table"), connection=connection, progress=_progress(), **asked)
    finally:
        if spark is None:
            running.stop()
    sys.stdout.write((json.dumps(report.as_dict(), default=str) if as_json else str(report)) + "\n")
    return _DAMAGED if isinstance(report, VerifyReport) and not report.ok else 0


def main() -> None:
    """Runs the words of the command line; the entry point of ``spark-submit``."""
    words = sys.argv[1:]
    try:
        sys.exit(run(words, prog="submit.py"))
    except LakehouseError as error:
        if "--json" in words:
            sys.stdout.write(json.dumps({"error": error.kind, "message": error.message}) + "\n")
        else:
            sys.stderr.write(f"error: {error.message}\n")
        sys.exit(1)


# --- words ----------------------------------------------------------------------------


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Maintenance of tables by Spark's executors.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = _command(commands, "compact", compact, "Merge sorted runs, so that reads get faster.")
    command.add_argument("--full", action="store_true", help="leave one run of every bucket")
    _add_where(command)
    command.add_argument("--task-bytes", type=int, metavar="N", help="what a task reads at most")

    command = _command(commands, "rewrite", rewrite, "Sort the rows of a table without a key anew.")
    order = command.add_mutually_exclusive_group(required=True)
    order.add_argument("--sort-by", type=_names, metavar="A,B", help="columns; --sort-by=-A is descending")
    order.add_argument("--zorder-by", type=_names, metavar="A,B", help="columns of equal weight")
    _add_where(command)
    command.add_argument("--target-bytes", type=int, metavar="N", help="size of files")

    command = _command(commands, "rebuild-indexes", rebuild_indexes, "Index files that have no index yet.")
    command.add_argument("--every", action="store_true", help="also files that are indexed already")
    _add_where(command)

    command = _command(commands, "remove-orphans", remove_orphans, "Delete uploads that no commit took.")
    command.set_defaults(question="Delete orphans of {table}?")
    _add_moment(command, "uploads before then; else those older than the table's orphan.min_age_s")

    command = _command(commands, "verify", verify, "Look for damage; exit code 4 when there is some.")
    command.add_argument("--shallow", dest="deep", action="store_false", help="read no data file")
    command.add_argument("--snapshot", type=int, metavar="ID", help="only this one; else all")

    command = _command(commands, "expire", expire, "Let old snapshots expire, delete what expired before.")
    command.set_defaults(question="Let snapshots of {table} expire?")
    command.add_argument("--retain", type=int, metavar="N", help="so many of the newest snapshots stay")
    _add_moment(command, "snapshots from then on stay")
    command.add_argument("--grace", dest="grace_s", type=float, metavar="S", help="instead of delete_grace_s")
    return parser


def _command(commands: Any, name: str, work: Callable[..., Any], about: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    command.set_defaults(work=work, question=None)
    command.add_argument("warehouse", metavar="WAREHOUSE", help="s3://bucket/warehouse, or a path")
    command.add_argument("table", metavar="DATABASE.TABLE")
    command.add_argument(
        "--master", help="of Spark: local[4], spark://…, sc://…; else all cores of this machine"
    )
    command.add_argument("--memory", default="2g", help="of the driver of a local session (%(default)s)")
    command.add_argument("--dry-run", action="store_true", help="change nothing, say what would be done")
    command.add_argument("--yes", "-y", action="store_true", help="do not ask before deleting")
    command.add_argument("--json", action="store_true", help="print JSON")
    pair: dict[str, Any] = {"type": _pair, "action": "append", "default": [], "metavar": "NAME=VALUE"}
    command.add_argument("--option", "-o", help="storage option for fsspec; AWS_… and s3.… work too", **pair)
    command.add_argument("--setting", help="such as table.compaction_memory_bytes=500000000", **pair)
    command.add_argument("--endpoint-url", help="of an S3-compatible store")
    return command


def _confirm(parser: argparse.ArgumentParser, question: str) -> None:
    """Asks at the terminal; ends the command on anything but yes, and where there is no terminal."""
    if not sys.stdin.isatty():
        parser.error(f"add --yes: there is no terminal to ask on. {question}")
    sys.stderr.write(f"{question} [y/N]: ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        parser.exit(1, "Aborted.\n")


def _add_where(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--where", metavar="SQL", help="only these partitions, such as \"day = '2026-01-31'\""
    )


def _add_moment(command: argparse.ArgumentParser, about: str) -> None:
    words = f"{about}: '2026-01-31 12:00' (UTC), or milliseconds"
    command.add_argument("--older-than", type=_moment, metavar="TIME", help=words)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _moment(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError("write NAME=VALUE (the value is not shown here)")
    return name, value


def _value(text: str) -> object:
    """Parses the text as JSON, such as a number or a truth value; returns all other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _url(text: str) -> str:
    return text if "://" in text else f"file://{Path(text).absolute()}"


# --- session and output ---------------------------------------------------------------


def _session(master: str | None, memory: str) -> SparkSession:
    is_local = master is None or master.startswith("local")
    if is_local and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return session("lakehouse", master=master, memory=memory)
    builder = SparkSession.builder.appName("lakehouse")
    for name, value in NEEDED.items():
        builder = builder.config(name, value)
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    return builder.getOrCreate()


def _progress() -> ProgressCallback | None:
    """Returns a callback that shows progress in one line of the terminal; None where there is none."""
    if not sys.stderr.isatty():
        return None

    def tell(progress: Progress) -> None:
        sys.stderr.write(f"\r\x1b[2K{progress}")

    return tell


if __name__ == "__main__":
    main()
