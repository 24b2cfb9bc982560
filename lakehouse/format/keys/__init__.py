"""Values and keys as bytes that sort as the values do.

Words: *ordered value* (bytes of one value) → *row key* (those of the columns of a key, put together). A
*bucket* is a share of the keys, by their hash; a *partition* a folder of rows with the same values;
*bounds* are the least and the greatest value of a column in a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.keys.buckets import bucket_of_key, buckets_of
    from lakehouse.format.keys.column_stats import stats_of
    from lakehouse.format.keys.order_value import (
        NAN_BYTES,
        binary_contents,
        decode_fixed,
        decode_value,
        encode_value,
        encode_values,
        value_width,
    )
    from lakehouse.format.keys.partition_path import partition_dir
    from lakehouse.format.keys.row_key import RowKeyCodec

__all__ = [
    "NAN_BYTES", "RowKeyCodec", "binary_contents", "bucket_of_key", "buckets_of", "decode_fixed",
    "decode_value", "encode_value", "encode_values", "partition_dir", "stats_of", "value_width",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "buckets": "bucket_of_key buckets_of",
        "column_stats": "stats_of",
        "order_value": (
            "NAN_BYTES binary_contents decode_fixed decode_value encode_value encode_values value_width"
        ),
        "partition_path": "partition_dir",
        "row_key": "RowKeyCodec",
    },
)
