"""Places of a table's files: paths of the metadata become a store and a key in it.

Metadata name their files by absolute paths: URLs in several spellings, or plain paths. What may be read is
what lies below the directory that was opened, below the table's own ``location``, below what its properties
``write.data.path`` and ``write.metadata.path`` say within the same bucket, and below the places that the
caller names. Metadata that somebody else wrote cannot point anywhere else.

Invariant: one store per place, found by the longest prefix; keys are the bytes of the path, so that percent
signs and spaces stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from lakehouse.clock import Clock
from lakehouse.config import IoSettings, Settings
from lakehouse.errors import InvalidInputError
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.renewing import Credentials, Renew, RenewingStore
from lakehouse.iceberg.scopes import Scope, store_digest
from lakehouse.io import ObjectStore, open_store
from lakehouse.io.lent import LentStore
from lakehouse.io.location import Location

__all__ = ["Locations", "Place", "path_location"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SPELLINGS = {"s3a": "s3", "s3n": "s3", "local": "file", "gcs": "gs"}
_PATH_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Properties by which a table puts its files elsewhere; the last two are older names of the first."""
_LENDER = ("table", "await lakehouse.iceberg.open(…) as table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file of the table."""

    store: ObjectStore
    key: str
    root: str
    """URL of the store's root, which tells keys of several stores apart."""


def path_location(path: str) -> Location:
    """Returns where a path of the metadata points, whatever its spelling; nothing in it is unquoted."""
    found = _URL.match(path)
    if found is None:
        # Hadoop writes file:/directory, with one slash.
        return Location(scheme="file", path=path.removeprefix("file:").rstrip("/"))
    scheme = _SPELLINGS.get(found[1].lower(), found[1].lower())
    rest = found[2].removeprefix("localhost") if scheme == "file" else found[2]
    return Location(scheme=scheme, path=rest.rstrip("/"))


@dataclass(slots=True)
class _Root:
    """A place below which files may be, and the store that is opened there."""

    location: Location
    store: LentStore
    shown: str


class Locations:
    """The stores of one table. Picklable; connections begin when they are used.

    Args:
        url: the directory that was opened.
        storage_options: how its files are reached, and those of all other places.
        locations: further places where files of the table may be, as URLs.
        moved: files below the ``location`` of the metadata are looked up below the opened directory: the
            table was copied there.
        settings: bounds and time-outs.
        clock: for tests.
        renew: asks for storage options with fresh credentials, when those there are were refused. Places that
            are unpickled elsewhere have the options of the moment and nobody to ask.
        scope: whose content the table is given; None = it shares none.
    """

    def __init__(
        self,
        url: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        locations: Sequence[str] = (),
        moved: bool = False,
        settings: Settings | IoSettings | None = None,
        clock: Clock | None = None,
        renew: Renew | None = None,
        scope: Scope | None = None,
    ) -> None:
        if isinstance(locations, str):
            raise InvalidInputError(f"locations= is a list of URLs, such as [{locations!r}]")
        self._open: dict[str, Any] = {"settings": settings, "clock": clock}
        self.scope = scope or Scope()
        self._storage_options = storage_options
        # Tables of catalogs outlive credentials: those of a moment, and those that are replaced.
        is_renewed = renew is not None or scope is not None
        self._credentials = Credentials(storage_options, renew) if is_renewed else None
        self._roots: list[_Root] = []
        self.opened = Location.parse(url)
        self.moved = moved
        self._moved_from: Location | None = None
        self._admit(self.opened)
        self.store: ObjectStore = self._roots[0].store
        """Store of the directory that was opened."""
        for named in locations:
            self._admit(Location.parse(named))

    def __reduce__(self) -> tuple[Any, ...]:
        named = [root.location.url for root in self._roots]
        opening = {**self._open, "storage_options": self.storage_options}
        return _unpickled, (self.opened.url, opening, named, self.moved, self._moved_from)

    @property
    def storage_options(self) -> Mapping[str, Any] | None:
        """Options that files are reached with now."""
        return self._storage_options if self._credentials is None else self._credentials.options

    @property
    def store_digest(self) -> str:
        """Digest of where files are, the same for all who ask the same store; empty = nobody else is told."""
        return store_digest(self.storage_options) if self.opened.scheme == "s3" else ""

    async def rotate(self, storage_options: Mapping[str, Any] | None, *, is_handed_out: bool = False) -> None:
        """Replaces the options of a table of a catalog; requests under way end with the old ones.

        Args:
            storage_options: used from the next request on.
            is_handed_out: credentials come with the table: they are asked for first.
        """
        if self._credentials is not None:
            self._storage_options = None
            await self._credentials.replace(storage_options, is_refused=is_handed_out)

    def admit(self, metadata: TableMetadata) -> None:
        """Admits the places that a table's metadata name: its location, and paths in the same bucket."""
        location = path_location(metadata.location)
        if self.moved:
            self._moved_from = location
            return
        if location.scheme != self.opened.scheme:
            raise InvalidInputError(
                f"{metadata.path}: the table says that it is at {metadata.location}, and was opened at "
                f"{self.opened.url}: open it there, or pass moved=True if all of it was copied",
                location=metadata.location,
            )
        self._admit(location)
        for name in _PATH_PROPERTIES:
            if name in metadata.properties:
                elsewhere = path_location(metadata.properties[name])
                if (elsewhere.scheme, _bucket(elsewhere)) == (location.scheme, _bucket(location)):
                    self._admit(elsewhere)

    def find(self, path: str) -> Place:
        """Returns the place of a file.

        Raises:
            InvalidInputError: it is not below a place of the table; the message says what to pass.
        """
        wanted = path_location(path)
        if self._moved_from is not None:
            wanted = _moved(wanted, self._moved_from, self.opened)
        for root in self._roots:  # the longest first
            key = _key(wanted, root.location)
            if key:
                return Place(store=root.store, key=key, root=root.shown)
        raise self._elsewhere_error(path, wanted)

    def _elsewhere_error(self, path: str, wanted: Location) -> InvalidInputError:
        known = ", ".join(root.shown for root in self._roots)
        folder = Location(scheme=wanted.scheme, path=wanted.path.rpartition("/")[0]).url
        copied = "" if self.moved else ", or moved=True if the whole table was copied to where it was opened"
        return InvalidInputError(
            f"the file {path!r} lies outside of the table's places ({known}): if it may be read, pass "
            f"locations=[{folder!r}]{copied}",
            path=path,
        )

    def _admit(self, location: Location) -> None:
        """Adds a place, unless another that is known holds it."""
        if not any(_is_below(location, root.location) for root in self._roots):
            store = LentStore(self._opened(location.url), is_owned=True, lender=_LENDER)
            self._roots.append(_Root(location, store, location.url))
            self._roots.sort(key=lambda root: len(root.location.path), reverse=True)

    def _opened(self, url: str) -> ObjectStore:
        if self._credentials is None:
            return open_store(url, storage_options=self._storage_options, **self._open)
        return RenewingStore(
            self._credentials, lambda options: open_store(url, storage_options=options, **self._open)
        )

    def stores(self) -> Iterator[ObjectStore]:
        """Yields the stores of all places that are known so far."""
        yield from (root.store for root in self._roots)

    async def __aenter__(self) -> Self:
        for root in self._roots:
            await root.store.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Gives all connections back; further reads are refused."""
        for root in self._roots:
            await root.store.aclose()


def _unpickled(
    url: str, opening: dict[str, Any], named: list[str], moved: bool, moved_from: Location | None
) -> Locations:
    """Makes the places again where they were unpickled, with stores that connect when they are used."""
    made = Locations(url, locations=named, moved=moved, **opening)
    made._moved_from = moved_from
    return made


def _bucket(location: Location) -> str:
    return "" if location.scheme == "file" else location.bucket


def _is_below(location: Location, root: Location) -> bool:
    return location == root or bool(_key(location, root))


def _key(wanted: Location, root: Location) -> str:
    """Returns the part of a path below a root; empty when it is not below."""
    base = f"{root.path.rstrip('/')}/"
    if wanted.scheme != root.scheme or not wanted.path.startswith(base):
        return ""
    return wanted.path[len(base) :]


def _moved(wanted: Location, old: Location, new: Location) -> Location:
    key = _key(wanted, old)
    return Location(scheme=new.scheme, path=f"{new.path}/{key}") if key else wanted
