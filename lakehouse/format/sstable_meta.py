"""The meta block of an SSTable: JSON that says what its rows are, so that it can be read alone.

::

    {"schema": 3,                                  id of the schema the rows were written with
     "fields": [{"id": 1, "name": "id", "type": "bigint", "required": true}, …],
     "key": [1],                                   ids of the key's columns, in key order; [] = no key
     "rows": 1000, "kinds": [990, 0, 10],          inserts, updates, deletes
     "codec": "lz4",
     "stats": {"1": [0, "8000…", "8000…", 1], …},  by field id: nulls, low, high, exact; or nulls alone
     "properties": {}}

A type is SQL text; where it has fields inside, ``ids`` are theirs, depth first.

Invariant: a meta block that was parsed describes columns that this release knows, with ids and key
columns that exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.file_entry import ColumnStats
from lakehouse.format.type_text import parse_type, type_text
from lakehouse.format.types import Field, children, walk, with_children

__all__ = ["FileMeta"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMeta:
    """What an SSTable says of its rows."""

    schema_id: int
    fields: tuple[Field, ...]
    """Columns of the file, without comments and defaults."""
    key: tuple[int, ...]
    """Ids of the key's columns, in key order."""
    rows: int
    kinds: tuple[int, int, int]
    """Rows of each kind: inserts, updates, deletes."""
    codec: str
    stats: Mapping[int, ColumnStats]
    properties: Mapping[str, str]

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The key's columns, in key order."""
        by_id = {field.id: field for field in self.fields}
        return tuple(by_id[number] for number in self.key)

    @property
    def value_fields(self) -> tuple[Field, ...]:
        """The columns that are not part of the key: what the values of entries hold."""
        return tuple(field for field in self.fields if field.id not in self.key)

    def pack(self) -> bytes:
        """The bytes of the block's content."""
        members = {
            "schema": self.schema_id,
            "fields": [_field_to_json(field) for field in self.fields],
            "key": list(self.key),
            "rows": self.rows,
            "kinds": list(self.kinds),
            "codec": self.codec,
            "stats": {str(number): _stats_to_json(stats) for number, stats in self.stats.items()},
            "properties": dict(self.properties),
        }
        return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes, *, offset: int) -> FileMeta:
        """What the content of a meta block says; ``offset`` is where the block is in the file.

        Raises:
            CorruptionError: it is not the content of one.
        """
        try:
            return cls._from_json(json.loads(data))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise CorruptionError(
                f"the meta block does not describe rows: {error!r}", offset=offset
            ) from error

    @classmethod
    def _from_json(cls, members: dict[str, Any]) -> FileMeta:
        fields = tuple(_field_from_json(one) for one in members["fields"])
        meta = cls(
            schema_id=_count(members["schema"]),
            fields=fields,
            key=tuple(map(_count, members["key"])),
            rows=_count(members["rows"]),
            kinds=_kinds(members["kinds"]),
            codec=str(members["codec"]),
            stats={int(number): _stats_from_json(one) for number, one in members["stats"].items()},
            properties={str(name): str(value) for name, value in members["properties"].items()},
        )
        ids = [field.id for _, field in walk(fields)]
        if len(set(ids)) < len(ids) or len(set(meta.key)) < len(meta.key):
            raise ValueError("two columns have one id")
        if not set(meta.key) <= {field.id for field in fields}:
            raise ValueError("a column of the key is not there")
        if sum(meta.kinds) != meta.rows:
            raise ValueError("the kinds do not add up to the rows")
        return meta


def _field_to_json(field: Field) -> dict[str, Any]:
    kind = _bare(field).type
    found: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_text(kind)}
    if field.required:
        found["required"] = True
    if inner := [one.id for _, one in walk(children(kind))]:
        found["ids"] = inner
    return found


def _bare(field: Field) -> Field:
    """The field and those inside without what bytes do not depend on."""
    kind = with_children(field.type, tuple(_bare(one) for one in children(field.type)))
    return replace(field, type=kind, comment=None, initial_default=None, write_default=None)


def _field_from_json(found: dict[str, Any]) -> Field:
    ids = [_count(number) for number in found.get("ids", ())]
    numbers = iter(ids)
    try:
        kind = parse_type(found["type"], lambda: next(numbers, -1))
    except InvalidInputError as error:
        raise ValueError(error.message) from error
    if [one.id for _, one in walk(children(kind))] != ids:
        raise ValueError(f"{found['type']} does not have {len(ids)} fields inside")
    required = found.get("required", False)
    return Field(id=_count(found["id"]), name=str(found["name"]), type=kind, required=bool(required))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.40} is no whole number")
    return value


def _kinds(counts: list[Any]) -> tuple[int, int, int]:
    inserts, updates, deletes = map(_count, counts)
    return inserts, updates, deletes


def _stats_to_json(stats: ColumnStats) -> list[Any]:
    if stats.low is None and stats.high is None:
        return [stats.nulls]
    low, high = ((value.hex() if value is not None else None) for value in (stats.low, stats.high))
    return [stats.nulls, low, high, int(stats.exact)]


def _stats_from_json(found: list[Any]) -> ColumnStats:
    if len(found) == 1:
        return ColumnStats(nulls=_count(found[0]))
    nulls, low, high, exact = found
    return ColumnStats(
        nulls=_count(nulls),
        low=None if low is None else bytes.fromhex(low),
        high=None if high is None else bytes.fromhex(high),
        exact=bool(exact),
    )
