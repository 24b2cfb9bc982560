"""Reads of tables in Spark: options, filters, frames, joins, aggregates."""
