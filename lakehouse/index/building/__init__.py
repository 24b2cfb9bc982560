"""Building of indexes from rows."""
