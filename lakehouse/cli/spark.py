"""``lakehouse spark …``: maintenance by Spark's executors, for tables that are too large for one machine.

Invariant: Spark is loaded when a command of the group runs, and the words mean what they mean to
``lakehouse/spark/submit.py``, which parses them.
"""

from __future__ import annotations

import typer

from lakehouse._version import install_command
from lakehouse.errors import InvalidInputError

__all__ = ["spark"]


def spark(context: typer.Context) -> None:
    """Maintenance by Spark: compact, rewrite, rebuild-indexes, remove-orphans, verify, expire."""
    try:
        from lakehouse.spark.submit import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise InvalidInputError(
            f"this needs Spark: {install_command('spark')}", kind="missing-extra"
        ) from error
    code = run(context.args)
    if code:
        raise typer.Exit(code)
