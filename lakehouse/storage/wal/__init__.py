"""The write-ahead log: appended to, read as of a moment, turned into runs."""
