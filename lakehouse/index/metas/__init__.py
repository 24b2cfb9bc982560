"""Enumeration of index metadata, as rows."""
