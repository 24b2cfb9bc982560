"""Store URLs: taken apart, checked, and free of credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from lakehouse.errors import InvalidInputError

__all__ = ["Location"]

_SCHEMES = ("s3", "s3a", "file", "local", "memory", "gs", "gcs", "az", "abfs")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_IS_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WORD = re.compile(r"[a-z][a-z0-9]*")
_CHAIN = "::"
_NO_WRAPPERS = {*_SCHEMES, "http", "https"}
"""Schemes that stand last in a chain only; ``::`` is a part of their paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a store's root is."""

    scheme: str
    """``s3``, ``file``, ``memory`` or any other fsspec protocol."""
    path: str
    """Path as fsspec knows it: ``bucket/prefix``, ``/directory``; no slash at the end. In a chain the path
    inside of what follows ``::``, and all that."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """From ``s3://bucket/prefix``, ``file:///directory``, ``memory://name`` or a plain path."""
        # A URL may hold a secret where none belongs, so no message shows one before it was looked through.
        if not url or _CONTROL.search(url):
            raise InvalidInputError(
                "a store URL is not empty and has no control characters: "
                "give s3://bucket/prefix, file:///path or memory://name"
            )
        if _is_chain(url):
            return cls._parse_chain(url)
        word, colon, _ = url.partition(":")
        if "://" not in url and colon and word.lower() in _SCHEMES:
            raise InvalidInputError(f"two slashes follow {word}: in a store URL; write {word}://…")
        if not _IS_URL.match(url):
            return cls(scheme="file", path=str(Path(url).expanduser().absolute()))
        try:
            parts = urlsplit(url)
        except ValueError:
            raise InvalidInputError(
                "this is not a store URL: the part behind :// cannot be a bucket or a host"
            ) from None
        if "@" in parts.netloc:
            raise InvalidInputError(
                "a store URL must not hold credentials (something stands before '@'): "
                "give them as storage_options or in the environment"
            )
        if parts.query or parts.fragment:
            shown = url.partition("?")[0].partition("#")[0]
            raise InvalidInputError(
                f"store URL {shown!r} has a query or fragment (not shown here): "
                "give options as storage_options; write %3F and %23 for ? and # in a file:// path"
            )
        scheme = parts.scheme
        if scheme in ("file", "local"):
            if parts.netloc not in ("", "localhost"):
                raise InvalidInputError(f"store URL {url!r} names a host: write file:///path (three slashes)")
            directory = unquote(parts.path)
            if not directory or _CONTROL.search(directory):
                raise InvalidInputError(f"store URL {url!r} names no directory: write file:///path")
            return cls(scheme="file", path=str(Path(directory)))
        path = (parts.netloc + parts.path).rstrip("/")
        if scheme in ("s3", "s3a"):
            if not parts.netloc:
                raise InvalidInputError(f"store URL {url!r} names no bucket: write s3://bucket/prefix")
            if "//" in path:
                raise InvalidInputError(f"store URL {url!r} has an empty part: remove the double slash")
            scheme = "s3"
        return cls(scheme=scheme, path=path)

    @classmethod
    def _parse_chain(cls, url: str) -> Self:
        first, _, rest = url.partition(_CHAIN)
        scheme, _, path = first.partition("://")
        if any(sign in path for sign in "@?#"):
            raise InvalidInputError(
                "a store URL must not hold credentials, a query or a fragment, in no link of its chain: give "
                "options as storage_options, those of a later link under the name of its scheme"
            )
        return cls(scheme=scheme.lower(), path=f"{path.rstrip('/')}{_CHAIN}{cls.parse(rest).url}")

    @property
    def links(self) -> tuple[Location, ...]:
        """The links of a chain such as ``zip://wh::s3://bucket/wh.zip``, each by itself; else just this."""
        path, chain, rest = self.path.partition(_CHAIN)
        if not chain or self.scheme in _NO_WRAPPERS:
            return (self,)
        return (Location(scheme=self.scheme, path=path), *Location.parse(rest).links)

    @property
    def url(self) -> str:
        """The URL again, in its normal form; parsing it gives the same location."""
        path = self.path
        if self.scheme == "file":  # the one kind whose path is quoted in a URL
            path = path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
        return f"{self.scheme}://{path}"

    @property
    def bucket(self) -> str:
        """First part of the path."""
        return self.path.split("/", 1)[0]

    @property
    def prefix(self) -> str:
        """Rest of the path behind the bucket, with a slash at the end unless empty."""
        _, _, rest = self.path.partition("/")
        return f"{rest}/" if rest else ""


def _is_chain(url: str) -> bool:
    """Whether file systems are put around each other, as ``zip://…::s3://…`` or ``simplecache::/path``."""
    first, chain, rest = url.partition(_CHAIN)
    if not chain:
        return False
    if _IS_URL.match(first):
        return first.partition("://")[0].lower() not in _NO_WRAPPERS
    return bool(_WORD.fullmatch(first) and (_IS_URL.match(rest) or rest.startswith("/") or _CHAIN in rest))
