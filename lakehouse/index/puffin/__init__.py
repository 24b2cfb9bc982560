"""Puffin files of a store: read with few requests, written blob by blob."""
