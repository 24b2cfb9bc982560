"""Objects of a table with wrong content and right checksums: what a defect of another writer would leave.

A mutant is one value of one object exchanged, the object's checksum made right again, and those of the
objects that say the checksum of that one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.format.metadata.sealed_json import seal
from lakehouse.format.puffin.lz4_frame import compress_lz4
from lakehouse.format.sstable.frame import BlockType, Footer, open_block, seal_block
from lakehouse.storage.commit import spilled_manifest
from lakehouse.storage.schema.evolution import AddColumn
from lakehouse.testing import memory_store
from tests.kit.worlds import NAME, World, process, saved

__all__ = ["JUNK", "json_places", "kinds", "known_world", "mutated_json", "resealed"]

DEEP: Any = 1
for _ in range(400):
    DEEP = [DEEP]

JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53, 2**63, 10**30, 1.5, 1e308, "", "x", "-1", "00", "ff" * 40),
    *("\U0010ffff", "a\0b", "../../etc", "x" * 20_000, [], {}, [None], [[]], [0, 0], {"a": 1}, DEEP),
    *("9999-12-31", "2000-01-01T00:00:00Z", "array<int>", "decimal(38,38)", "lower(#1)", "1" * 40),
)
"""Values to put in the place of others."""


async def known_world() -> World:
    """A table with an object of every kind: both file formats, indexes, a manifest, a log, tags."""
    store = memory_store()
    schema = pa.schema(
        {
            "id": pa.int64(),
            "part": pa.string(),
            "v": pa.float64(),
            "t": pa.string(),
            "st": pa.struct([("a", pa.int32()), ("l", pa.list_(pa.string()))]),
        }
    )

    def rows(*numbers: int) -> list[dict[str, Any]]:
        return [
            {"id": n, "part": "ab"[n % 2], "v": n / 2, "t": f"word{n} text", "st": {"a": n, "l": ["x"]}}
            for n in numbers
        ]

    def grown(*numbers: int) -> list[dict[str, Any]]:
        return [{**row, "c": 1, "d": None} for row in rows(*numbers)]

    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(
        NAME,
        schema,
        primary_key=["id", "part"],
        partition_by="part",
        options={"index.min_rows": 1, "compaction.auto": "off"},
        indexes={"v": "inverted", "part": "bloom", "t": {"fulltext": {"backend": "bloom"}}},
    )
    own = spilled_manifest._OWN_ENTRIES_MAX
    try:
        spilled_manifest._OWN_ENTRIES_MAX = 1
        await table.append(rows(*range(20)), writer=("w", 1), message="hello")
    finally:
        spilled_manifest._OWN_ENTRIES_MAX = own
    await table.set_option("file.format.level0", "sst")
    await table.upsert(rows(1, 2, 30))
    await table.alter(AddColumn("c", "int", default=3), AddColumn("d", "timestamp", default=None))
    await table.create_tag("here", snapshot=2)
    await table.delete(keys=[{"id": 3, "part": "b"}])
    async with table.writer() as writer:
        await (await writer.put(grown(40, 41)))
        await table.upsert(grown(5))  # covers the segment
        await (await writer.put(grown(50)))
        # A process that ends here has flushed nothing.
        return await saved(store)


def kinds(world: World) -> dict[str, list[str]]:
    """Keys of the world's objects by what they are."""
    found: dict[str, list[str]] = {}
    for key in sorted(world):
        if key.endswith("/LATEST"):
            continue
        name = next(
            (word for word in ("snapshot", "schema", "manifest", "wal", "_tables") if f"/{word}/" in key),
            key.rpartition(".")[2] if "." in key else key.rpartition("/")[2],
        )
        found.setdefault(name, []).append(key)
    return found


def json_places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value of a JSON document, its root aside."""
    steps = enumerate(document) if isinstance(document, list) else document.items()
    for step, value in steps:
        yield (*at, step)
        if isinstance(value, list | dict):
            yield from json_places(value, (*at, step))


def mutated_json(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place; Ellipsis takes the place away."""
    copy = json.loads(json.dumps(document))
    holder = copy
    for step in place[:-1]:
        holder = holder[step]
    if value is ...:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return copy


def plain_json(data: bytes) -> dict[str, Any]:
    """The members of a sealed object without its checksum."""
    found: dict[str, Any] = json.loads(data)
    found.pop("crc32c", None)
    return found


def _with_checksums(world: World, key: str, data: bytes) -> World:
    """The world with another object, and snapshots that say its checksum and size."""
    changed = {**world, key: data}
    for name, snapshot in world.items():
        if "/snapshot/snapshot-" not in name:
            continue
        document = plain_json(snapshot)
        for one in (*document.get("manifests", ()), *document.get("added", ())):
            if key.endswith(one["path"]):
                one["size"] = len(data)
                if "crc32c" in one:
                    one["crc32c"] = f"{google_crc32c.value(data):08x}"
            index = one.get("index")
            if index and key.endswith(index[0]) and len(index) > 4:
                index[1] = len(data)
                footer = struct.unpack("<i", data[-12:-8])[0] + 20
                if 0 < footer <= len(data):
                    index[3], index[4] = footer - 4, f"{google_crc32c.value(data[-(footer - 4) :]):08x}"
        changed[name] = seal(document)
    return changed


Pick = Callable[[int], int]
"""A number from 0 to below another."""


def resealed(world: World, key: str, pick: Pick) -> tuple[World, str]:
    """The world with one value of an object exchanged, and what was done."""
    data = world[key]
    if key.endswith(".puffin"):
        made, what = _puffin(data, pick)
    elif key.endswith(".sst"):
        made, what = _sstable(data, pick)
    elif key.endswith(".parquet"):
        made, what = _parquet(data, pick)
    elif "/manifest/" in key:
        made, what = _manifest(data, pick)
    elif "/wal/" in key:
        made, what = _segment(data, pick)
    else:
        document, what = _one_changed(plain_json(data), pick)
        made = seal(document)
    return _with_checksums(world, key, made), f"{key}: {what}"


def _one_changed(document: Any, pick: Pick) -> tuple[Any, str]:
    places = list(json_places(document))
    place = places[pick(len(places))]
    value = (*JUNK, ...)[pick(len(JUNK) + 1)]
    return mutated_json(document, place, value), f"{place} = {str(value)[:60]!r}"


def _puffin(data: bytes, pick: Pick) -> tuple[bytes, str]:
    (size,) = struct.unpack("<i", data[-12:-8])
    start = len(data) - 12 - size
    if pick(3) == 0:  # a byte of the blobs
        at = 4 + pick(start - 8)
        return data[:at] + bytes([pick(256)]) + data[at + 1 :], f"byte {at}"
    document, what = _one_changed(json.loads(data[start : start + size]), pick)
    payload = json.dumps(document, separators=(",", ":")).encode()
    flags = 0
    if pick(4) == 0:
        payload, flags = compress_lz4(payload, finished=False), 1
    return data[:start] + payload + struct.pack("<iI", len(payload), flags) + data[-4:], what


def _sstable(data: bytes, pick: Pick) -> tuple[bytes, str]:
    """Another meta block, or another word in the index block or in a data block, with right checksums."""
    footer = Footer.unpack(data[-Footer.ENCODED_SIZE :], offset=len(data) - Footer.ENCODED_SIZE)
    index = open_block(data[footer.index.offset : footer.index.end], BlockType.INDEX, offset=0)
    meta = open_block(data[footer.meta.offset : footer.meta.end], BlockType.META, offset=0)
    body = data[: footer.index.offset]
    choice = pick(3)
    if choice == 0:
        document, what = _one_changed(json.loads(meta), pick)
        meta = json.dumps(document, separators=(",", ":")).encode()
    elif choice == 1:
        at = pick(len(index))
        index, what = _with_word(index, at, pick), f"index {at}"
    else:
        at = pick(max(footer.data_end - 32, 1)) + 32
        body, what = _with_word(body, at, pick), f"data {at}"
    parts = seal_block(BlockType.INDEX, index, "none"), seal_block(BlockType.META, meta, "none")
    if footer.meta.offset < footer.index.offset:
        parts = parts[::-1]
        body = data[: footer.meta.offset]
    first, second = len(body), len(body) + len(parts[0])
    handles = [(second, len(parts[1])), (first, len(parts[0]))]
    if footer.meta.offset < footer.index.offset:
        handles.reverse()
    fixed = b"".join(
        struct.pack("<QI", offset, size)
        for offset, size in (*handles, (footer.bloom.offset, footer.bloom.size))
    )
    tail = data[-8:]
    crc = struct.pack("<I", google_crc32c.extend(google_crc32c.value(fixed), tail))
    return body + b"".join(parts) + fixed + crc + tail, what


def _with_word(data: bytes, at: int, pick: Pick) -> bytes:
    word = (0, 0xFF, 0xFFFFFFFF, 0x7FFFFFFF, 1)[pick(5)]
    return (data[:at] + struct.pack("<I", word) + data[at + 4 :])[: len(data)]


def _parquet(data: bytes, pick: Pick) -> tuple[bytes, str]:
    """A file with a column left out, of another type, of other values, or without its metadata."""
    rows = pq.read_table(pa.BufferReader(data))
    at = pick(rows.num_columns)
    field = rows.schema.field(at)
    choice = pick(5)
    if choice == 0:
        changed = rows.remove_column(at)
    elif choice == 1:
        odd = (pa.int8(), pa.string(), pa.list_(pa.int64()), pa.float32())[pick(4)]
        changed = rows.set_column(at, field.with_type(odd).with_nullable(True), pa.nulls(len(rows), odd))
    elif choice == 2:
        changed = rows.set_column(at, field.with_nullable(True), pa.nulls(len(rows), field.type))
    elif choice == 3:
        changed = rows.slice(0, pick(len(rows) + 1))
    else:
        changed = rows.set_column(at, field.remove_metadata(), rows.column(at))
    return _parquet_bytes(changed), f"{field.name} {choice}"


def _manifest(data: bytes, pick: Pick) -> tuple[bytes, str]:
    """A manifest with a column left out, of another type, or with one other value."""
    rows = pq.read_table(pa.BufferReader(data))
    at = pick(rows.num_columns)
    field = rows.schema.field(at)
    choice = pick(4)
    if choice == 0:
        changed = rows.remove_column(at)
    elif choice == 1:
        odd = (pa.int8(), pa.string(), pa.list_(pa.int64()), pa.float32())[pick(4)]
        changed = rows.set_column(at, field.with_type(odd).with_nullable(True), pa.nulls(len(rows), odd))
    else:
        values = rows.column(at).to_pylist()
        values[pick(len(values))] = _other(field.type, pick)
        changed = rows.set_column(at, field.with_nullable(True), pa.array(values, field.type))
    return _parquet_bytes(changed, rows.schema.metadata), f"{field.name} {choice}"


def _other(kind: pa.DataType, pick: Pick) -> Any:
    if pa.types.is_integer(kind):
        return (None, -1, 0, 2 ** (kind.bit_width - 1) - 1, -(2 ** (kind.bit_width - 1)))[pick(5)]
    if pa.types.is_string(kind):
        return (None, "", "no/such/path", "x" * 5000, "\0")[pick(5)]
    if pa.types.is_binary(kind):
        return (None, b"", b"\xff" * 9, b"\0")[pick(4)]
    if pa.types.is_list(kind):
        return (None, [], [_other(kind.value_type, pick)], [None])[pick(4)]
    if pa.types.is_struct(kind):
        return (None, {part.name: _other(part.type, pick) for part in kind})[pick(2)]
    return (None, True, False)[pick(3)]


def _parquet_bytes(rows: pa.Table, metadata: Mapping[bytes, bytes] | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata(metadata or rows.schema.metadata), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _segment(data: bytes, pick: Pick) -> tuple[bytes, str]:
    """A segment with another word in its header, or with other rows in its batches."""
    size = struct.unpack_from("<I", data, 8)[0]
    if pick(2) == 0 or len(data) == size:
        at = 4 + pick(size - 12)
        head = _with_word(data[: size - 4], at, pick)
        return head + struct.pack("<I", google_crc32c.value(head)) + data[size:], f"header {at}"
    length, rows, low, high, gap = struct.unpack_from("<IIIII", data, size)
    keys = sum(0 if one == 0xFFFFFFFF else one for one in (low, high)) + gap
    body_at = size + 24 + keys
    body = data[body_at : body_at + length]
    table = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
    choice = pick(4)
    at = pick(table.num_columns)
    if choice == 0:
        table = table.remove_column(at)
    elif choice == 1:
        table = table.set_column(at, table.field(at).with_type(pa.int8()), pa.nulls(len(table), pa.int8()))
    elif choice == 2:
        table = table.set_column(at, table.field(at).remove_metadata(), table.column(at))
    else:
        spot = pick(len(body))
        body = _with_word(body, spot, pick)
    if choice < 3:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        body = sink.getvalue().to_pybytes()
    fixed = struct.pack("<IIIII", len(body), rows, low, high, gap)
    middle = data[size + 24 : body_at]
    crc = google_crc32c.value(fixed + middle + body)
    made = data[:size] + fixed + struct.pack("<I", crc) + middle + body + data[body_at + length :]
    return made, f"batch {choice} {at}"
