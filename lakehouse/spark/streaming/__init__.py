"""Streams of Spark: micro-batches out of tables and into them.

Words: *offset* (a place in a table's history) → *batch* (from one offset to another) → *split*.
"""
