"""LakeQueries without await: the twin of :mod:`lakehouse.lake.queries`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/queries.py: edit that file, then run `make docs`.

from __future__ import annotations

from lakehouse.catalog.pins import Moment
from lakehouse.lake.queries import LakeQueries as AsyncLakeQueries
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.query import Query

__all__ = ["LakeQueries"]


class LakeQueries:
    """Base of ``Lake`` with its methods for queries."""

    def __init__(self, wrapped: AsyncLakeQueries, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def query(self, as_of: Moment | None = None, lifetime_s: float | None = None) -> Query:
        """A query: one state of every table that is read in it, whatever is committed meanwhile.

        Its first read of a table decides which snapshot. While it lives, what it reads is not deleted under
        it; one that is shorter than half of a table's ``delete_grace_s`` writes nothing for that.

        Args:
            as_of: moment that all tables are read as of: a datetime, ISO text, or milliseconds; None = each
                as it is when it is first read.
            lifetime_s: seconds that it lives, unless it is renewed; None = the setting
                ``catalog.query_lifetime_s``.

        Example::

            with lake.query() as query:
                orders = query.scan("sales.orders", "amount > 10").to_arrow()
                row = query.get("sales.orders", {"id": 7})  # of the same snapshot
        """
        return Query(self._wrapped.query(as_of, lifetime_s), self._bridge)

    def join_query(self, number: str) -> Query:
        """A query that another process has shared: its pins, until its lifetime is over.

        Args:
            number: id that its ``share()`` returned.

        Raises:
            NotFoundError: on entering: nobody shared it, or not for this account.
            InvalidInputError: on entering: it is over.
            CorruptionError: on entering: its object is damaged.
        """
        return Query(self._wrapped.join_query(number), self._bridge)
