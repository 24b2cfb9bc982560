"""SSTables: writing and decoding them, point reads from a bucket, and what the size of blocks does.

Rows have an int64 key and three columns: int64, double, short text. Encoding and decoding use one
core. Point reads follow one another, each of a key in another block: cold = the file's metadata is
known and no block, warm = all blocks are cached. The floor is one GET of the same block by bare
s3fs; SlateDB holds the same keys with values of the same size, in one SST, its metadata read too.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import s3fs

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.slate import Slate
from benchmarks.tables import pivot, ratio_text, seconds_text
from lakehouse.cache import CacheBudget
from lakehouse.config import IoSettings
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import FileEntry, FileFormat
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive, StringType
from lakehouse.format.sstable.frame import CODECS
from lakehouse.format.sstable.reader import SstableFile, decode_sstable
from lakehouse.format.sstable.writer import SstableOptions, encode_sstable
from lakehouse.io import ObjectStore, map_bounded, open_store
from lakehouse.storage.files.sstable import SstableRun, open_sstable
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "SSTables"

_LAKEHOUSE, _FAST, _S3FS, _SLATEDB = "lakehouse", "lakehouse[fast]", "s3fs GET", "SlateDB"
_BLOCKS_KIB = (4, 16, 64)
_DEFAULT_KIB = 16
_SCHEMA = TableSchema(
    fields=(
        Field(id=1, name="id", type=Primitive("int64"), required=True),
        Field(id=2, name="amount", type=Primitive("int64")),
        Field(id=3, name="price", type=Primitive("double")),
        Field(id=4, name="note", type=StringType()),
    ),
    primary_key=("id",),
    highest_field_id=4,
)
_VALUE_BYTES = 24
_SEED = 31
_SCANS_AT_ONCE = 4


async def run(plan: Plan) -> Report:
    """Encodes, decodes, reads rows and scans."""
    rows = _rows(plan.pick(quick=100_000, default=1_000_000, full=4_000_000))
    results = await _codecs(plan, rows)
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        for kib in _BLOCKS_KIB:
            results += await _on_the_store(plan, rows, kib, server, bucket)
    return Report(
        name="sstable",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            f"{rows.num_rows:,} rows, {rows.nbytes / rows.num_rows:.0f} bytes each in Arrow.",
            "A point read of ours gives a typed Arrow row, SlateDB's gives bytes.",
            "Client and store share the machine.",
        ),
        facts={"object_store": server.note},
    )


def _rows(count: int) -> pa.Table:
    random_ = np.random.default_rng(_SEED)
    notes = np.char.add("note ", random_.integers(0, 1000, count).astype(str))
    return pa.table(
        {
            "id": np.arange(count) * 3,
            "amount": random_.integers(0, 1 << 40, count),
            "price": random_.normal(size=count),
            "note": pa.array(notes),
        }
    ).cast(_SCHEMA.arrow())


async def _codecs(plan: Plan, rows: pa.Table) -> list[Result]:
    """Encoding and decoding by codec and by block size."""
    results: list[Result] = []
    for codec, kib in [*((codec, _DEFAULT_KIB) for codec in CODECS), ("lz4", 4), ("lz4", 64)]:
        say(f"sstable: {codec}, blocks of {kib} KiB")
        options = SstableOptions(codec=codec, block_bytes=kib * 1024)
        data = encode_sstable(rows, _SCHEMA, options)
        assert decode_sstable(data).equals(rows)
        works = {
            "encode": lambda options=options: encode_sstable(rows, _SCHEMA, options),
            "decode": lambda data=data: decode_sstable(data),
            "decode one column": lambda data=data: _decode_one(data),
        }
        for what, work in works.items():
            results += await compare(
                [Case(side=_LAKEHOUSE, run=work)],
                work=rows.num_rows,
                unit="rows",
                params={"what": what, "codec": codec, "block_kib": kib, "bytes_per_row": _each(data, rows)},
                warmup=plan.warmup,
                repeats=plan.repeats,
            )
    return results


def _each(data: bytes, rows: pa.Table) -> float:
    return round(len(data) / rows.num_rows, 2)


def _decode_one(data: bytes) -> pa.Table:
    file = SstableFile.parse(data, len(data))
    assert isinstance(file, SstableFile)
    blocks = range(len(file.index.raw))
    contents = [file.content(block, data[slice(*file.block_range(block))]) for block in blocks]
    return file.rows(blocks, contents, file.columns({3}))


@dataclass(slots=True)
class _Ours:
    """One way of ours to the file."""

    name: str
    store: ObjectStore
    entry: FileEntry
    keys: Sequence[bytes]
    caches: RunCaches = field(default_factory=lambda: RunCaches(CacheBudget()))
    run: SstableRun | None = None

    async def forget(self) -> None:
        """Keeps the file's metadata and nothing else."""
        self.caches = RunCaches(CacheBudget())
        self.run = await open_sstable(self.store, "", self.entry, _SCHEMA, self.caches)
        await self.run.get(self.keys[0] + b"absent", _SCHEMA.fields)

    async def read(self) -> None:
        """Every key, one after the other."""
        assert self.run is not None
        for key in self.keys:
            assert (await self.run.get(key, _SCHEMA.fields)).num_rows == 1

    async def miss(self) -> None:
        """As many keys that are not there."""
        assert self.run is not None
        for key in self.keys:
            await self.run.get(key + b"\x00", _SCHEMA.fields)

    async def scan(self) -> None:
        """All rows, piece by piece."""
        run = self.run
        assert run is not None

        async def piece(number: int) -> int:
            rows: int = (await run.read(_SCHEMA.fields, [number])).num_rows
            return rows

        pieces = map_bounded(piece, range(len(run.pieces)), _SCANS_AT_ONCE)
        assert sum([rows async for rows in pieces]) == self.entry.rows


async def _read_from(slate: Slate, keys: Sequence[bytes]) -> None:
    for key in keys:
        await slate.get(key)


async def _on_the_store(
    plan: Plan, rows: pa.Table, kib: int, server: ServerInfo, bucket: str
) -> list[Result]:
    """Point reads and scans of one file with blocks of one size."""
    say(f"sstable: blocks of {kib} KiB on the store")
    every = RowKeyCodec(_SCHEMA.key_fields).encode([rows.column("id")]).to_pylist()
    data = encode_sstable(rows, _SCHEMA, SstableOptions(block_bytes=kib * 1024))
    entry = FileEntry(
        path=f"{kib}.sst",
        size=len(data),
        rows=rows.num_rows,
        min_key=every[0],
        max_key=every[-1],
        format=FileFormat.SSTABLE,
    )
    file = SstableFile.parse(data, len(data))
    assert isinstance(file, SstableFile)
    times = min(plan.pick(quick=50, default=100, full=300), len(file.index.raw))
    keys = [every[(2 * at + 1) * len(every) // (2 * times)] for at in range(times)]
    random.Random(_SEED).shuffle(keys)
    ranges = [file.block_range(file.block_of(key) or 0) for key in keys]
    async with _sides(server, bucket) as (stores, fs):
        await stores[_LAKEHOUSE].put(entry.path, data)
        ours = [_Ours(name, store, entry, keys) for name, store in stores.items()]

        async def bare() -> None:
            for start, end in ranges:
                await fs._cat_file(f"{bucket}/{entry.path}", start=start, end=end)

        cold = [Case(side=one.name, run=one.read, before=one.forget) for one in ours]
        cold.append(Case(side=_S3FS, run=bare))
        warm = [Case(side=one.name, run=one.read) for one in ours[:1]]
        slate = None
        if kib == _DEFAULT_KIB:
            slate = Slate(server, bucket)
            await slate.fill(every, b"v" * _VALUE_BYTES)
            read = functools.partial(_read_from, slate, keys)
            forget = functools.partial(slate.reopen, keys[0] + b"absent")
            cold.append(Case(side=_SLATEDB, run=read, before=forget))
            warm.append(Case(side=_SLATEDB, run=read))
        absent = [Case(side=one.name, run=one.miss) for one in ours[:1]]
        scans = [Case(side=one.name, run=one.scan) for one in ours]
        results: list[Result] = []
        for what, cases, work, unit in (
            ("get cold", cold, times, "reads"),
            ("get warm", warm, times, "reads"),
            ("get absent", absent, times, "reads"),
            ("scan", scans, rows.num_rows, "rows"),
        ):
            results += await compare(
                cases,
                work=work,
                unit=unit,
                params={"what": what, "block_kib": kib},
                warmup=plan.warmup,
                repeats=plan.pick(quick=3, default=7, full=15),
            )
        if slate is not None:
            await slate.close()
    return results


@contextlib.asynccontextmanager
async def _sides(
    server: ServerInfo, bucket: str
) -> AsyncIterator[tuple[dict[str, ObjectStore], s3fs.S3FileSystem]]:
    """Our two stores and a bare s3fs over one bucket."""
    options: dict[str, Any] = {**server.storage_options, "endpoint_url": server.endpoint_url}
    fs = s3fs.S3FileSystem(asynchronous=True, skip_instance_cache=True, **options)
    async with contextlib.AsyncExitStack() as stack:
        session = await fs.set_session()
        stack.push_async_callback(session.close)
        stores = {}
        for name, fast_reads in ((_LAKEHOUSE, "off"), (_FAST, "require")):
            settings = IoSettings(fast_reads=fast_reads)
            store = open_store(f"s3://{bucket}", storage_options=options, settings=settings)
            stores[name] = await stack.enter_async_context(store)
        yield stores, fs


def goals(report: Report) -> list[Goal]:
    """Rows per second of a core, and point reads next to a bare GET and to SlateDB."""
    found = []
    for what, least in (("encode", 1e6), ("decode", 3e6)):
        rate = 1 / report.one(what=what, codec="lz4", block_kib=_DEFAULT_KIB).cpu_per_unit
        found.append(
            Goal(
                text=f"{what}, million rows per second of CPU",
                target=f"≥ {least / 1e6:g}",
                measured=f"{rate / 1e6:.1f}",
                met=rate >= least,
            )
        )
    for what, most in (("get cold", 1), ("get absent", 0)):
        result = report.one(what=what, block_kib=_DEFAULT_KIB, side=_LAKEHOUSE)
        requests = sum(result.requests.values()) / result.work
        found.append(
            Goal(
                text=f"requests of a {what}", target=f"{most}", measured=f"{requests:g}", met=requests <= most
            )
        )
    cold, warm = ({"what": what, "block_kib": _DEFAULT_KIB} for what in ("get cold", "get warm"))
    for text, most, params, side, peer in (
        ("get cold ÷ one bare GET by s3fs", 1.2, cold, _LAKEHOUSE, _S3FS),
        ("get cold with [fast] ÷ SlateDB's", 1.5, cold, _FAST, _SLATEDB),
        ("get warm ÷ SlateDB's", 0.5, warm, _LAKEHOUSE, _SLATEDB),
    ):
        peers = report.where(side=peer, **params)
        if peers:
            spread = ratio(peers[0], report.one(side=side, **params))
            found.append(
                Goal(text=text, target=f"≤ {most}", measured=ratio_text(spread), met=spread.median <= most)
            )
    return found


def tables(report: Report) -> list[Table]:
    """Codecs, sizes of blocks, point reads."""
    local = [one for one in report.results if "codec" in one.params]
    store = [one for one in report.results if "codec" not in one.params]
    return [
        pivot(
            [one for one in local if one.params["block_kib"] == _DEFAULT_KIB],
            title=f"Blocks of {_DEFAULT_KIB} KiB: million rows per second of CPU",
            rows="what",
            columns="codec",
            cell=_rate,
        ),
        pivot(
            [one for one in local if one.params["codec"] == "lz4"],
            title="LZ4: million rows per second of CPU",
            rows="what",
            columns="block_kib",
            cell=_rate,
        ),
        pivot(
            [one for one in local if one.params["what"] == "encode"],
            title="Bytes of the file per row",
            rows="codec",
            columns="block_kib",
            cell=lambda one: f"{one.params['bytes_per_row']}",
        ),
        *(
            pivot(
                [one for one in store if one.params["what"] == what],
                title=f"{what.capitalize()}: time of one",
                rows="side",
                columns="block_kib",
                cell=_one,
            )
            for what in ("get cold", "get warm", "get absent")
        ),
        pivot(
            [one for one in store if one.params["what"] == "scan"],
            title="Scan by pieces: million rows per second",
            rows="side",
            columns="block_kib",
            cell=lambda one: f"{one.rate / 1e6:.2f}",
        ),
    ]


def _rate(result: Result) -> str:
    return f"{1e-6 / result.cpu_per_unit:.2f}"


def _one(result: Result) -> str:
    return f"{seconds_text(result.wall.median / result.work)} (CPU {seconds_text(result.cpu_per_unit)})"
