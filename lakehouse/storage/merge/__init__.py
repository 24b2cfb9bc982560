"""Merging: the rows of one key become one row.

Words: *operand* (a row before it is merged) → *fold* (all operands of a key) → *row*. An *engine* says how;
a *group* is the rows of one key, side by side.
"""
