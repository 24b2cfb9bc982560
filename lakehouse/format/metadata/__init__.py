"""Metadata of a table as objects: snapshots, manifests, entries of files, pointers, markers, log segments."""
