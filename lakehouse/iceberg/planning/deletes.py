"""Assignment of delete files to data files, by the rules of Iceberg's specification.

| kind | applies to data files |
| --- | --- |
| deletion vector | of the path it names, no newer than it; position deletes of the file are then not read |
| position deletes | of the path they name, else of their partition within their bounds of paths, no newer |
| equality deletes | of their partition, or of every partition if their spec has none; older than they are |

Invariant: every delete file that may delete a row of a data file is assigned to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.iceberg.planning.delete_set import DeleteSet
from lakehouse.iceberg.planning.files import FileSet
from lakehouse.iceberg.planning.matching import NO_CODE, Pairs, joined, partition_codes, path_codes
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["assigned"]


def assigned(files: FileSet, at: I64, deletes: DeleteSet) -> Pairs:
    """Returns which delete files apply to which of some data files.

    Args:
        files: the data files.
        at: places of those that are asked for; the pairs count through these.
        deletes: the delete files of the same snapshot.
    """
    if not len(deletes):
        return Pairs.of(())
    paths, sequences = files.paths(at), files.sequences(at)
    of_deletes = deletes.sequences(np.arange(len(deletes)))
    by_equality = deletes.is_equality
    named = deletes.referenced_paths
    has_path = ~by_equality & _mask(named.is_valid())
    file_codes, delete_codes = path_codes(paths, named)
    delete_codes = np.where(has_path, delete_codes, NO_CODE)
    by_path = _not_newer(joined(file_codes, delete_codes), sequences, of_deletes)
    is_vector = deletes.is_vector
    with_vector = np.zeros(len(at), np.bool_)
    with_vector[by_path.files[is_vector[by_path.deletes]]] = True
    by_path = by_path.where(is_vector[by_path.deletes] | ~with_vector[by_path.files])

    in_partition = Pairs.of(_of_partitions(files, at, deletes))
    scoped = in_partition.where(~by_equality[in_partition.deletes] & ~has_path[in_partition.deletes])
    scoped = _not_newer(scoped, sequences, of_deletes)
    scoped = scoped.where(~with_vector[scoped.files])
    scoped = scoped.where(_paths_within(paths, scoped, deletes))

    everywhere = by_equality & deletes.is_unpartitioned
    equal = in_partition.where((by_equality & ~everywhere)[in_partition.deletes])
    everything = joined(np.zeros(len(at), np.int64), np.where(everywhere, 0, NO_CODE).astype(np.int64))
    equal = Pairs.of((equal, everything))
    equal = equal.where(sequences[equal.files] < of_deletes[equal.deletes])
    return Pairs.of((by_path, scoped, equal))


def _of_partitions(files: FileSet, at: I64, deletes: DeleteSet) -> Iterator[Pairs]:
    """Yields the pairs of data files and delete files of one partition, spec by spec."""
    file_specs, delete_specs = files.specs[at], deletes.specs
    for spec in np.unique(delete_specs).tolist():
        ours, theirs = np.flatnonzero(file_specs == spec), np.flatnonzero(delete_specs == spec)
        if len(ours):
            codes = partition_codes(
                files.partition_columns(spec, at[ours]),
                deletes.partition_columns(spec, theirs),
                len(ours),
                len(theirs),
            )
            pairs = joined(*codes)
            yield Pairs(ours[pairs.files], theirs[pairs.deletes])


def _not_newer(pairs: Pairs, sequences: I64, delete_sequences: I64) -> Pairs:
    return pairs.where(sequences[pairs.files] <= delete_sequences[pairs.deletes])


def _paths_within(paths: pa.Array, pairs: Pairs, deletes: DeleteSet) -> Mask:
    """Returns for each pair whether the path is within the paths that the delete file says it names."""
    low, high = deletes.path_bounds
    of_files, numbers = paths.take(pa.array(pairs.files)), pa.array(pairs.deletes)
    above = pc.greater_equal(of_files, low.take(numbers)).fill_null(True)
    below = pc.less_equal(of_files, high.take(numbers)).fill_null(True)
    return _mask(pc.and_(above, below))


def _mask(array: pa.Array) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask
