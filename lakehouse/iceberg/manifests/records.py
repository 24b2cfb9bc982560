"""Records of manifests and manifest lists, with fields found by their ids, and checked for what they hold.

Names of fields have changed between versions and differ between writers; ids have not. A schema without ids
is known by the names that the specification uses.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lakehouse.format.avro import AvroField, AvroType, Keep, Program, Slot, Streams, compile_program
from lakehouse.iceberg.manifests.compact import UNKNOWN
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["MapItems", "RecordColumns", "RecordNames", "name_of", "record_program"]

RecordNames: TypeAlias = Mapping[int, tuple[str, ...]]
"""Names by field id: ours first, then those that files may have."""
_NUMBER = ("int", "long")
_BYTES = ("bytes", "string", "fixed")


@functools.lru_cache(maxsize=256)
def record_program(schema: AvroType, keep: Keep) -> Program:
    """Compiles what reads some fields of a schema; the last programs are kept.

    Raises:
        ValueError: it is no record, or one that cannot be read.
    """
    if schema.kind != "record":
        raise ValueError(f"its entries are of type {schema.kind}, not records")
    return compile_program(schema, keep)


def name_of(field: AvroField, names: RecordNames) -> str | None:
    """Our name of a field; None = it is not one of these."""
    if field.field_id is not None:
        found = names.get(field.field_id)
        return found[0] if found else None
    return next((known[0] for known in names.values() if field.name in known[1:]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapItems:
    """Items of the maps of all entries."""

    keys: I64
    lengths: I64
    """Number of items of each entry."""
    values: Slot
    present: Mask | None
    """Which items have a value; None = all."""


class RecordColumns:
    """Fields of a record as columns.

    Args:
        slot: of the record.
        streams: that its fields lie in.
        names: names of the fields.
        count: number of records; None = as many as there are entries.
    """

    __slots__ = ("_slots", "count", "streams")

    def __init__(self, slot: Slot, streams: Streams, names: RecordNames, *, count: int | None = None) -> None:
        named = ((name_of(field, names), inner) for field, inner in slot.fields)
        self._slots = {name: inner for name, inner in named if name is not None}
        self.streams = streams
        self.count = streams.entries if count is None else count

    def __contains__(self, name: str) -> bool:
        return name in self._slots

    def check_needed(self, *names: str) -> None:
        """Refuses a schema without these fields."""
        for name in names:
            if name not in self._slots:
                raise ValueError(f"its schema has no {name}")

    def slot(self, name: str, *kinds: str) -> Slot | None:
        """The slot of a field, None = there is no such field.

        Raises:
            ValueError: it is of another kind.
        """
        slot = self._slots.get(name)
        if slot is not None and slot.type.kind not in kinds:
            raise ValueError(f"its field {name} is of type {slot.type.kind}, not {' or '.join(kinds)}")
        return slot

    def numbers(self, name: str, missing: int = UNKNOWN) -> I64:
        """Numbers of a field; ``missing`` where it is null, or where there is no such field."""
        slot = self.slot(name, *_NUMBER)
        if slot is None:
            return np.full(self.count, missing, np.int64)
        values, valid = self.streams.numbers(slot), self.streams.valid(slot)
        return values if valid is None else np.where(valid, values, missing)

    def flags(self, name: str) -> list[bool | None]:
        """Truth values of a field; None where it is null, or where there is no such field."""
        slot = self.slot(name, "boolean")
        if slot is None:
            return [None] * self.count
        flags, valid = self.streams.fixed(slot)[:, 0] != 0, self.streams.valid(slot)
        if valid is None:
            return flags.tolist()  # type: ignore[no-any-return]
        return [flag if known else None for flag, known in zip(flags.tolist(), valid.tolist(), strict=True)]

    def spans(self, name: str) -> tuple[I64, I64, Mask | None] | None:
        """Where the bytes of a field begin, their lengths, and which are not null."""
        slot = self.slot(name, *_BYTES)
        if slot is None:
            return None
        starts, valid = self.streams.numbers(slot), self.streams.valid(slot)
        if slot.type.kind == "fixed":
            return starts, np.full(len(starts), slot.width, np.int64), valid
        return starts, self.streams.lengths(slot), valid

    def lists(self, name: str) -> tuple[I64, I64, Mask | None] | None:
        """Lengths and numbers of a field's lists, and which lists are not null."""
        slot = self.slot(name, "array")
        if slot is None:
            return None
        (items,) = slot.inner
        if items.type.kind not in _NUMBER:
            raise ValueError(f"its field {name} has items of type {items.type.kind}, not numbers")
        known = self.streams.valid(items)
        if known is not None and not bool(known.all()):
            raise ValueError(f"its field {name} has a null among its numbers")
        return self.streams.numbers(slot), self.streams.numbers(items), self.streams.valid(slot)

    def map_items(self, name: str, *kinds: str) -> MapItems | None:
        """Items of a field's maps from numbers to values of one of these kinds."""
        slot = self.slot(name, "array")
        if slot is None:
            return None
        (items,) = slot.inner
        fields = [inner for _, inner in items.fields]
        if len(fields) != 2 or items.validity >= 0 or fields[0].validity >= 0:
            raise ValueError(f"its field {name} is no map")
        keys, values = fields
        if keys.type.kind not in _NUMBER or values.type.kind not in kinds:
            raise ValueError(f"its field {name} maps {keys.type.kind} to {values.type.kind}")
        return MapItems(
            keys=self.streams.numbers(keys),
            lengths=self.streams.numbers(slot),
            values=values,
            present=self.streams.valid(values),
        )
