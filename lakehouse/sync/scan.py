"""TableScan without await: the twin of :mod:`lakehouse.storage.scan.table_scan`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/storage/scan/table_scan.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakehouse.storage.scan import TableScan as AsyncTableScan
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.row_forms import RowForms

__all__ = ["TableScan"]


class TableScan(RowForms):
    """The rows of a table that match a condition, as of one snapshot.

    Nothing is read before rows are asked for. Made by ``Table.scan``.

    Example::

        scan = table.scan(where="amount > 10", columns=["id", "amount"])
        for batch in scan.batches():
            print(batch.num_rows)
        print(scan.report)
    """

    _wrapped: AsyncTableScan

    def __init__(self, wrapped: AsyncTableScan, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def aggregate(
        self, wanted: Mapping[str, str | tuple[str, str]], *, group_by: Sequence[str] | str = ()
    ) -> pa.Table:
        """Counts, least and greatest values; files whose statistics hold the answer are not read.

        Args:
            wanted: by name ``"count"``, ``("count", column)`` (values that are not null),
                ``("min", column)`` or ``("max", column)``. NaN is above every number.
            group_by: partition columns; a row for each combination that has rows.

        Example::

            table.scan("id > 10").aggregate({"rows": "count", "most": ("max", "amount")})
        """
        return self._bridge.call(self._wrapped.aggregate, wanted, group_by=group_by)
