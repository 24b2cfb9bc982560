"""Compaction: runs picked, merged and replaced; clustering and rescaling."""
