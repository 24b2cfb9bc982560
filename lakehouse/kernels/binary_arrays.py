"""Arrow arrays of bytes as numpy arrays: where values begin, and all their bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakehouse.kernels.arrays import I64, U8

__all__ = ["binary_parts"]


def binary_parts(array: pa.Array) -> tuple[I64, U8]:
    """Offsets (one more than there are values) and bytes of a binary or string array.

    The slots of nulls may have bytes, too.
    """
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    width = np.int64 if wide else np.int32
    if offsets is None or len(array) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    first = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    body = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return first, body
