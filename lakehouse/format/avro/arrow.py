"""Arrow types and arrays of Avro's: what a slot's streams are as a column.

Logical types become Arrow's; one that Arrow has no type for is read as what it is stored as. Attributes with
field ids become the metadata by which Parquet's readers know columns, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from lakehouse.format.avro.program import Slot
from lakehouse.format.avro.schema import AvroField, AvroType
from lakehouse.format.avro.streams import Streams, gathered
from lakehouse.format.limits.json_object import INT32_MAX
from lakehouse.kernels.arrays import I64, U8, Mask
from lakehouse.kernels.big_endian import decimal_array

__all__ = ["FIELD_ID", "slot_array", "slot_field", "slot_type", "spans_array"]

FIELD_ID = b"PARQUET:field_id"
"""Key of a field's id in the metadata of Arrow's field."""
_PLAIN: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.dictionary(pa.int32(), pa.string()),
}
_LOGICAL: Mapping[tuple[str, str | None], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_INSTANTS: Mapping[str | None, str] = {
    "timestamp-millis": "ms",
    "timestamp-micros": "us",
    "timestamp-nanos": "ns",
}
_DIGITS_OF_128_BITS = 38


def slot_field(field: AvroField, slot: Slot) -> pa.Field:
    """The Arrow field of a record's field, with its id."""
    return _field(field.name, slot, field.field_id)


def _field(name: str, slot: Slot, field_id: int | None, *, is_key: bool = False) -> pa.Field:
    nullable = not is_key and (slot.validity >= 0 or slot.type.kind == "null")
    metadata = None if field_id is None else {FIELD_ID: str(field_id).encode()}
    return pa.field(name, slot_type(slot), nullable=nullable, metadata=metadata)


def slot_type(slot: Slot) -> pa.DataType:
    """The Arrow type of a slot's values."""
    kind = slot.type
    if kind.kind == "record":
        return pa.struct([slot_field(field, inner) for field, inner in slot.fields])
    if kind.kind == "map":
        keys, values = slot.inner
        return pa.map_(_field("key", keys, kind.key_id, is_key=True), _field("value", values, kind.value_id))
    if kind.kind == "array":
        (items,) = slot.inner
        if _is_map(slot):
            (key, keys), (value, values) = items.fields
            return pa.map_(
                _field("key", keys, key.field_id, is_key=True), _field("value", values, value.field_id)
            )
        return pa.list_(_field("element", items, kind.element_id))
    return _leaf_type(kind)


def _leaf_type(kind: AvroType) -> pa.DataType:
    if kind.precision:
        wide = kind.precision > _DIGITS_OF_128_BITS
        return (pa.decimal256 if wide else pa.decimal128)(kind.precision, kind.scale)
    if kind.kind == "fixed":
        return pa.binary(kind.size)
    unit = _INSTANTS.get(kind.logical) if kind.kind == "long" else None
    if unit is not None:
        return pa.timestamp(unit, None if kind.adjust_to_utc is False else "UTC")
    return _LOGICAL.get((kind.kind, kind.logical)) or _PLAIN[kind.kind]


def _is_map(slot: Slot) -> bool:
    """Returns whether an array of keys and values stands for a map, as it must where keys are no texts."""
    items = slot.inner[0]
    if slot.type.logical != "map" or items.type.kind != "record" or items.validity >= 0:
        return False
    return len(items.fields) == 2 and items.fields[0][1].validity < 0


def slot_array(slot: Slot, streams: Streams, count: int) -> pa.Array:
    """The values of a slot, of which there are ``count``, nulls included.

    Raises:
        ValueError: texts are not UTF-8, booleans neither 0 nor 1, or decimals have more digits than they may.
    """
    valid = streams.valid(slot)
    kind = slot.type.kind
    if kind == "null":
        return pa.nulls(count)
    if kind == "record":
        children = [slot_array(inner, streams, count) for _, inner in slot.fields]
        return _made(slot_type(slot), count, valid, [], children)
    if kind in ("array", "map"):
        return _listed(slot, streams, valid)
    made = _LEAVES[kind](slot, streams, valid)
    if kind == "string":
        made.validate(full=True)
    return made


def _made(
    kind: pa.DataType,
    count: int,
    valid: Mask | None,
    buffers: list[pa.Buffer | None],
    children: list[pa.Array],
) -> pa.Array:
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, count, [bits, *buffers], children=children)


def _listed(slot: Slot, streams: Streams, valid: Mask | None) -> pa.Array:
    lengths = streams.numbers(slot)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    # The items of all lists take a byte each, or a place in a stream, so they are less than 2 ** 31.
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    kind = slot_type(slot)
    inner = [slot_array(one, streams, total) for one in slot.inner]
    if pa.types.is_map(kind):
        pairs = inner[0].flatten() if slot.type.kind == "array" else inner
        entries = pa.struct([kind.key_field, kind.item_field])
        inner = [_made(entries, total, None, [], list(pairs))]
    return _made(kind, len(lengths), valid, [pa.py_buffer(offsets)], inner)


def _numbers(slot: Slot, streams: Streams, valid: Mask | None) -> pa.Array:
    kind = slot_type(slot)
    numbers = streams.numbers(slot)
    narrow = numbers.astype(np.int32) if kind.bit_width == 32 else numbers.copy()
    return _made(kind, len(numbers), valid, [pa.py_buffer(narrow)], [])


def _words(slot: Slot, streams: Streams, valid: Mask | None) -> pa.Array:
    numbers = streams.numbers(slot).astype(np.int32)
    codes = _made(pa.int32(), len(numbers), valid, [pa.py_buffer(numbers)], [])
    return pa.DictionaryArray.from_arrays(codes, pa.array(slot.type.symbols, pa.string()), safe=True)


def _flags(slot: Slot, streams: Streams, valid: Mask | None) -> pa.Array:
    flags: U8 = streams.fixed(slot)[:, 0]
    if valid is not None:
        flags = flags * valid
    if len(flags) and int(flags.max()) > 1:
        raise ValueError("a boolean is neither 0 nor 1")
    return _made(pa.bool_(), len(flags), valid, [pa.py_buffer(np.packbits(flags, bitorder="little"))], [])


def _fixed(slot: Slot, streams: Streams, valid: Mask | None) -> pa.Array:
    raw = streams.fixed(slot)
    if slot.type.precision:
        lengths = np.full(len(raw), slot.width, np.int64)
        return _decimals(slot, raw.reshape(-1), np.arange(len(raw)) * slot.width, lengths, valid)
    return _made(slot_type(slot), len(raw), valid, [pa.py_buffer(np.ascontiguousarray(raw))], [])


def _sized(slot: Slot, streams: Streams, valid: Mask | None) -> pa.Array:
    starts, lengths = streams.numbers(slot), streams.lengths(slot)
    if slot.type.precision:
        return _decimals(slot, streams.data, starts, lengths, valid)
    return spans_array(slot_type(slot), streams.data, starts, lengths, valid)


def spans_array(kind: pa.DataType, data: U8, starts: I64, lengths: I64, valid: Mask | None) -> pa.Array:
    """Returns an array of scattered bytes, of type binary or string; texts are not checked.

    Raises:
        ValueError: they are too many for one array.
    """
    body, offsets = gathered(data, starts, lengths)
    if len(body) > INT32_MAX:
        raise ValueError(f"a column has {len(body):,} bytes, more than an array can have")
    return _made(kind, len(starts), valid, [pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body)], [])


def _decimals(slot: Slot, data: U8, starts: I64, lengths: I64, valid: Mask | None) -> pa.Array:
    made = decimal_array(data, starts, lengths, _leaf_type(slot.type), valid)
    if made.null_count != (0 if valid is None else len(valid) - int(valid.sum())):
        raise ValueError(f"a decimal has more than {slot.type.precision} digits")
    return made


_LEAVES: Mapping[str, Callable[[Slot, Streams, Mask | None], pa.Array]] = {
    "int": _numbers,
    "long": _numbers,
    "enum": _words,
    "boolean": _flags,
    "float": _fixed,
    "double": _fixed,
    "fixed": _fixed,
    "bytes": _sized,
    "string": _sized,
}
