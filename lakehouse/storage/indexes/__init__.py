"""Index files of data files: built, opened, asked."""
