"""Rows of one key become one row."""
