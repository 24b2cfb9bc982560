"""Programs: a writer's schema as instructions for the loop that walks over its values.

An instruction is four numbers, the operation and what it works on; :mod:`lakehouse.format.avro.loops` says
what each operation does. Fields that nobody wants become instructions that pass over them. A union of null
and a type has a stream of truth values, and a null puts zeros in the place of whatever it stands for, so that
all streams of the same level of lists have the same length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lakehouse.format.avro import operations as op
from lakehouse.format.avro.schema import AvroField, AvroType
from lakehouse.format.limits.json_object import INT64_MAX
from lakehouse.kernels.arrays import I64

__all__ = ["WIDTHS", "Keep", "Program", "Slot", "compile_program"]

_CODE_MAX = 200_000
"""Maximum instructions: a name that is used often, of a type that does so too, makes them grow without
end."""
WIDTHS = {"boolean": 1, "float": 4, "double": 8}
"""Bytes of primitive types of a fixed size."""
_RANGES = {"int": (-(1 << 31), (1 << 31) - 1), "long": (-INT64_MAX - 1, INT64_MAX)}

Keep: TypeAlias = "Callable[[AvroField], bool | Keep]"
"""Choice of fields: True keeps all of a field, False leaves it out, and a choice keeps fields of its
record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The streams of a part of the schema."""

    type: AvroType
    """The type; of a union with null, its other branch."""
    stream: int = -1
    """Numbers of an int, long or enum; where the bytes of any other leaf begin; number of items of an array
    or map. -1 = a record, or null."""
    validity: int = -1
    """Truth values: 1 for a value, 0 for null; -1 = never null."""
    fields: tuple[tuple[AvroField, Slot], ...] = ()
    """Fields of a record that are kept."""
    inner: tuple[Slot, ...] = ()
    """Items of an array; keys and values of a map."""

    @property
    def width(self) -> int:
        """Bytes of a boolean, float, double or fixed."""
        return WIDTHS.get(self.type.kind, self.type.size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """Instructions, and where what they read is found."""

    code: I64
    """Instructions, four numbers each; read-only."""
    listed: list[int]
    """The same as a list, which is interpreted quicker."""
    root: Slot
    """The whole entry."""
    streams: int
    """Number of streams."""
    repeated: I64
    """Streams that lie in an array or a map, so that an entry adds any number of values to them."""
    depth: int
    """Number of arrays and maps within each other."""
    bytes_min: int
    """Least bytes that an entry takes."""


def compile_program(schema: AvroType, keep: Keep | None = None) -> Program:
    """Compiles a schema; ``keep`` chooses the fields of its record, None keeps all.

    Raises:
        ValueError: it is too large, or a union of several types is wanted.
    """
    made = _Compiler()
    root, _ = made.wanted(schema, True if keep is None else keep, 0)
    made.emit(op.END)
    code = np.array(made.code, np.int64)
    code.flags.writeable = False
    return Program(
        code=code,
        listed=made.code,
        root=root,
        streams=made.streams,
        repeated=np.array(made.repeated, np.int64),
        depth=max(1, made.depth),
        bytes_min=schema.bytes_min,
    )


class _Compiler:
    __slots__ = ("code", "depth", "repeated", "streams")

    def __init__(self) -> None:
        self.code: list[int] = []
        self.streams = self.depth = 0
        self.repeated: list[int] = []

    def emit(self, operation: int, a: int = -1, b: int = 0, c: int = 0) -> int:
        """Appends an instruction and returns its place."""
        at = len(self.code)
        if at >= _CODE_MAX * op.WIDTH:
            raise ValueError("it is too large: the same names are used over and over again")
        self.code += (operation, a, b, c)
        return at

    def here(self) -> int:
        """The place of the next instruction."""
        return len(self.code)

    def stream(self, level: int, count: int = 1) -> int:
        """Numbers new streams, and returns the first."""
        first = self.streams
        self.streams += count
        if level:
            self.repeated += range(first, self.streams)
        return first

    def wanted(self, kind: AvroType, keep: bool | Keep, level: int) -> tuple[Slot, list[int]]:
        """Emits what reads a type; returns its slot, and the streams that a null in its place fills."""
        if kind.kind == "union":
            return self._optional(kind, keep, level)
        if kind.kind == "record":
            return self._record(kind, keep, level)
        if kind.kind in ("array", "map"):
            return self._blocks(kind, level)
        if kind.kind == "null":
            return Slot(type=kind), []
        stream = self.stream(level, 2 if kind.kind in ("bytes", "string") else 1)
        if kind.kind in ("bytes", "string"):
            self.emit(op.SIZED, stream)
            return Slot(type=kind, stream=stream), [stream, stream + 1]
        self.leaf(kind, stream)
        return Slot(type=kind, stream=stream), [stream]

    def leaf(self, kind: AvroType, stream: int) -> None:
        """Emits what reads a number or some fixed number of bytes into a stream, -1 = none."""
        if kind.kind in _RANGES:
            self.emit(op.NUMBER, stream, *_RANGES[kind.kind])
        elif kind.kind == "enum":
            self.emit(op.NUMBER, stream, 0, len(kind.symbols) - 1)
        else:
            size = WIDTHS.get(kind.kind, kind.size)
            if size or stream >= 0:
                self.emit(op.FIXED, stream, size)

    def _optional(self, union: AvroType, keep: bool | Keep, level: int) -> tuple[Slot, list[int]]:
        kinds = [one.kind for one in union.inner]
        if len(kinds) - kinds.count("null") > 1 or kinds.count("null") > 1:
            raise ValueError(f"a union of {', '.join(kinds)} is wanted: one type, and null, can be read")
        at = next((at for at, kind in enumerate(kinds) if kind != "null"), 0)
        validity = self.stream(level)
        test = self.emit(op.OPTIONAL, validity, at)
        slot, filled = self.wanted(union.inner[at], keep, level)
        jump = self.emit(op.JUMP)
        self.code[test + 3] = self.here()
        if len(kinds) == 1:
            self.emit(op.REFUSE)
        for stream in filled:
            self.emit(op.FILL, stream)
        self.code[jump + 2] = self.here()
        nullable = Slot(
            type=slot.type, stream=slot.stream, validity=validity, fields=slot.fields, inner=slot.inner
        )
        return nullable, [validity, *filled]

    def _record(self, record: AvroType, keep: bool | Keep, level: int) -> tuple[Slot, list[int]]:
        fields: list[tuple[AvroField, Slot]] = []
        filled: list[int] = []
        for field in record.fields:
            kept = keep if isinstance(keep, bool) else keep(field)
            if kept is False:
                self.skip(field.type, level)
            else:
                slot, more = self.wanted(field.type, kept, level)
                fields.append((field, slot))
                filled += more
        return Slot(type=record, fields=tuple(fields)), filled

    def _blocks(self, kind: AvroType, level: int) -> tuple[Slot, list[int]]:
        lengths = self.stream(level)
        is_map = kind.kind == "map"
        least = kind.inner[0].bytes_min + (1 if is_map else 0)
        begin = self._begin(lengths, least, level)
        inner: list[Slot] = []
        if is_map:
            keys = self.stream(level + 1, 2)
            self.emit(op.SIZED, keys)
            inner.append(Slot(type=_TEXT, stream=keys))
        inner.append(self.wanted(kind.inner[0], True, level + 1)[0])
        self._end(begin)
        return Slot(type=kind, stream=lengths, inner=tuple(inner)), [lengths]

    def _begin(self, stream: int, least: int, level: int) -> int:
        self.depth = max(self.depth, level + 1)
        self.emit(op.BLOCKS)
        return self.emit(op.NEXT, stream, 0, least)

    def _end(self, begin: int) -> None:
        self.emit(op.JUMP, b=begin)
        self.code[begin + 2] = self.here()

    def skip(self, kind: AvroType, level: int) -> None:
        """Emits what passes over a value."""
        match kind.kind:
            case "null":
                pass
            case "bytes" | "string":
                self.emit(op.SIZED, -1)
            case "record":
                for field in kind.fields:
                    self.skip(field.type, level)
            case "array" | "map":
                self._skip_blocks(kind, level)
            case "union":
                self._skip_union(kind, level)
            case _:
                self.leaf(kind, -1)

    def _skip_blocks(self, kind: AvroType, level: int) -> None:
        is_map = kind.kind == "map"
        begin = self._begin(-1, kind.inner[0].bytes_min + (1 if is_map else 0), level)
        if is_map:
            self.emit(op.SIZED, -1)
        self.skip(kind.inner[0], level + 1)
        self._end(begin)

    def _skip_union(self, kind: AvroType, level: int) -> None:
        self.emit(op.UNION, b=len(kind.inner))
        table = [self.emit(op.JUMP) for _ in kind.inner]
        ends = []
        for entry, branch in zip(table, kind.inner, strict=True):
            self.code[entry + 2] = self.here()
            self.skip(branch, level)
            ends.append(self.emit(op.JUMP))
        for end in ends:
            self.code[end + 2] = self.here()


_TEXT = AvroType(kind="string", bytes_min=1)
