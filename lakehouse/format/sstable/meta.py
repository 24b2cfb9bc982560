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
        found = {
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
            data = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
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
        """What the content of a meta block says; ``offset`` is where the block is in the file.

        Raises:
            CorruptionError: it is not the content of one.
        """
        try:
            found = members(parse_json(data))
        except ValueError as error:
            raise CorruptionError(f"the meta block does not describe rows: {error}", offset=offset) from error
        return cls._from_json(JsonObject(found, f"the meta block at byte {offset}"))

    @classmethod
    def _from_json(cls, found: JsonObject) -> FileMeta:
        fields = tuple(map(_field_from_json, found.objects("fields")))
        ids = [field.id for _, field in walk(fields)]
        if len(set(ids)) < len(ids):
            raise found.wrong("fields", "columns of different ids", ids)
        key = found.read("key", each(number))
        if len(set(key)) < len(key) or not set(key) <= {field.id for field in fields}:
            raise found.wrong("key", "ids of columns, each once", key)
        rows, kinds = found.read("rows", count), found.read("kinds", each(count))
        if len(kinds) != len(RowKind) or sum(kinds) != rows:
            raise found.wrong("kinds", f"{len(RowKind)} numbers that add up to the {rows} rows", kinds)
        inserts, updates, deletes = kinds
        return cls(
            schema_id=found.read("schema", number),
            fields=fields,
            key=key,
            rows=rows,
            kinds=(inserts, updates, deletes),
            codec=found.read("codec", text),
            stats=found.read("stats", stats_from_json),
            properties=found.read("properties", table_of(text)),
        )


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


def _field_from_json(found: JsonObject) -> Field:
    ids = found.read("ids", each(number), ())
    numbers = iter(ids)

    def read_type(value: Any) -> DataType:
        kind = parse_type(text(value), lambda: next(numbers, -1))
        if tuple(one.id for _, one in walk(children(kind))) != ids:
            raise ValueError(f"it does not have {len(ids)} fields inside")
        return kind

    return Field(
        id=found.read("id", number),
        name=found.read("name", text),
        type=found.read("type", read_type),
        required=found.read("required", flag, False),
    )
