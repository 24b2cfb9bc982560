"""Writes: blind, conditional, distributed and streaming; and the flush of the log."""
