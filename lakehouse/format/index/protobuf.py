"""Codec of the Protobuf wire format: messages with a small schema, decoded strictly, encoded canonically.

Invariant: ``encode(decode(data)) == data`` for every canonical message without unknown
fields, and whatever ``data`` is, ``decode`` returns or raises CorruptionError after a time
linear in its length.

Canonical is what proto3 writers emit: fields in the order of their numbers, zero values left
out, repeated numbers packed, varints as short as possible. Accepted is what protobuf requires of
a reader: any order, unknown fields (skipped), unpacked numbers, the last value of a
repeated singular field, sub-messages in pieces. Refused: truncation, varints of more than
64 bits, a known field with another wire type, numbers out of the field's range, bad UTF-8.

Generated code and its run-time's version checks do not pay for the few messages of the puffin
indexes; and generated code would return a thousand filter positions one Python object at a time,
where ``columns`` gives numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.kernels.arrays import I64, U8, U64
from lakehouse.kernels.varint import encode_varint

__all__ = ["FieldKind", "Message", "MessageField", "decode_varints", "encode_varints"]

FieldKind: TypeAlias = Literal[
    "uint64", "uint32", "enum", "bool", "bytes", "string", "message", "columns", "packed"
]

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = 0, 1, 2, 3, 4, 5
_NUMBER_MAX = (1 << 29) - 1
_GROUP_DEPTH_MAX = 32
_VECTORS_PAY_FROM = 48
"""Number of varints or sub-messages from which numpy is quicker than a Python loop."""
_RANGE: dict[FieldKind, tuple[int, int]] = {
    "uint64": (0, (1 << 64) - 1),
    "uint32": (0, (1 << 32) - 1),
    "enum": (-(1 << 31), (1 << 31) - 1),
}
_ZERO: dict[FieldKind, Any] = {"uint64": 0, "uint32": 0, "enum": 0, "bool": False, "bytes": b"", "string": ""}
_NUMBERS: dict[FieldKind, int] = {
    **{kind: top for kind, (_, top) in _RANGE.items()},
    "bool": -1,
    "packed": -1,
}
"""Kinds that may be encoded as varints, and the greatest varint that is the value itself (-1: none is)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageField:
    """A field of a message type."""

    number: int
    name: str
    kind: FieldKind
    """Kind: ``packed`` is repeated uint64, as one numpy array; ``columns`` is a repeated message of
    unsigned numbers, as one numpy array for each of its fields; ``enum`` is an int."""
    message: Message | None = None
    """The message of a ``message`` or ``columns`` field."""
    repeated: bool = False
    """True if a ``message`` field may occur many times (a map is a repeated message of key and value)."""


class Message:
    """A message type: a name for errors, and its fields.

    Decoded messages are dicts by field name with every field in them: absent numbers are 0,
    absent text and bytes empty, an absent message is None, absent repeated ones are empty.
    """

    __slots__ = ("_by_number", "_gathered", "_places", "_steps", "_zeros", "fields", "name")

    def __init__(self, name: str, *fields: MessageField) -> None:
        self.name = name
        self.fields = tuple(sorted(fields, key=lambda field: field.number))
        self._by_number = {field.number: field for field in self.fields}
        # By tag: the field, and the greatest varint that is its value itself (None: bytes).
        self._steps: dict[int, tuple[MessageField, int | None]] = {}
        for field in self.fields:
            if field.kind in _NUMBERS:
                self._steps[field.number << 3 | _VARINT] = field, _NUMBERS[field.kind]
            if field.kind not in _ZERO or field.kind in ("bytes", "string"):
                self._steps[field.number << 3 | _BYTES] = field, None
        self._zeros = {field.name: _ZERO.get(field.kind) for field in self.fields}
        self._gathered = tuple(field for field in self.fields if field.kind not in _ZERO)
        # By tag, for fields whose tag as a number takes one byte: the position of the field.
        tags = (field.number << 3 | _VARINT for field in self.fields)
        self._places = {tag: place for place, tag in enumerate(tags) if tag < 0x80}

    def decode(self, data: bytes | memoryview) -> dict[str, Any]:
        """Decodes the values of a message; a CorruptionError names the bad field and its byte."""
        raw = bytes(data)
        return self._decode(raw, 0, len(raw))

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Encodes a message in canonical form; fields that are not given are left out."""
        unknown = values.keys() - {field.name for field in self.fields}
        if unknown:
            raise InvalidInputError(f"{self.name} has no field {min(unknown)!r}", field=min(unknown))
        parts: list[bytes] = []
        for field in self.fields:
            value = values.get(field.name)
            if value is not None:
                self._encode_field(field, value, parts)
        return b"".join(parts)

    def _decode(self, data: bytes, pos: int, end: int) -> dict[str, Any]:
        values: dict[str, Any] = self._zeros.copy()
        self._merge(values, data, pos, end)
        for field in self._gathered:
            parts = values[field.name] or []
            if field.kind == "packed":
                pieces = parts or [np.empty(0, np.uint64)]
                values[field.name] = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
                continue
            assert field.message is not None
            if field.kind == "columns":
                values[field.name] = field.message._decode_columns(data, parts)
            else:
                values[field.name] = field.message._decode_pieces(data, parts, field.repeated)
        return values

    def _decode_pieces(self, data: bytes, spans: Sequence[int], repeated: bool) -> Any:
        """Decodes all messages of a repeated field, or the one message of a singular field's pieces."""
        pairs = zip(spans[::2], spans[1::2], strict=True)
        if repeated:
            return [self._decode(data, pos, end) for pos, end in pairs]
        if len(spans) > 2:
            return self.decode(b"".join(data[pos:end] for pos, end in pairs))
        return self._decode(data, spans[0], spans[1]) if spans else None

    def _merge(self, values: dict[str, Any], data: bytes, pos: int, end: int) -> None:
        steps = self._steps
        while pos < end:
            start = pos
            tag = data[pos]
            pos += 1
            if tag >= 0x80:
                tag, pos = self._varint(data, start, end)
            step = steps.get(tag)
            if step is None:
                known = self._by_number.get(tag >> 3)
                if known is not None:
                    raise self._wire_type_error(known, start, tag & 7)
                pos = self._skip(data, tag, pos, end, start)
                continue
            # The value itself, or the number of bytes that follow.
            if pos < end and data[pos] < 0x80:
                number = data[pos]
                pos += 1
            else:
                number, pos = self._varint(data, pos, end)
            field, plain_up_to = step
            if plain_up_to is not None:
                if number <= plain_up_to:
                    values[field.name] = number
                else:
                    self._take_number(values, field, number, start)
                continue
            stop = pos + number
            if stop > end:
                raise self._damage_error(
                    f"field {field.name!r} is cut off", start, f"{number} bytes", f"{end - pos} bytes"
                )
            kind = field.kind
            if kind == "bytes":
                values[field.name] = data[pos:stop]
            elif kind == "string":
                values[field.name] = self._text(field, data, pos, stop)
            elif kind == "packed":
                _pieces(values, field.name).append(self._packed(data, pos, stop))
            else:
                # Start and end of each sub-message in one flat list, because there may be thousands.
                spans = _pieces(values, field.name)
                spans += (pos, stop)
                if kind == "columns":
                    stop = _more_rows(data, start, stop, end, spans)
            pos = stop

    def _text(self, field: MessageField, data: bytes, pos: int, end: int) -> str:
        try:
            return data[pos:end].decode()
        except UnicodeDecodeError as error:
            raise self._damage_error(
                f"field {field.name!r} is not UTF-8", pos + error.start, "UTF-8", "other"
            ) from error

    def _take_number(self, values: dict[str, Any], field: MessageField, value: int, start: int) -> None:
        """Stores a number that is not itself the field's value: converts or refuses it."""
        kind = field.kind
        if kind == "packed":
            _pieces(values, field.name).append(np.array([value], np.uint64))
            return
        if kind == "bool":
            values[field.name] = value != 0
            return
        bounds = _RANGE[kind]
        if kind == "enum" and value >> 63:  # negative numbers are written as their 64-bit complement
            value -= 1 << 64
        if not bounds[0] <= value <= bounds[1]:
            raise self._damage_error(
                f"field {field.name!r} is out of range", start, f"{bounds[0]}..{bounds[1]}", value
            )
        values[field.name] = value

    def _packed(self, data: bytes, pos: int, end: int) -> U64:
        if end - pos >= _VECTORS_PAY_FROM:
            decoded = decode_varints(data[pos:end])
            if decoded is not None:
                return decoded
        # One by one, which also finds the place of a bad number.
        numbers = []
        while pos < end:
            value, pos = self._varint(data, pos, end)
            numbers.append(value)
        return np.array(numbers, np.uint64)

    def _decode_columns(self, data: bytes, spans: Sequence[int]) -> dict[str, U64]:
        if len(spans) >= 2 * _VECTORS_PAY_FROM:
            columns = self._columns_at_once(data, np.array(spans, np.int64).reshape(-1, 2))
            if columns is not None:
                return columns
        names = [field.name for field in self.fields]
        rows: list[int] = []
        for pos, end in zip(spans[::2], spans[1::2], strict=True):
            rows += self._row(data, pos, end)
        table = np.array(rows, np.uint64)
        return {name: table[column :: len(names)] for column, name in enumerate(names)}

    def _row(self, data: bytes, pos: int, end: int) -> list[int]:
        """Returns the numbers of one sub-message, in the order of the fields."""
        row = [0] * len(self.fields)
        start = pos
        while pos < end:
            place = self._places.get(data[pos])
            if place is None:  # an unknown field, or one with a longer tag
                values: dict[str, Any] = {}
                self._merge(values, data, start, end)
                return [values.get(field.name, 0) for field in self.fields]
            row[place], pos = self._varint(data, pos + 1, end)
        return row

    def _columns_at_once(self, data: bytes, spans: I64) -> dict[str, U64] | None:
        """Decodes all sub-messages together; None when one of them is not plain pairs of tag and number."""
        starts, sizes = spans[:, 0], spans[:, 1] - spans[:, 0]
        stops = np.cumsum(sizes)
        inside = np.arange(int(stops[-1])) + np.repeat(starts - (stops - sizes), sizes)
        body = np.frombuffer(data, np.uint8)[inside]
        numbers = decode_varints(body)
        if numbers is None:
            return None
        # Numbers finished up to each sub-message's end: none may reach across it, and they come in pairs.
        finished = np.concatenate([[0], np.cumsum(body < 0x80)])
        pairs, odd = np.divmod(np.diff(finished[stops], prepend=0), 2)
        last = body[stops[sizes > 0] - 1]
        if odd.any() or (last >= 0x80).any():
            return None
        tags, amounts = numbers[0::2], numbers[1::2]
        owner = np.repeat(np.arange(len(spans)), pairs)
        columns: dict[str, U64] = {}
        seen = 0
        for field in self.fields:
            mine = tags == field.number << 3
            seen += int(mine.sum())
            column = np.zeros(len(spans), np.uint64)
            column[owner[mine]] = amounts[mine]
            columns[field.name] = column
        return columns if seen == len(tags) else None

    def _encode_field(self, field: MessageField, value: Any, parts: list[bytes]) -> None:
        kind = field.kind
        if kind == "message":
            assert field.message is not None
            many = value if field.repeated else (value,)
            parts.extend(_delimited(field.number, field.message.encode(message)) for message in many)
        elif kind == "columns":
            assert field.message is not None
            parts.append(field.message._encode_columns(field.number, value))
        elif kind == "packed":
            if len(value):
                parts.append(_delimited(field.number, encode_varints(value)))
        elif kind in ("bytes", "string"):
            raw = value.encode() if kind == "string" else bytes(value)
            if raw:
                parts.append(_delimited(field.number, raw))
        else:
            number = int(value)
            low, high = _RANGE.get(kind, (0, 1))
            if not low <= number <= high:
                raise InvalidInputError(
                    f"{self.name}.{field.name} must be in {low}..{high}, not {number}",
                    field=field.name,
                    value=number,
                )
            if number:
                parts.append(encode_varint(field.number << 3) + encode_varint(number & _RANGE["uint64"][1]))

    def _encode_columns(self, number: int, columns: Mapping[str, U64]) -> bytes:
        """Encodes one sub-message for each row of the columns, all at once."""
        rows = len(columns[self.fields[0].name])
        if rows == 0:
            return b""
        # Every sub-message is the numbers [tag, size, (tag, value)...]; absent pairs are dropped.
        values = np.stack([np.asarray(columns[field.name], np.uint64) for field in self.fields], axis=1)
        tags = np.array([field.number << 3 for field in self.fields], np.uint64)
        present = values != 0
        widths = (_varint_sizes(values) + _varint_sizes(tags)) * present
        table = np.empty((rows, 2 + 2 * len(tags)), np.uint64)
        table[:, 0] = number << 3 | _BYTES
        table[:, 1] = widths.sum(axis=1)
        table[:, 2::2] = tags
        table[:, 3::2] = values
        keep = np.ones(table.shape, np.bool_)
        keep[:, 2:] = np.repeat(present, 2, axis=1)
        return encode_varints(table[keep])

    def _varint(self, data: bytes, pos: int, end: int) -> tuple[int, int]:
        """Returns the number at a position, and the position behind it."""
        value = shift = 0
        for place in range(pos, min(end, pos + 10)):
            byte = data[place]
            if byte < 0x80:
                value |= byte << shift
                if value >> 64:
                    break
                return value, place + 1
            value |= (byte & 0x7F) << shift
            shift += 7
        if end - pos < 10:
            raise self._damage_error("a number is cut off", pos, "more bytes", f"the end at {end}")
        raise self._damage_error(
            "a number has more than 64 bits", pos, "a varint", data[pos : pos + 10].hex()
        )

    def _skip(self, data: bytes, tag: int, pos: int, end: int, start: int) -> int:
        """Returns the position behind an unknown field."""
        if _BYTES < tag < 0x80 and tag & 7 == _BYTES:
            # A quick way over many short fields of one tag, such as the filters in a bloom blob's metadata.
            while pos < end and data[pos] < 0x80 and (stop := pos + 1 + data[pos]) <= end:
                if stop == end or data[stop] != tag:
                    return stop
                start, pos = stop, stop + 1
        open_groups: list[int] = []
        while True:
            number, wire = tag >> 3, tag & 7
            if not 1 <= number <= _NUMBER_MAX:
                raise self._damage_error("a field number is out of range", start, f"1..{_NUMBER_MAX}", number)
            if wire == _VARINT:
                pos = self._varint(data, pos, end)[1]
            elif wire == _BYTES:
                size, pos = self._varint(data, pos, end)
                pos += size
            elif wire in (_FIXED64, _FIXED32):
                pos += 8 if wire == _FIXED64 else 4
            elif wire == _GROUP and len(open_groups) < _GROUP_DEPTH_MAX:
                open_groups.append(number)
            elif wire != _GROUP_END or not open_groups or open_groups.pop() != number:
                raise self._damage_error("a field has no valid wire type", start, "0, 1, 2 or 5", wire)
            if pos > end:
                raise self._damage_error(
                    f"unknown field {number} is cut off", start, f"{pos - end} more bytes", "the end"
                )
            if not open_groups:
                return pos
            start = pos
            tag, pos = self._varint(data, pos, end)

    def _wire_type_error(self, field: MessageField, offset: int, wire: int) -> CorruptionError:
        wanted = _VARINT if field.kind in (*_RANGE, "bool") else _BYTES
        return self._damage_error(f"field {field.name!r} has the wrong wire type", offset, wanted, wire)

    def _damage_error(self, what: str, offset: int, expected: object, got: object) -> CorruptionError:
        return CorruptionError(
            f"{self.name}: {what} at byte {offset}: expected {expected}, got {got}",
            structure=self.name,
            offset=offset,
            expected=expected,
            got=got,
        )


def _pieces(values: dict[str, Any], name: str) -> list[Any]:
    """Returns the list of a field's pieces so far, which it makes when there is none."""
    pieces: list[Any] | None = values.get(name)
    if pieces is None:
        pieces = values[name] = []
    return pieces


def _more_rows(data: bytes, first: int, pos: int, end: int, spans: list[int]) -> int:
    """Adds the short sub-messages that follow with the tag at ``first``; returns the position behind them."""
    tag = data[first]
    if tag >= 0x80:
        return pos
    while pos + 2 <= end and data[pos] == tag:
        size = data[pos + 1]
        stop = pos + 2 + size
        if size >= 0x80 or stop > end:
            break
        spans += (pos + 2, stop)
        pos = stop
    return pos


def _delimited(number: int, body: bytes) -> bytes:
    return encode_varint(number << 3 | _BYTES) + encode_varint(len(body)) + body


_THRESHOLDS = np.array([1 << 7 * k for k in range(1, 10)], np.uint64)


def _varint_sizes(values: U64) -> I64:
    """Returns the encoded size of each number, 1 to 10 bytes."""
    return np.searchsorted(_THRESHOLDS, values, side="right") + 1


def encode_varints(values: U64 | Sequence[int]) -> bytes:
    """Encodes unsigned numbers one after another."""
    numbers = np.asarray(values, np.uint64)
    if numbers.size == 0:
        return b""
    sizes = _varint_sizes(numbers)
    stops = np.cumsum(sizes)
    starts = stops - sizes
    out = np.empty(int(stops[-1]), np.uint8)
    for k in range(int(sizes.max())):
        more = sizes > k + 1
        there = sizes > k
        septet = (numbers >> np.uint64(7 * k) & np.uint64(0x7F)).astype(np.uint8) | more.astype(np.uint8) << 7
        out[(starts + k)[there]] = septet[there]
    return out.tobytes()


def decode_varints(data: bytes | U8) -> U64 | None:
    """Decodes a buffer of numbers alone; None when it ends within a number or one is too long."""
    body = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    stops = np.flatnonzero(body < 0x80)
    if len(stops) == len(body):
        return body.astype(np.uint64)
    if len(stops) == 0 or stops[-1] != len(body) - 1:
        return None
    starts = np.concatenate([[0], stops[:-1] + 1])
    sizes = stops - starts + 1
    longest = int(sizes.max())
    if longest > 10 or (longest == 10 and (body[stops[sizes == 10]] > 1).any()):
        return None
    out = np.zeros(len(stops), np.uint64)
    for k in range(longest):
        there = sizes > k
        out[there] |= (body[starts[there] + k] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * k)
    return out
