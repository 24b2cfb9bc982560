"""Values and keys as bytes that sort: row keys, buckets, partitions, bounds of columns."""
