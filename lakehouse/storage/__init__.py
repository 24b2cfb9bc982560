"""Primary-key tables: one order of rows, commits that need nothing but a bucket."""
