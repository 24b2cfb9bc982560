"""Search of a file's indexes: conditions, probes, rounds, selections of rows."""
