"""Prometheus' text format of the work of stores: counters and latencies by store and operation.

The totals only grow while the process lives, as counters must; buckets are cumulative and
end with ``+Inf``, as Prometheus wants them. Needs no library: the format is text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter

from lakehouse.io.cost import BUCKETS_S, Cost, OperationCost

__all__ = ["CONTENT_TYPE", "escaped", "head", "prometheus_text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of an HTTP answer that carries the text."""

_COUNTERS: tuple[tuple[str, str, Callable[[OperationCost], int]], ...] = (
    ("lakehouse_store_requests_total", "Requests made, failed ones included.", attrgetter("requests")),
    ("lakehouse_store_errors_total", "Requests that failed.", attrgetter("errors")),
    ("lakehouse_store_read_bytes_total", "Payload bytes received.", attrgetter("bytes_read")),
    ("lakehouse_store_written_bytes_total", "Payload bytes sent.", attrgetter("bytes_written")),
)
_SECONDS = "lakehouse_store_request_seconds"
_BOUNDS = (*(f"{bound:g}" for bound in BUCKETS_S), "+Inf")


def prometheus_text(stats: Mapping[str, Cost]) -> str:
    """The totals of several stores as one page; the key of each is its ``store`` label.

    Example::

        layer = find_layer(store, InstrumentedStore)
        page = prometheus_text({"warehouse": layer.stats})
    """
    rows = [
        (f'store="{escaped(store)}",operation="{escaped(operation)}"', entry)
        for store, cost in stats.items()
        for operation, entry in cost.operations.items()
    ]
    lines: list[str] = []
    for name, text, value in _COUNTERS:
        lines += head(name, "counter", text)
        lines += [f"{name}{{{labels}}} {value(entry)}" for labels, entry in rows]
    lines += head(_SECONDS, "histogram", "Time of one request, without waiting for a slot.")
    for labels, entry in rows:
        lines += _histogram(labels, entry)
    return "\n".join(lines) + "\n"


def head(name: str, kind: str, text: str) -> tuple[str, str]:
    """Returns the two lines that introduce a metric."""
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _histogram(labels: str, entry: OperationCost) -> Iterator[str]:
    for bound, count in zip(_BOUNDS, itertools.accumulate(entry.buckets), strict=True):
        yield f'{_SECONDS}_bucket{{{labels},le="{bound}"}} {count}'
    yield f"{_SECONDS}_sum{{{labels}}} {entry.seconds!r}"
    yield f"{_SECONDS}_count{{{labels}}} {entry.requests}"


def escaped(value: str) -> str:
    """Returns text as it stands between the quotes of a label."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
