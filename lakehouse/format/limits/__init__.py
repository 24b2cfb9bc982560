"""Bounds for what comes from outside, known before anything is made of it: JSON, Arrow streams, Parquet."""
