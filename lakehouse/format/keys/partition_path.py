"""Folders of partitions, such as ``day=2026-01-01/region=eu``: for people, never read back.

Invariant: whatever the values, the folder is part of a valid key of every object store: visible
ASCII without characters that mean something to stores, shells or URLs, no part hidden (``_`` or ``.``
in front), none empty, and the whole not longer than :data:`PATH_BYTES_MAX`. Two partitions may share a folder
once their texts are cut; the typed values in manifests tell them apart. The rules are in
``docs/spec/v1/row-key.md``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.order_value import decode_fixed, decode_value
from lakehouse.format.schema.types import BinaryType, DataType, Field, Primitive, StringType

__all__ = ["PATH_BYTES_MAX", "partition_dir"]

PATH_BYTES_MAX = 480
"""Maximum bytes of a folder; keys of S3 may have 1,024."""
_PART_BYTES_MAX = 160
"""Maximum bytes of one ``name=value``; names in file systems may have 255."""
_COLUMNS_MAX = 24
"""Maximum number of columns in a folder; with so many each has 19 bytes."""
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.-]")
_CUT = "..."


def partition_dir(fields: Sequence[Field], values: Sequence[bytes]) -> str:
    """Returns the folder, without a slash at the end.

    Args:
        fields: the partition columns, in order.
        values: their values as order-preserving bytes (:mod:`lakehouse.format.keys.order_value`).
    """
    if len(fields) != len(values) or not fields:
        raise InvalidInputError(f"{len(fields)} partition columns need as many values, not {len(values)}")
    shown = list(zip(fields, values, strict=True))[:_COLUMNS_MAX]
    size = min(_PART_BYTES_MAX, (PATH_BYTES_MAX + 1) // len(shown) - 1)
    return "/".join(_part(field, value, size) for field, value in shown)


def _part(field: Field, value: bytes, size: int) -> str:
    name = _escaped(field.name.encode())
    if name[0] in "_.":  # other readers of the store take such folders for hidden
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return _shortened(f"{_shortened(name, size // 2)}={_escaped(_text(value, field.type))}", size)


def _escaped(text: bytes) -> str:
    return _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], text).decode()


def _shortened(text: str, size: int) -> str:
    """Returns the text, cut to ``size`` characters if it is longer, but not within an escape."""
    if len(text) <= size:
        return text
    return re.sub("%.?$", "", text[: size - len(_CUT)]) + _CUT


def _text(value: bytes, kind: DataType) -> bytes:
    if isinstance(kind, StringType):
        return value
    if isinstance(kind, BinaryType):
        return value.hex().encode()
    if kind == Primitive("boolean"):
        return b"true" if decode_value(value, kind) else b"false"
    moment = kind == Primitive("timestamp")
    array = decode_fixed(np.frombuffer(value, np.uint8), Primitive("timestamp_ntz") if moment else kind)
    # Arrow formats every date and time, those outside Python's years too.
    text: str = array.cast(pa.string())[0].as_py()
    text = text.removesuffix(".000000").replace(" ", "T").replace(":", ".")  # colons mean something in paths
    return f"{text}Z".encode() if moment else text.encode()
