"""Planning of scans of Iceberg tables.

Words: *task* (a data file to read) → *delete file* (rows of it that are deleted).
"""
