"""Costs as Prometheus reads them, checked with Prometheus' own parser."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from lakehouse.io.cost import BUCKETS_S, Cost
from lakehouse.io.decorators import InstrumentedStore
from lakehouse.io.prometheus import CONTENT_TYPE, prometheus_text
from lakehouse.testing.stores import memory_store


def _families(stats: dict[str, Cost]) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(prometheus_text(stats))}


def _samples(family: Metric) -> dict[tuple[str, ...], float]:
    return {(s.labels["store"], s.labels["operation"]): s.value for s in family.samples}


def _cost() -> Cost:
    cost = Cost()
    cost.record("get", 0.001, bytes_read=100)
    cost.record("get", 0.0015, bytes_read=50)
    cost.record("get", 99.0, failed=True)
    cost.record("put", 0.03, bytes_written=7)
    return cost


def test_counters_are_totals_by_operation() -> None:
    """Requests, errors and bytes are counters with store and operation as labels."""
    families = _families({"warehouse": _cost()})
    expected = {
        "lakehouse_store_requests": {("warehouse", "get"): 3, ("warehouse", "put"): 1},
        "lakehouse_store_errors": {("warehouse", "get"): 1, ("warehouse", "put"): 0},
        "lakehouse_store_read_bytes": {("warehouse", "get"): 150, ("warehouse", "put"): 0},
        "lakehouse_store_written_bytes": {("warehouse", "get"): 0, ("warehouse", "put"): 7},
    }
    for name, samples in expected.items():
        assert families[name].type == "counter"
        assert families[name].documentation
        assert _samples(families[name]) == samples


def test_latencies_are_a_histogram() -> None:
    """Buckets count all requests up to their bound, bounds included, and the last counts all."""
    family = _families({"warehouse": _cost()})["lakehouse_store_request_seconds"]
    assert family.type == "histogram"
    gets = [s for s in family.samples if s.labels["operation"] == "get"]
    buckets = {float(s.labels["le"]): s.value for s in gets if s.name.endswith("_bucket")}
    assert list(buckets) == [*BUCKETS_S, math.inf]
    assert buckets[0.001] == 1
    assert buckets[0.002] == buckets[10.0] == 2
    assert buckets[math.inf] == 3
    assert [s.value for s in gets if s.name.endswith("_count")] == [3]
    assert [s.value for s in gets if s.name.endswith("_sum")] == [pytest.approx(99.0025)]


def test_stores_stand_side_by_side() -> None:
    """Several stores share the families, each with its label."""
    families = _families({"a": _cost(), "b": _cost()})
    assert set(_samples(families["lakehouse_store_requests"])) == {
        (store, operation) for store in "ab" for operation in ("get", "put")
    }


def test_each_family_is_declared_once() -> None:
    """HELP and TYPE stand once before all samples of their family."""
    lines = prometheus_text({"a": _cost(), "b": _cost()}).splitlines()
    for word in ("HELP", "TYPE"):
        named = [line.split()[2] for line in lines if line.startswith(f"# {word}")]
        assert len(named) == len(set(named)) == 5
    current = ""
    for line in lines:
        current = line.split()[2] if line.startswith("#") else current
        assert line.startswith(("#", current))


@pytest.mark.parametrize("stats", [{}, {"idle": Cost()}], ids=["no store", "no request"])
def test_without_requests_there_are_no_samples(stats: dict[str, Cost]) -> None:
    """Of nothing, the page declares the families and counts nothing."""
    families = _families(stats)
    assert len(families) == 5
    assert all(not family.samples for family in families.values())


@given(
    label=st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
)
def test_any_label_comes_back(label: str) -> None:
    """Quotes, backslashes and line ends in a label are escaped."""
    samples = _samples(_families({label: _cost()})["lakehouse_store_errors"])
    assert set(samples) == {(label, "get"), (label, "put")}


async def test_what_a_store_counted_is_shown() -> None:
    """The stats of an instrumented store go in as they are."""
    store = InstrumentedStore(memory_store())
    await store.put("a", b"x")
    await store.get("a")
    families = _families({store.url: store.stats})
    assert _samples(families["lakehouse_store_requests"]) == {
        (store.url, "put"): 1,
        (store.url, "get"): 1,
    }


def test_the_page_says_what_it_is() -> None:
    """The content type is that of the text format, and the page ends with a line end."""
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert prometheus_text({}).endswith("\n")
