"""Pairs of data files and delete files, matched by codes: a join of two columns of numbers.

Invariant: pairs come by data file, ascending, and by delete file within one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.kernels.arrays import I64

__all__ = ["NO_CODE", "Pairs", "joined", "partition_codes", "path_codes"]

NO_CODE = -1
"""Code of what matches nothing."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Data files with delete files that may apply to them."""

    files: I64
    """Places of the data files."""
    deletes: I64
    """Numbers of the delete files, one beside each place."""

    def where(self, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Pairs:
        """Returns the pairs at which a mask is true."""
        return Pairs(self.files[kept], self.deletes[kept])

    @classmethod
    def of(cls, parts: Iterable[Pairs]) -> Pairs:
        """Puts several sets of pairs together; no two of them share a pair."""
        every = list(parts)
        if not every:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))
        files = np.concatenate([part.files for part in every])
        deletes = np.concatenate([part.deletes for part in every])
        order = np.lexsort((deletes, files))
        return cls(files[order], deletes[order])


def joined(file_codes: I64, delete_codes: I64) -> Pairs:
    """Returns all pairs with equal codes, those without a code left out.

    Args:
        file_codes: a code for each data file.
        delete_codes: a code for each delete file.
    """
    order = np.argsort(delete_codes, kind="stable")
    ascending = delete_codes[order]
    begins = np.searchsorted(ascending, file_codes, side="left")
    counts = np.searchsorted(ascending, file_codes, side="right") - begins
    counts[file_codes == NO_CODE] = 0
    files = np.repeat(np.arange(len(file_codes)), counts)
    within = np.arange(len(files)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Pairs(files, order[np.repeat(begins, counts) + within])


def path_codes(paths: pa.Array, referenced: pa.Array) -> tuple[I64, I64]:
    """Returns codes by which paths of data files and those that delete files name can be joined."""
    known = pc.unique(referenced.drop_null())
    return tuple(_codes(pc.index_in(values, known)) for values in (paths, referenced))  # type: ignore[return-value]


def partition_codes(
    file_columns: Sequence[pa.Array], delete_columns: Sequence[pa.Array], files: int, deletes: int
) -> tuple[I64, I64]:
    """Returns codes of partitions: equal where all values are, null being a value like others.

    Args:
        file_columns: the partition's fields of the data files.
        delete_columns: the same fields of the delete files.
        files: number of data files.
        deletes: number of delete files.
    """
    codes = np.zeros(files + deletes, np.int64)
    for ours, theirs in zip(file_columns, delete_columns, strict=True):
        # Types differ where a source column was promoted after a manifest was written.
        wider = theirs.type if _width(theirs.type) > _width(ours.type) else ours.type
        both = pa.concat_arrays([ours.cast(wider), theirs.cast(wider)])
        of_field = both.dictionary_encode(null_encoding="encode")
        combined = codes * len(of_field.dictionary) + _codes(of_field.indices)
        # Numbered anew after each field, so that codes stay small however many fields there are.
        codes = np.unique(combined, return_inverse=True)[1].astype(np.int64)
    return codes[:files], codes[files:]


def _codes(indices: pa.Array) -> I64:
    codes: I64 = indices.cast(pa.int64()).fill_null(NO_CODE).to_numpy(zero_copy_only=False)
    return codes


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:  # no fixed width
        return 0
