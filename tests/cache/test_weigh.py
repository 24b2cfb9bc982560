"""Weights against what the process really allocates."""

from __future__ import annotations

import enum
import gc
import tracemalloc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.cache import CacheSpec, allocated, weigh
from tests.kit.loaders import budget_of


@dataclass(frozen=True, slots=True)
class _Slotted:
    path: str
    size: int
    parts: tuple[Any, ...]


class _Plain:
    def __init__(self, number: int) -> None:
        self.name = f"name-{number}"
        self.values = [number * 1_000, number * 2_000]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: b"%050d" % n, id="short bytes"),
        pytest.param(lambda n: bytes(4_096) + b"%d" % n, id="long bytes"),
        pytest.param(lambda n: f"größer {n}", id="text"),
        pytest.param(lambda n: (f"a{n}", n * 1_000, None, True), id="tuple"),
        pytest.param(lambda n: [n * 1_000 + i for i in range(20)], id="list"),
        pytest.param(lambda n: {f"key-{n}-{i}": n * 1_000 + i for i in range(8)}, id="dict"),
        pytest.param(lambda n: {n * 1_000 + i for i in range(8)}, id="set"),
        pytest.param(lambda n: _Slotted(f"path/{n}", n * 1_000, (f"x{n}", 1.5 * n)), id="slotted"),
        pytest.param(_Plain, id="plain object"),
        pytest.param(lambda n: np.full(100, n), id="array"),
        pytest.param(lambda n: np.full(100, n)[:3], id="view"),
        pytest.param(lambda n: memoryview(bytes(1_000) + b"%d" % n)[:4], id="memoryview"),
        pytest.param(lambda n: deque([f"{n}", f"{n}{n}"], 10), id="deque"),
    ],
)
def test_a_weight_is_what_is_allocated(make: Callable[[int], Any]) -> None:
    """Weights are no lower than what 2,000 values allocate, and not a quarter and 200 bytes above."""
    make(0)
    kept: list[Any] = [None] * 2_000
    gc.collect()
    tracemalloc.start()
    try:
        for n in range(2_000):
            kept[n] = make(n + 300)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    measured, weighed = grown / 2_000, sum(map(weigh, kept)) / 2_000
    assert 0.98 * measured <= weighed <= 1.25 * measured + 200


def test_shared_parts_count_once() -> None:
    """An object that a value refers to twice is in memory once."""
    part = bytes(10_000)
    assert weigh([part, part]) < weigh([part]) + 100


def test_cycles_end() -> None:
    """A value that refers to itself has a weight."""
    loop: list[Any] = [1]
    loop.append(loop)
    assert weigh(loop) < 500


def test_code_weighs_nothing() -> None:
    """Classes, functions, modules and enum members belong to the program."""

    class Color(enum.Enum):
        RED = "red" * 1_000

    assert weigh([Color.RED, Color, len, enum, weigh, None, True]) == weigh([0] * 7) - weigh(0)


def test_arrow_values_weigh_their_whole_buffers() -> None:
    """A slice keeps the buffers of the table it was cut from."""
    table = pa.table({"a": np.arange(10_000), "b": np.arange(10_000)})
    assert table.nbytes <= weigh(table.slice(5, 1)) <= table.nbytes + 5_000
    assert weigh(table.to_batches()[0]) >= table.nbytes
    assert weigh(table["a"]) >= table["a"].nbytes
    assert weigh(table["a"].chunk(0)) >= table["a"].nbytes


def test_small_arrow_values_weigh_their_objects() -> None:
    """A table of few rows is mostly C++ objects, some 900 bytes per column and chunk."""
    columns = {f"c{n}": [1] for n in range(20)}
    table = pa.table(columns)
    assert 15_000 < weigh(table) < 25_000
    assert weigh(pa.concat_tables([table] * 3)) > 2 * weigh(table)
    assert weigh(table.schema) > 20 * 200
    nested = pa.array([{"a": 1, "b": [2]}])
    assert weigh(nested) > 3 * weigh(pa.array([1])) - 500


def test_arrow_buffers_weigh_what_they_were_cut_from() -> None:
    """A slice of a buffer keeps the buffer."""
    buffer = pa.py_buffer(bytes(100_000))
    assert weigh(buffer.slice(0, 10)) >= 100_000
    assert weigh(pa.scalar(5)) < 1_000


def test_objects_in_arrays_count() -> None:
    """An array of Python objects weighs them too."""
    words = np.array(["x" * 1_000 + str(n) for n in range(10)], dtype=object)
    assert weigh(words) > 10_000


def test_large_allocations_carry_an_allowance() -> None:
    """Small objects round up to 16 bytes; of larger ones malloc cannot use all room between."""
    assert [allocated(size) for size in (1, 16, 17, 512)] == [16, 16, 32, 512]
    assert allocated(80_000) == 90_000


@pytest.mark.parametrize("spec", [CacheSpec(name="plain"), CacheSpec(name="timed", expire_after_write_s=9)])
def test_an_entry_weighs_key_value_and_bookkeeping(spec: CacheSpec) -> None:
    """What a cache of many small values allocates is close to the weight it reports."""
    region = budget_of(1 << 30).region(spec)
    for n in range(100):
        region.put((f"warm-{n}",), b"")
    region.invalidate_all()
    gc.collect()
    tracemalloc.start()
    try:
        for n in range(8_000):
            region.put((f"table-{n % 50}", f"file-{n}"), b"%040d" % n)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.75 * region.weight < grown < 1.05 * region.weight


def test_labels_are_weighed() -> None:
    """Indexes by tag and prefix are part of the weight, and leave with their entries."""
    plain = budget_of().region(CacheSpec(name="a"))
    indexed = budget_of().region(CacheSpec(name="a", prefix_length=1))
    for region in (plain, indexed):
        for n in range(100):
            region.put((n % 10, n), 1, tags=[n % 5] if region is indexed else [])
    assert indexed.weight > plain.weight + 100 * 2 * 50
    indexed.invalidate_all()
    assert indexed.weight == 0


def test_an_index_weighs_what_it_allocates() -> None:
    """Few labels of many keys and many labels of few keys both cost what the weight says."""
    for labels in (10, 8_000):
        region = budget_of(1 << 30).region(CacheSpec(name="a", prefix_length=1))
        gc.collect()
        tracemalloc.start()
        try:
            for n in range(8_000):
                region.put((f"prefix-{n % labels}", n), 1)
            grown = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert 0.65 * region.weight < grown < 1.05 * region.weight
