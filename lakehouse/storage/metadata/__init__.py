"""Metadata of a table in its bucket: paths, the dense log, snapshots, manifests, schemas."""
