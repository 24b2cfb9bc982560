"""Finite state transducers of the ``fst`` crate, format version 3."""
