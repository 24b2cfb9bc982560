"""Index blobs: bloom filters, inverted indexes, fulltext indexes, and what they are made of."""
