"""Texts that were read as numbers of a dictionary's, made texts again.

A dictionary says a text once and rows repeat it, so texts may be any number of times larger than what
was read.

Invariant: no text is copied before it is known how much all of them take.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["with_texts"]


def with_texts(table: pa.Table, *, bytes_max: int | None) -> pa.Table:
    """Replaces dictionary-encoded columns, on every level of nesting, by their values.

    Arrow copies text twice as fast from a dictionary that is in memory as from one that is being read.

    Args:
        table: table as it was read.
        bytes_max: maximum bytes of the texts and the table as read together; None = any number, which is
            known to be small.

    Raises:
        ValueError: they take more.
    """
    if bytes_max is not None:
        texts = [sum(map(_text_bytes, column.chunks)) for column in table.columns]
        taken = table.nbytes + sum(texts)
        if taken > bytes_max:
            name = table.column_names[texts.index(max(texts))]
            raise ValueError(
                f"column {name!r} and others take {taken:,} bytes in memory, {bytes_max:,} are allowed"
            )
    for place, field in enumerate(table.schema):
        plain = _plain(field)
        if plain is not field:
            table = table.set_column(place, plain, table.column(place).cast(plain.type))
    return table


def _plain(field: pa.Field) -> pa.Field:
    """Returns the field with the value types of dictionaries; itself if it has none."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        return field.with_type(kind.value_type)
    if not pa.types.is_nested(kind):
        return field
    inner = [kind.field(number) for number in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    plain = [_plain(one) for one in inner]
    if all(one is before for one, before in zip(plain, inner, strict=True)):
        return field
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(*plain))
    return field.with_type(pa.struct(plain) if pa.types.is_struct(kind) else pa.list_(*plain))


def _text_bytes(array: pa.Array) -> int:
    """Bytes of all texts of an array that are numbers now."""
    return sum(
        int(pc.sum(pc.binary_length(one.dictionary).take(one.indices)).as_py() or 0)
        for one in _dictionaries(array)
    )


def _dictionaries(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield array
    elif pa.types.is_map(kind):
        yield from _dictionaries(array.keys)
        yield from _dictionaries(array.items)
    elif pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _dictionaries(array.field(number))
    elif pa.types.is_list(kind):
        yield from _dictionaries(array.values)
