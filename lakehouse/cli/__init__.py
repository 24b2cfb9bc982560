"""The ``lakehouse`` command."""

from __future__ import annotations

from lakehouse.cli.app import main

__all__ = ["main"]
