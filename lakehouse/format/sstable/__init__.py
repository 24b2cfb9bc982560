"""SSTables: sorted rows in blocks that are found by key and read alone.

Words: *file* → *block* (as it is stored) → *entry* (a row key and its row) → *restart* (an entry from which
a search can begin). The *frame* is header, blocks and footer; the *index* says which block a key is in, the
*filter* which keys are in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.sstable.bloom import BloomFilter
    from lakehouse.format.sstable.reader import ColumnSelection, SstableFile
    from lakehouse.format.sstable.row_values import KeyValues, RowValues
    from lakehouse.format.sstable.search import SearchBlock
    from lakehouse.format.sstable.writer import SstableOptions, encode_sstable

__all__ = [
    "BloomFilter", "ColumnSelection", "KeyValues", "RowValues", "SearchBlock", "SstableFile",
    "SstableOptions", "encode_sstable",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "bloom": "BloomFilter",
        "reader": "ColumnSelection SstableFile",
        "row_values": "KeyValues RowValues",
        "search": "SearchBlock",
        "writer": "SstableOptions encode_sstable",
    },
)
