"""Bloom indexes: values built into blobs, values looked up, and metadata decoded, per second of CPU.

Everything here is computation on one core, so rates are taken over CPU time. Metadata is what
an enumeration decodes for every file: the puffin footer and the tail of a bloom blob. Its peer
is Google's protobuf (upb, in C), which has to hand the same numbers over as arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from benchmarks.model import Goal, Report, Result, Table
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, seconds_text
from lakehouse.format.index.bloom import BloomMeta, probe, segments_that_may_hold
from lakehouse.format.index.bloom_builder import build_bloom
from lakehouse.format.index.greptime_value import encode_array
from lakehouse.format.puffin.builder import PuffinBuilder
from lakehouse.format.puffin.footer import PuffinFooter

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Bloom indexes: build, probe, metadata"

_OURS = "lakehouse"
_PEER = "protobuf (upb)"
_RATE = 0.01
_SEGMENT_ROWS = 10_240
_BUILD_GOAL = 1e6
_PROBE_GOAL = 1e6
_DECODE_GOAL_S = 100e-6
_SEED = 17


async def run(plan: Plan) -> Report:
    """Builds, probes and decodes."""
    rows = plan.pick(quick=1 << 17, default=1 << 20, full=1 << 22)
    columns = _columns(rows)
    results: list[Result] = []
    for name, column in columns.items():
        for segment_rows in plan.pick(
            quick=(_SEGMENT_ROWS,), default=(128, _SEGMENT_ROWS), full=(4, 128, 1024, _SEGMENT_ROWS)
        ):
            say(f"index_bloom: build {name}, {segment_rows} rows a segment")
            results += await _build(plan, name, column, segment_rows)
    results += await _probes(plan, encode_array(columns["int64"]))
    for segments in plan.pick(quick=(10,), default=(1, 10, 1000), full=(1, 10, 100, 1000, 10_000)):
        say(f"index_bloom: metadata of {segments} segments")
        results += await _metadata(plan, segments)
    return Report(
        name="index_bloom",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            f"{rows:,} values a column, false positive rate {_RATE}; building includes encoding.",
            "A lookup is one value against one filter.",
            "Metadata: footer JSON, protobuf and all checks; the peer has no footer and checks nothing.",
        ),
    )


def _columns(rows: int) -> dict[str, pa.Array]:
    random = np.random.default_rng(_SEED)
    hosts = pa.array([f"host-{number:04}" for number in range(1000)])
    return {
        "int64": pa.array(random.integers(0, 1 << 62, rows)),
        "short strings": pa.array([f"host-{number:04}" for number in random.permutation(rows).tolist()]),
        "1,000 hosts": hosts.take(pa.array(random.integers(0, 1000, rows))),
    }


async def _build(plan: Plan, name: str, column: pa.Array, segment_rows: int) -> list[Result]:
    return await compare(
        [Case(side=_OURS, run=lambda: build_bloom(encode_array(column), segment_rows, _RATE))],
        work=len(column),
        unit="values",
        params={"what": "build", "column": name, "rows_per_segment": segment_rows},
        warmup=plan.warmup,
        repeats=plan.repeats,
    )


async def _probes(plan: Plan, values: pa.Array) -> list[Result]:
    say("index_bloom: probe")
    blob = build_bloom(values, _SEGMENT_ROWS, _RATE)
    meta = BloomMeta.from_tail(blob, len(blob))
    assert isinstance(meta, BloomMeta)
    one, count = blob[: int(meta.sizes[0])], int(meta.element_counts[0])
    many, few = values[:100_000], values[:100]
    cases: list[tuple[str, int, Callable[[], Any]]] = [
        ("many values, one filter", len(many), lambda: probe(one, count, many)),
        (
            "100 values, all filters",
            len(few) * len(meta.sizes),
            lambda: segments_that_may_hold(meta, blob, few),
        ),
    ]
    results: list[Result] = []
    for name, lookups, search in cases:
        results += await compare(
            [Case(side=_OURS, run=search)],
            work=lookups,
            unit="lookups",
            params={"what": "probe", "column": name},
            warmup=plan.warmup,
            repeats=plan.repeats,
        )
    return results


async def _metadata(plan: Plan, segments: int) -> list[Result]:
    file = _file(segments)
    footer = PuffinFooter.parse(file, len(file))
    assert isinstance(footer, PuffinFooter)
    blob = footer.blobs[0]
    tail = file[blob.offset : blob.end][-(1 << 20) :]
    message = tail[-4 - int.from_bytes(tail[-4:], "little") : -4]
    google = _google_type()
    times = plan.pick(
        quick=50, default=max(5, 20_000 // (segments + 20)), full=max(5, 60_000 // (segments + 20))
    )

    def ours() -> None:
        for _ in range(times):
            PuffinFooter.parse(file[-4096:], len(file))
            BloomMeta.from_tail(tail, blob.length)

    def theirs() -> None:
        for _ in range(times):
            meta = google.FromString(message)
            np.array(meta.segment_loc_indices, np.uint64)
            np.array([(loc.offset, loc.size, loc.element_count) for loc in meta.bloom_filter_locs], np.uint64)

    return await compare(
        [Case(side=_OURS, run=ours), Case(side=_PEER, run=theirs)],
        work=times,
        unit="files",
        params={"what": "metadata", "segments": segments},
        warmup=plan.warmup,
        repeats=plan.repeats,
    )


def _file(segments: int) -> bytes:
    """A puffin file with one bloom blob of so many small filters."""
    rows = pa.array([b"%d" % number for number in range(2 * segments)])
    builder = PuffinBuilder()
    chunks = builder.add("greptime-bloom-filter-v1-1", build_bloom(rows, 2, _RATE))
    return b"".join(chunks) + builder.finish()


def _google_type() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="bloom.proto", package="bench", syntax="proto3")
    loc = file.message_type.add(name="BloomFilterLoc")
    for number, name in enumerate(("offset", "size", "element_count"), start=1):
        loc.field.add(name=name, number=number, label=1, type=4)
    meta = file.message_type.add(name="BloomFilterMeta")
    names = ("rows_per_segment", "segment_count", "row_count", "bloom_filter_size")
    for number, name in enumerate(names, start=1):
        meta.field.add(name=name, number=number, label=1, type=4)
    meta.field.add(name="segment_loc_indices", number=5, label=3, type=4)
    meta.field.add(name="bloom_filter_locs", number=6, label=3, type=11, type_name=".bench.BloomFilterLoc")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.BloomFilterMeta"))


def goals(report: Report) -> list[Goal]:
    """A million values a second built and looked up, and 100 µs for the metadata of a usual file."""
    found = [
        _rate_goal(report.where(what="build", rows_per_segment=_SEGMENT_ROWS), "built values/s", _BUILD_GOAL),
        _rate_goal(report.where(what="probe"), "lookups/s", _PROBE_GOAL),
    ]
    usual = report.one(what="metadata", side=_OURS, segments=10)
    found.append(
        Goal(
            text="metadata of a file with one bloom index of 10 segments",
            target=f"≤ {seconds_text(_DECODE_GOAL_S)}",
            measured=seconds_text(usual.cpu_per_unit),
            met=usual.cpu_per_unit <= _DECODE_GOAL_S,
        )
    )
    return found


def _rate_goal(results: list[Result], text: str, target: float) -> Goal:
    worst = min(results, key=lambda r: 1 / r.cpu_per_unit)
    measured = 1 / worst.cpu_per_unit
    return Goal(
        text=f"{text} (worst: {worst.params['column']})",
        target=f"≥ {target:,.0f}",
        measured=f"{measured:,.0f}",
        met=measured >= target,
    )


def tables(report: Report) -> list[Table]:
    """Building by column and segment size, probing, and metadata next to its peer."""
    return [
        pivot(
            report.where(what="build"),
            title="Build: million values per second of CPU",
            rows="column",
            columns="rows_per_segment",
            cell=lambda r: f"{1e-6 / r.cpu_per_unit:.2f}",
        ),
        pivot(
            report.where(what="probe"),
            title="Probe: million lookups per second of CPU",
            rows="column",
            columns="side",
            cell=lambda r: f"{1e-6 / r.cpu_per_unit:.2f}",
        ),
        pivot(
            report.where(what="metadata"),
            title="Metadata: CPU per file",
            rows="segments",
            columns="side",
            cell=lambda r: seconds_text(r.cpu_per_unit),
        ),
    ]
