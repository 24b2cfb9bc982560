"""Finite state transducers, version 3 of the ``fst`` crate: ordered maps from bytes to numbers.

Words: *map* → *node* → *transition*. *Parts* are the bytes of a map that are at hand; a lookup says which
it would have to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.fst.fst import Fst
    from lakehouse.format.fst.partial import FstParts, MissingBytes
    from lakehouse.format.fst.read import KeyRange

__all__ = [
    "Fst", "FstParts", "KeyRange", "MissingBytes",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "fst": "Fst",
        "partial": "FstParts MissingBytes",
        "read": "KeyRange",
    },
)
