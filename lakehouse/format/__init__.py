"""Bytes and values, pure: every on-disk format of the engine, without I/O and without async."""
