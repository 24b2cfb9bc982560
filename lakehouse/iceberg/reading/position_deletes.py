"""Position deletes and deletion vectors: numbers of rows that are deleted, by data file.

A position delete file may be about many data files: it is read once for a scan, piece by piece, and only
positions of files that the scan reads are kept. A vector is about one data file, and fetched with it.

Invariant: numbers are ascending, each once, and those of rows that the data file has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError
from lakehouse.format.puffin import decode_deletion_vector
from lakehouse.format.schema import Field, Primitive, StringType
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.planning.tasks import DeleteFile, ScanTask
from lakehouse.iceberg.reading.batches import batches
from lakehouse.iceberg.reading.faults import check_size, named
from lakehouse.io.work import in_thread
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files import RunReader

__all__ = ["POSITION_FIELDS", "read_positions", "read_vector", "within"]

_PATH = Field(id=2_147_483_546, name="file_path", type=StringType(), required=True)
_ROW = Field(id=2_147_483_545, name="pos", type=Primitive("int64"), required=True)
POSITION_FIELDS = (_PATH, _ROW)
"""Columns of a position delete file."""
_QUICK_BYTES = 16 * 1024
"""Maximum size of a vector that is decoded in less time than a thread takes to begin."""
_NO_ROWS: I64 = np.empty(0, np.int64)


async def read_positions(reader: RunReader, wanted: Sequence[str]) -> Mapping[str, I64]:
    """Reads the deleted rows of some data files from an open position delete file.

    Args:
        reader: the file.
        wanted: paths of the data files as manifests have them; others are passed over.
    """
    paths = pa.array(wanted, pa.string())
    found: list[tuple[I64, I64]] = []
    for pieces in batches(reader.pieces, range(len(reader.pieces))):
        table = await reader.read(POSITION_FIELDS, pieces)
        found.append(await in_thread(_of_paths, table, paths))
    return await in_thread(_by_path, found, wanted)


def _of_paths(table: pa.Table, paths: pa.Array) -> tuple[I64, I64]:
    """Returns the numbers of the wanted paths and the rows, of lines that are about one of them."""
    which = pc.index_in(table.column(0), value_set=paths)
    lines = table.append_column("which", which).filter(pc.is_valid(which))
    if lines.column(1).null_count:
        raise CorruptionError("a position is null")
    return (
        lines.column("which").to_numpy().astype(np.int64),
        lines.column(1).to_numpy().astype(np.int64, copy=False),
    )


def _by_path(found: Sequence[tuple[I64, I64]], wanted: Sequence[str]) -> dict[str, I64]:
    which = np.concatenate([part for part, _ in found]) if found else _NO_ROWS
    rows = np.concatenate([part for _, part in found]) if found else _NO_ROWS
    order = np.lexsort((rows, which))
    which, rows = which[order], rows[order]
    ends = np.searchsorted(which, np.arange(len(wanted) + 1)).tolist()
    return {
        path: _unique(rows[begin:end]) for path, begin, end in zip(wanted, ends[:-1], ends[1:], strict=True)
    }


def _unique(rows: I64) -> I64:
    return rows[np.append(True, rows[1:] != rows[:-1])] if len(rows) else rows.copy()


def within(rows: I64, task: ScanTask, delete: DeleteFile) -> I64:
    """Returns row numbers of a delete file if the data file has such rows, else refuses the file."""
    if len(rows) and not 0 <= rows[0] <= rows[-1] < task.rows:
        wrong = int(rows[0] if rows[0] < 0 else rows[-1])
        raise CorruptionError(
            f"the delete file {delete.path} deletes row {wrong:,} of {task.path}, which has {task.rows:,} "
            "rows: one of them is not what the manifest says",
            key=delete.path,
            expected=task.rows,
            got=wrong,
        )
    return rows


async def read_vector(locations: Locations, delete: DeleteFile, task: ScanTask) -> I64:
    """Reads the deleted rows of a data file from its vector: one ranged GET of its blob.

    Raises:
        CorruptionError: the file is missing or of another size, or the blob is damaged, about another file,
            or deletes another number of rows than the manifest says.
    """
    with named(delete.path, "deletion vector"):
        begin, length = delete.offset, delete.length
        if begin is None or length is None or not 0 < length <= delete.size - begin:
            raise CorruptionError(
                f"the manifest says that the vector of {task.path} has {length} bytes at byte {begin}, and "
                f"the file {delete.size:,} bytes",
                offset=begin,
                got=length,
            )
        if delete.referenced is not None and delete.referenced != task.path:
            raise CorruptionError(
                f"the vector is about {delete.referenced}, and was to be applied to {task.path}",
                expected=task.path,
                got=delete.referenced,
            )
        place = locations.find(delete.path)
        fetched = await place.store.get_range(place.key, begin, begin + length)
        check_size(delete.size, fetched.size)
        if length <= _QUICK_BYTES:
            return _decoded(fetched.data, task.rows, delete.rows)
        return await in_thread(_decoded, fetched.data, task.rows, delete.rows)


def _decoded(blob: bytes, rows: int, cardinality: int) -> I64:
    return decode_deletion_vector(blob, row_count=rows, cardinality=cardinality)
