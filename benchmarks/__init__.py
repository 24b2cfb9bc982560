"""Benchmarks: what the engine costs, next to its peers."""
