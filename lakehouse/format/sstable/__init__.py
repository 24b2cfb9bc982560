"""SSTables: sorted rows in blocks that are found by key."""
