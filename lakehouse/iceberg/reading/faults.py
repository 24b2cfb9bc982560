"""Errors about files of a table: which file, and what the metadata say of it.

Invariant: a file that the metadata name and that is missing, cut off or another one is a CorruptionError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.errors import CorruptionError, FormatError, NotFoundError

__all__ = ["check_size", "named"]


@contextmanager
def named(path: str, what: str) -> Iterator[None]:
    """Names the file in errors about its bytes; ``what`` is its part in the table, such as "data file"."""
    try:
        yield
    except NotFoundError as error:
        if error.kind == "missing-bucket":
            raise
        raise CorruptionError(
            f"the {what} {path} is missing: the snapshot needs it, and it was deleted or moved; read a newer "
            "snapshot, or open a copied table with moved=True",
            key=path,
        ) from error
    except FormatError as error:
        if "key" in error.context and error.context["key"] == path:
            raise
        context = {**error.context, "key": path}
        raise type(error)(f"{what} {path}: {error.message}", kind=error.kind, **context) from error


def check_size(expected: int, got: int) -> None:
    """Refuses an object of another size than the manifest says."""
    if expected != got:
        raise CorruptionError(
            f"it has {got:,} bytes, and the manifest says {expected:,}: it was cut off, or another file "
            "stands in its place",
            expected=expected,
            got=got,
        )
