"""Store URLs: taken apart, checked, and free of credentials."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from lakehouse.errors import InvalidInputError

__all__ = ["Location"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a store's root is."""

    scheme: str
    """``s3``, ``file``, ``memory`` or any other fsspec protocol."""
    path: str
    """What fsspec calls the path: ``bucket/prefix``, ``/directory``; no slash at the end."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """From ``s3://bucket/prefix``, ``file:///directory``, ``memory://name`` or a plain path."""
        if not url or any(ord(char) < 32 for char in url):
            raise InvalidInputError(
                f"{url!r} is not a store URL: give s3://bucket/prefix, file:///path or memory://name"
            )
        if "://" not in url:
            return cls(scheme="file", path=str(Path(url).expanduser().absolute()))
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise InvalidInputError(
                "a store URL must not hold credentials (something stands before '@'): "
                "give them as storage_options or in the environment"
            )
        if parts.query or parts.fragment:
            raise InvalidInputError(
                f"store URL {url!r} has a query or fragment: give options as storage_options"
            )
        scheme = parts.scheme.lower()
        if scheme in ("file", "local"):
            if parts.netloc not in ("", "localhost"):
                raise InvalidInputError(f"store URL {url!r} names a host: write file:///path (three slashes)")
            return cls(scheme="file", path=str(Path(unquote(parts.path) or "/")))
        path = (parts.netloc + parts.path).rstrip("/")
        if scheme in ("s3", "s3a"):
            if not parts.netloc:
                raise InvalidInputError(f"store URL {url!r} names no bucket: write s3://bucket/prefix")
            if "//" in path:
                raise InvalidInputError(f"store URL {url!r} has an empty part: remove the double slash")
            scheme = "s3"
        return cls(scheme=scheme, path=path)

    @property
    def url(self) -> str:
        """The URL again, in its normal form."""
        return f"{self.scheme}://{self.path}"

    @property
    def bucket(self) -> str:
        """First part of the path."""
        return self.path.split("/", 1)[0]

    @property
    def prefix(self) -> str:
        """What follows the bucket, with a slash at the end unless empty."""
        _, _, rest = self.path.partition("/")
        return f"{rest}/" if rest else ""
