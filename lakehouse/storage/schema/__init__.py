"""Changes of a table's schema, its indexes and the time that rows are shown."""
