"""Columns of a manifest: everything that planning asks of its entries, without an object for any of them.

Invariant: columns never change once they are made, so that a cache can hand them to anybody. What an entry
inherits depends on the manifest list that names its manifest, and is worked out when it is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError
from lakehouse.iceberg.manifests.compact import UNKNOWN, NumberLists, Numbers, Texts
from lakehouse.iceberg.manifests.keyed import KeyedBytes, KeyedCounts, RawBounds
from lakehouse.iceberg.manifests.manifest_list import ManifestFile
from lakehouse.kernels.arrays import I64, Mask

__all__ = [
    "ADDED",
    "DATA",
    "DELETED",
    "EQUALITY_DELETES",
    "EXISTING",
    "POSITION_DELETES",
    "Inherited",
    "ManifestColumns",
]

EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of an entry: its file was there before, was added, or was deleted."""
_OBJECT_BYTES = 80
"""Bytes of an object beside its arrays, about."""
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
"""Content of an entry's file; deletion vectors are position deletes with a place in their file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inherited:
    """Facts of entries, taken over from their manifest where they do not say them themselves."""

    spec_id: int
    snapshot_id: I64
    """Snapshot that added the file, or deleted it."""
    sequence: I64
    """Data sequence number: delete files apply by it."""
    file_sequence: I64
    """Sequence number of the commit that added the file; :data:`UNKNOWN` = not known."""
    first_row_id: I64
    """Row id of the first row of each data file; :data:`UNKNOWN` = its rows have none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class ManifestColumns:
    """The entries of a manifest, by column. Numbers that a file does not have are :data:`UNKNOWN`."""

    key: str
    """Key of the manifest, for errors."""
    count: int
    """Number of entries, deleted ones included."""
    format_version: int
    """Version of the table format by which it was written, 1 where it does not say."""
    spec_id: int | None
    """Partition spec that its header names; the manifest list has the one that counts."""
    header_content: int | None
    """0 = data files, 1 = delete files, as its header says; None = it does not."""
    status: Numbers
    snapshot_id: Numbers
    """Before inheritance, as the two sequences below."""
    sequence: Numbers
    file_sequence: Numbers
    content: Numbers
    formats: tuple[str, ...]
    """Formats of the files in lower letters, each once."""
    format: Numbers
    """For each file the place of its format in ``formats``."""
    path: Texts
    """As the manifest has it."""
    partition: Mapping[int, pa.Array]
    """Partition values by the id of the partition field, of the type that the file gives them."""
    records: Numbers
    """Rows of each file; of a deletion vector, the rows that it deletes."""
    size: Numbers
    """Bytes of each file."""
    split_offsets: NumberLists | None
    """Places where each file can be cut; None = no file says."""
    equality_ids: NumberLists | None
    """Fields by which rows are compared, of equality deletes; None = no file says."""
    sort_order_id: Numbers
    first_row_id: Numbers
    """Before inheritance."""
    referenced: Texts | None
    """The only data file that a delete file is about, null where it is not known; None = of all."""
    content_offset: Numbers
    """Place of a deletion vector's blob in its file."""
    content_size: Numbers
    """Bytes of that blob."""
    encrypted: Numbers
    """1 = the file has key metadata, 0 = it has none."""
    value_counts: KeyedCounts | None
    null_counts: KeyedCounts | None
    nan_counts: KeyedCounts | None
    lower_bounds: KeyedBytes | None
    upper_bounds: KeyedBytes | None

    @property
    def nbytes(self) -> int:
        """Bytes of all columns in memory."""
        columns = (
            *(self.status, self.snapshot_id, self.sequence, self.file_sequence, self.content, self.format),
            *(self.path, self.records, self.size, self.split_offsets, self.equality_ids, self.sort_order_id),
            *(self.first_row_id, self.referenced, self.content_offset, self.content_size, self.encrypted),
            *(self.value_counts, self.null_counts, self.nan_counts, self.lower_bounds, self.upper_bounds),
        )
        partition = sum(_OBJECT_BYTES + int(array.nbytes) for array in self.partition.values())
        return partition + sum(_OBJECT_BYTES + one.nbytes for one in columns if one is not None)

    def cut(self, counts: Sequence[int], keys: Sequence[str]) -> list[Self] | None:
        """Cuts the entries of several manifests apart; None = their entries have statistics of other fields.

        Args:
            counts: number of entries of each manifest.
            keys: key of each.
        """
        keyed = (self.value_counts, self.null_counts, self.nan_counts, self.lower_bounds, self.upper_bounds)
        if not all(counts) or any(one is not None and one.rows is not None for one in keyed):
            return None
        cuts = [0, *itertools.accumulate(counts)]
        shared = {name: getattr(self, name) for name in _SHARED}
        columns = [_cut(getattr(self, name), cuts) for name in _CUT]
        return [
            type(self)(key=key, count=count, **shared, **dict(zip(_CUT, part, strict=True)))
            for key, count, *part in zip(keys, counts, *columns, strict=True)
        ]

    def status_counts(self) -> tuple[int, int, int]:
        """Numbers of entries that were there before, added and deleted."""
        count_of = self.status.count_of
        return count_of(EXISTING), count_of(ADDED), count_of(DELETED)

    def live(self) -> I64:
        """Numbers of the entries that are not deleted."""
        return np.flatnonzero(self.status.all() != DELETED)

    def paths(self, at: I64 | None = None) -> pa.Array:
        """Paths of some entries, None = of all."""
        return self.path.at(at)

    def low(self, field_id: int) -> RawBounds | None:
        """Lower bounds of a column; None = no file has one. :func:`decoded_bounds` makes values of them."""
        return None if self.lower_bounds is None else self.lower_bounds.field(field_id)

    def high(self, field_id: int) -> RawBounds | None:
        """Upper bounds likewise."""
        return None if self.upper_bounds is None else self.upper_bounds.field(field_id)

    def nulls(self, field_id: int) -> I64:
        """Nulls of a column in each file."""
        return self._counts(self.null_counts, field_id)

    def nans(self, field_id: int) -> I64:
        """NaNs of a column in each file."""
        return self._counts(self.nan_counts, field_id)

    def _counts(self, keyed: KeyedCounts | None, field_id: int) -> I64:
        if keyed is None:
            return np.full(self.count, UNKNOWN, np.int64)
        return keyed.field(field_id, self.records.all())

    def stats_fields(self) -> frozenset[int]:
        """Ids of all columns that some file has statistics of."""
        keyed = (self.value_counts, self.null_counts, self.nan_counts, self.lower_bounds, self.upper_bounds)
        return frozenset(key for one in keyed if one is not None for key in one.keys.tolist())

    def inherited(self, manifest: ManifestFile) -> Inherited:
        """Returns what entries take over, given the manifest as a list knows it.

        Raises:
            CorruptionError: a live entry has no sequence number and must not inherit one.
        """
        status = self.status.all()
        snapshots = self.snapshot_id.all()
        sequence = self._sequence(self.sequence, status, manifest)
        lost = (sequence == UNKNOWN) & (status != DELETED)
        if bool(lost.any()):
            raise CorruptionError(
                f"manifest {self.key} is damaged: entry {int(lost.argmax())} was there before and has no "
                "sequence number",
                key=self.key,
            )
        return Inherited(
            spec_id=manifest.spec_id,
            snapshot_id=np.where(snapshots == UNKNOWN, manifest.snapshot_id, snapshots),
            sequence=sequence,
            file_sequence=self._sequence(self.file_sequence, status, manifest),
            first_row_id=self._first_row_ids(status, manifest.first_row_id),
        )

    def _sequence(self, said: Numbers, status: I64, manifest: ManifestFile) -> I64:
        sequence = said.all()
        # Manifests of version 1 have no sequence numbers, and lists give them 0.
        inherits: Mask = (sequence == UNKNOWN) & ((status == ADDED) | (manifest.sequence == 0))
        return np.where(inherits, manifest.sequence, sequence)

    def _first_row_ids(self, status: I64, first: int | None) -> I64:
        if first is None:
            # Ids that files were given by other branches do not count before the list gives some.
            return np.full(self.count, UNKNOWN, np.int64)
        said = self.first_row_id.all()
        takes = (said == UNKNOWN) & (status != DELETED) & (self.content.all() == DATA)
        rows = np.where(takes, np.maximum(self.records.all(), 0), 0)
        return np.where(takes, first + np.cumsum(rows) - rows, said)


_SHARED = ("format_version", "spec_id", "header_content", "formats")
"""Facts of the header, and what numbers stand for."""
_CUT = tuple(one.name for one in fields(ManifestColumns) if one.name not in ("key", "count", *_SHARED))
"""Columns that have something of each entry."""


def _cut(column: Any, cuts: Sequence[int]) -> Sequence[Any]:
    if column is None:
        return [None] * (len(cuts) - 1)
    if not isinstance(column, Mapping):
        return column.cut(cuts)  # type: ignore[no-any-return]
    # Put together with nothing they are copied, so that no part keeps the bytes of all.
    return [
        {
            number: pa.concat_arrays([array.slice(begin, end - begin), array.slice(0, 0)])
            for number, array in column.items()
        }
        for begin, end in itertools.pairwise(cuts)
    ]
