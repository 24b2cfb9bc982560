"""Open tables and their names: found, dropped, brought back, pinned, described."""
