"""Spark needs Java: the header says when tests of Spark will be skipped, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

_SPARK = Path(__file__).parents[1] / "spark"


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Nothing where Spark runs, or where none of its tests was asked for."""
    asked = [Path(one.partition("::")[0]).resolve() for one in config.args]
    if not any(one == _SPARK or one in _SPARK.parents or _SPARK in one.parents for one in asked):
        return []
    problem = _java_problem()
    return [] if problem is None else [f"tests of Spark are skipped: {problem}"]


@pytest.fixture(scope="session")
def java() -> None:
    """Java as Spark needs it."""
    problem = _java_problem()
    if problem is not None:
        pytest.skip(problem)


def _java_problem() -> str | None:
    # Importing PySpark takes a second, which no other test should wait for.
    from lakehouse.spark.runtime.sessions import java_problem

    return java_problem()
