"""The meta block of an SSTable: JSON that describes its rows, so that the file can be read alone.

::

    {"schema": 3,                                  id of the schema the rows were written with
     "fields": [{"id": 1, "name": "id", "type": "bigint", "required": true}, …],
     "key": [1],                                   ids of the key's columns, in key order; [] = no key
     "rows": 1000, "kinds": [990, 0, 10],          inserts, updates, deletes
     "codec": "lz4",
     "stats": {"1": [0, "8000…", "8000…", 1], …},  by field id: nulls, low, high, exact; or nulls alone
     "properties": {}}

A type is SQL text; if it has fields inside, ``ids`` are their ids, depth first.

Invariant: a meta block that was parsed describes columns that this release knows, with ids and key
columns that exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.limits.json_object import (
    JsonObject,
    count,
    each,
    flag,
    members,
    number,
    parse_json,
    table_of,
    text,
)
from lakehouse.format.metadata.entry_json import stats_from_json, stats_to_json
from lakehouse.format.metadata.file_entry import ColumnStats, RowKind
from lakehouse.format.schema.type_notation import parse_type, type_text
from lakehouse.format.schema.types import DataType, Field, children, walk, with_children

__all__ = ["FileMeta"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMeta:
    """Description of an SSTable's rows."""

    schema_id: int
    """Id of the schema the rows were written with."""
    fields: tuple[Field, ...]
    """Columns of the file, without comments and defaults."""
    key: tuple[int, ...]
    """Ids of the key's columns, in key order."""
    rows: int
    kinds: tuple[int, int, int]
    """Numbers of rows of each kind: inserts, updates, deletes."""
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
        """The columns that are not part of the key; the values of entries hold them."""
        return tuple(field for field in self.fields if field.id not in self.key)

    def pack(self) -> bytes:
        """Encodes the block's content; reads it back before it returns it."""
        members_ = {
            "schema": self.schema_id,
            "fields": [_field_to_json(field) for field in self.fields],
            "key": list(self.key),
            "rows": self.rows,
            "kinds": list(self.kinds),
            "codec": self.codec,
            "stats": stats_to_json(self.stats),
            "properties": dict(self.properties),
        }
        try:
            data = json.dumps(members_, separators=(",", ":"), ensure_ascii=False).encode()
            again = FileMeta.parse(data, offset=0)
        except (FormatError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"the new SSTable could not be read: {error}; nothing was written"
            ) from error
        if again != replace(self, fields=tuple(map(_bare, self.fields))):
            raise InvalidInputError("the new SSTable would be read as something else; nothing was written")
        return data

    @classmethod
    def parse(cls, data: bytes, *, offset: int) -> FileMeta:
        """Parses the content of a meta block; ``offset`` is the block's place in the file.

        Raises:
            CorruptionError: the content is invalid.
        """
        try:
            values = members(parse_json(data))
        except ValueError as error:
            raise CorruptionError(f"the meta block does not describe rows: {error}", offset=offset) from error
        return cls._from_json(JsonObject(values, f"the meta block at byte {offset}"))

    @classmethod
    def _from_json(cls, meta: JsonObject) -> FileMeta:
        fields = tuple(map(_field_from_json, meta.objects("fields")))
        ids = [field.id for _, field in walk(fields)]
        if len(set(ids)) < len(ids):
            raise meta.wrong("fields", "columns of different ids", ids)
        key = meta.read("key", each(number))
        if len(set(key)) < len(key) or not set(key) <= {field.id for field in fields}:
            raise meta.wrong("key", "ids of columns, each once", key)
        rows, kinds = meta.read("rows", count), meta.read("kinds", each(count))
        if len(kinds) != len(RowKind) or sum(kinds) != rows:
            raise meta.wrong("kinds", f"{len(RowKind)} numbers that add up to the {rows} rows", kinds)
        inserts, updates, deletes = kinds
        return cls(
            schema_id=meta.read("schema", number),
            fields=fields,
            key=key,
            rows=rows,
            kinds=(inserts, updates, deletes),
            codec=meta.read("codec", text),
            stats=meta.read("stats", stats_from_json),
            properties=meta.read("properties", table_of(text)),
        )


def _field_to_json(field: Field) -> dict[str, Any]:
    kind = _bare(field).type
    members_: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_text(kind)}
    if field.required:
        members_["required"] = True
    if inner := [child.id for _, child in walk(children(kind))]:
        members_["ids"] = inner
    return members_


def _bare(field: Field) -> Field:
    """Returns the field, with those inside, without comments and defaults, which rows do not depend on."""
    kind = with_children(field.type, tuple(_bare(child) for child in children(field.type)))
    return replace(field, type=kind, comment=None, initial_default=None, write_default=None)


def _field_from_json(field: JsonObject) -> Field:
    ids = field.read("ids", each(number), ())
    numbers = iter(ids)

    def read_type(value: Any) -> DataType:
        kind = parse_type(text(value), lambda: next(numbers, -1))
        if tuple(child.id for _, child in walk(children(kind))) != ids:
            raise ValueError(f"it does not have {len(ids)} fields inside")
        return kind

    return Field(
        id=field.read("id", number),
        name=field.read("name", text),
        type=field.read("type", read_type),
        required=field.read("required", flag, False),
    )
