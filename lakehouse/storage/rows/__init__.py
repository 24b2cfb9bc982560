"""Rows in memory: taken in, fitted to a schema, sorted by key, cut by partition and bucket."""
