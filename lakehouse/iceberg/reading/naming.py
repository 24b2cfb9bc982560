"""Name mapping: which columns the names of files without field ids stand for.

Invariant: a mapping gives ids of the table's fields only; a name that it does not have is no column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lakehouse.errors import CorruptionError
from lakehouse.format.limits import JsonObject, each, number, optional, parse_json, text
from lakehouse.format.schema import DataType, Field, children, with_children

__all__ = ["NAME_MAPPING", "naming_fields"]

NAME_MAPPING = "schema.name-mapping.default"
"""Property of a table that has the mapping."""


def naming_fields(properties: Mapping[str, str], fields: Sequence[Field], table: str) -> tuple[Field, ...]:
    """Returns the fields under all names that they have in files without ids; none without a mapping.

    Args:
        properties: the table's.
        fields: the columns of its schema.
        table: the table's location, for messages.

    Raises:
        CorruptionError: the mapping cannot be read.
    """
    given = properties.get(NAME_MAPPING)
    if given is None:
        return ()
    try:
        whole = JsonObject({"mapping": parse_json(given.encode())}, f"property {NAME_MAPPING} of {table}")
    except ValueError as error:
        raise CorruptionError(
            f"property {NAME_MAPPING} of {table} is not JSON: {error}", field=NAME_MAPPING
        ) from error
    return tuple(_named(whole.objects("mapping"), fields))


def _named(mapping: Sequence[JsonObject], fields: Sequence[Field]) -> Iterator[Field]:
    by_id = {field.id: field for field in fields}
    for entry in mapping:
        field = by_id.get(entry.read("field-id", optional(number), None) or 0)
        if field is None:
            continue
        kind = _kind(entry.objects("fields", []), field.type)
        for name in entry.read("names", each(text)):
            yield replace(field, name=name, type=kind)


def _kind(mapping: Sequence[JsonObject], kind: DataType) -> DataType:
    """Returns a type whose parts are under their names; elements, keys and values keep their places."""
    inside = children(kind)
    named = tuple(_named(mapping, inside))
    if not hasattr(kind, "fields"):
        by_id = {field.id: field for field in named}
        named = tuple(replace(by_id.get(field.id, field), name=field.name) for field in inside)
    return with_children(kind, named)
