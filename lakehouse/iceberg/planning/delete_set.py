"""The live delete files of some manifests, in columns.

Invariant: the place of a file is the same in every column.
"""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError
from lakehouse.iceberg.manifests import EQUALITY_DELETES, UNKNOWN
from lakehouse.iceberg.planning.files import FileSet, LiveEntries
from lakehouse.iceberg.planning.matching import Pairs
from lakehouse.iceberg.planning.tasks import DeleteFile, delete_format
from lakehouse.kernels.arrays import Mask

__all__ = ["DeleteSet"]

_PATH_FIELD = 2147483546
"""Field id of the data paths in position delete files, by the specification."""
_VOID = "void"


class DeleteSet(FileSet):
    """Delete files; see :class:`FileSet` for the arguments."""

    @functools.cached_property
    def is_equality(self) -> Mask:
        """For each file, True if it deletes rows by their values."""
        found: Mask = self._joined(lambda part: part.numbers(part.columns.content)) == EQUALITY_DELETES
        return found

    @functools.cached_property
    def is_vector(self) -> Mask:
        """For each file, True if it is a deletion vector."""
        found = [np.isin(part.numbers(part.columns.format), [_place(part, "puffin")]) for part in self.parts]
        return np.concatenate(found) if found else np.empty(0, np.bool_)

    @functools.cached_property
    def is_unpartitioned(self) -> Mask:
        """For each file, True if its spec does not partition, so that it is about all partitions."""
        found: Mask = np.zeros(len(self), np.bool_)
        for one in self.spec_ranges:
            found[one.begin : one.end] = all(field.transform == _VOID for field in one.spec.fields)
        return found

    @functools.cached_property
    def path_bounds(self) -> tuple[pa.Array, pa.Array]:
        """Least and greatest data path in each file; null = not known."""
        low, high = (
            self.raw_bounds(column, pa.string()).cast(pa.large_string())
            for column in (
                lambda columns: columns.low(_PATH_FIELD),
                lambda columns: columns.high(_PATH_FIELD),
            )
        )
        return low, high

    @functools.cached_property
    def referenced_paths(self) -> pa.Array:
        """The only data file that each file is about; null = it may be about several."""
        said = [
            pa.nulls(part.count, pa.large_string())
            if part.columns.referenced is None
            else part.array(part.columns.referenced.at()).cast(pa.large_string())
            for part in self.parts
        ]
        if not said:
            return pa.array([], pa.large_string())
        low, high = self.path_bounds
        # Writers before version 3 say it by equal bounds; a bound that was cut is no path, and joins none.
        same = pc.and_(pc.equal(low, high).fill_null(False), pa.array(~self.is_equality))
        return pc.coalesce(pa.concat_arrays(said), pc.if_else(same, low, pa.scalar(None, pa.large_string())))

    def path_lists(self, pairs: Pairs, count: int) -> pa.Array:
        """Returns for each of some data files the paths of the delete files that apply to it."""
        offsets = np.searchsorted(pairs.files, np.arange(count + 1))
        used, places = np.unique(pairs.deletes, return_inverse=True)
        paths = self.paths(used).take(pa.array(places.reshape(-1)))
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), paths)

    def delete_file(self, at: int) -> DeleteFile:
        """Returns one delete file as an object."""
        found = self._made.get(at)
        if found is None:
            found = self._made[at] = self._delete_file(at)
        return found

    @functools.cached_property
    def _made(self) -> dict[int, DeleteFile]:
        """Delete files that were asked for: one of them often applies to many data files."""
        return {}

    def _delete_file(self, at: int) -> DeleteFile:
        part, (entry,) = next(self.chosen(np.array([at], np.int64)))
        columns, one = part.columns, np.array([entry], np.int64)
        path = columns.paths(one)[0].as_py()
        name = columns.formats[int(columns.format.at(one)[0])]
        ids = () if columns.equality_ids is None else columns.equality_ids.at(one)[0] or ()
        low, high = (ends[at].as_py() for ends in self.path_bounds)
        offset, length = (int(column.at(one)[0]) for column in (columns.content_offset, columns.content_size))
        is_equality = bool(self.is_equality[at])
        if is_equality and not ids:
            raise CorruptionError(
                f"{path} deletes rows by their values, and manifest {columns.key} does not say by which "
                "columns: restore the manifest, or read another snapshot",
                key=columns.key,
                path=path,
            )
        return DeleteFile(
            kind="equality" if is_equality else "vector" if name == "puffin" else "position",
            path=path,
            format=delete_format(name, path),
            size=int(self.sizes[at]),
            rows=int(self.rows[at]),
            spec_id=part.manifest.spec_id,
            sequence=int(part.inherited.sequence[entry]),
            equality_ids=ids,
            referenced=self.referenced_paths[at].as_py(),
            offset=None if offset == UNKNOWN else offset,
            length=None if length == UNKNOWN else length,
            path_bounds=None if low is None or high is None else (low, high),
        )


def _place(part: LiveEntries, name: str) -> int:
    """Returns the number that a format has in a manifest; UNKNOWN if no file has it."""
    formats = part.columns.formats
    return formats.index(name) if name in formats else UNKNOWN
