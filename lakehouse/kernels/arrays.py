"""Names for the numpy arrays that formats are made of.

Invariant: an alias names an element type and nothing else; the byte order on disk is chosen
where bytes are made.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["I32", "I64", "U8", "U32", "U64", "Mask"]

U8: TypeAlias = npt.NDArray[np.uint8]
"""Bytes, one per element."""
I32: TypeAlias = npt.NDArray[np.int32]
"""Codes of a dictionary: positions in its values."""
I64: TypeAlias = npt.NDArray[np.int64]
"""Offsets, lengths and positions."""
U64: TypeAlias = npt.NDArray[np.uint64]
"""Hashes, words of bits, and numbers as protobuf has them."""
Mask: TypeAlias = npt.NDArray[np.bool_]
"""One truth value for each element."""


U32: TypeAlias = npt.NDArray[np.uint32]
"""Numbers of a bitmap, ascending."""
