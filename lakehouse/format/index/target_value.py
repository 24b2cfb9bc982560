"""Values of targets that are no plain column: several columns together, and a place in JSON.

A set of columns has one value for each row, the values of its columns one after another by
ascending column id; see ``docs/spec/v1/target-values.md``::

    null              00
    text              its UTF-8 as a binary value: 01, then 01 and the byte for each, then 00
    everything else   as in lakehouse.format.index.greptime_value

The end of each part follows from the part itself, so two rows have the same bytes exactly when they
agree in every column, nulls included. A set is never null.

A place in a JSON column has the text of the value there: the characters of a string, a number as
written, ``true`` and ``false``. A null, an object, an array, a missing place and a text that is not
JSON have none.

Invariant: the bytes of a row depend on the values of that row and their types alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.index.greptime_value import encode_array, encode_scalar

__all__ = ["NULL_PART", "encode_column_set", "encode_set_part"]

NULL_PART = b"\x00"
"""Encoding of a null in the value of a set; every other part begins with 01."""


def encode_column_set(columns: Sequence[pa.Array]) -> pa.Array:
    """Encodes the value of each row, as large_binary without nulls; columns must be by ascending id."""
    if len(columns) < 2:
        raise InvalidInputError(f"a set has two columns or more, not {len(columns)}")
    parts = [
        pc.fill_null(pc.cast(_encoded_parts(column), pa.large_binary()), NULL_PART) for column in columns
    ]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _encoded_parts(column: pa.Array) -> pa.Array:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if _is_text(kind):
        return encode_array(pc.cast(pc.cast(column, pa.large_string()), pa.large_binary()))
    return encode_array(column)


def encode_set_part(encoded: bytes, kind: pa.DataType) -> bytes:
    """Converts the encoding of a column's value by itself into its part of a set's value."""
    return encode_scalar(encoded, pa.binary()) if _is_text(kind) else encoded


def _is_text(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind))
