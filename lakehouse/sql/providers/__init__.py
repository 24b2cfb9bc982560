"""Providers of rows that DuckDB pulls as Arrow, and the sources by which it asks them.

Words: a *provider* has the rows of one reference and says which conditions it applies. DuckDB registers a
*source*, asks it for columns and *pushed* conditions, and pulls rows that were read *ahead*. A *planning*
source has no rows and records what a statement *needs* of a reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sql.providers.dataset import arrow_dataset
    from lakehouse.sql.providers.declared import select_list
    from lakehouse.sql.providers.memory import ArrowProvider
    from lakehouse.sql.providers.planning import PlanningSource, ScanNeeds, needs_of
    from lakehouse.sql.providers.provider import TableProvider
    from lakehouse.sql.providers.pushed_filters import to_expr
    from lakehouse.sql.providers.source import arrow_source

__all__ = [
    "ArrowProvider", "PlanningSource", "ScanNeeds", "TableProvider", "arrow_dataset",
    "arrow_source", "needs_of", "select_list", "to_expr",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "dataset": "arrow_dataset",
        "memory": "ArrowProvider",
        "source": "arrow_source",
        "planning": "PlanningSource ScanNeeds needs_of",
        "provider": "TableProvider",
        "pushed_filters": "to_expr",
        "declared": "select_list",
    },
)
