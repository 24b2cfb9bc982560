"""The demo: ``lakehouse demo`` runs the main job, end to end, on a real object store."""
