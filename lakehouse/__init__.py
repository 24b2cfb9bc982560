"""An async, object-storage-first lakehouse engine: nothing but a bucket."""

from __future__ import annotations

from lakehouse._version import __version__

__all__ = ["__version__"]
