"""Streams of Spark: from tables and into them."""
