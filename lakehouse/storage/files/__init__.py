"""Data files: written and read, whatever their format."""
