"""SQL: DuckDB executes, the catalog says what a name is, and all bytes go through our own I/O.

Importing it loads no DuckDB; the extra ``sql`` installs it.
"""
