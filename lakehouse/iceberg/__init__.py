"""Iceberg tables: their metadata read, scans of them planned and read by our own scan."""
