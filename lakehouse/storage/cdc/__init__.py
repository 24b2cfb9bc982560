"""Changes of rows between snapshots."""
