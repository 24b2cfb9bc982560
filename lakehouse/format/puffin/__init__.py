"""Puffin files: blobs, their codecs, and Iceberg's own blobs."""
