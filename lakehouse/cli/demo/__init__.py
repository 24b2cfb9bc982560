"""The demo: ``lakehouse demo`` runs the main job, end to end, on a real object store.

Words: *run* (the whole demo, on a bucket of its own) → *tables* and *Spark* (its two halves).
"""
