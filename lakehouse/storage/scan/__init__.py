"""Scans: files planned and pruned, sections read and merged, lookups, aggregates, splits."""
