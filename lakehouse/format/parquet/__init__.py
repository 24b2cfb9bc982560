"""Parquet runs: row groups written, found, checked and decoded."""
