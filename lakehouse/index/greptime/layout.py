"""Keys of GreptimeDB's objects, built and parsed: the directories and files of a table.

::

    data/{catalog}/{schema}/{table id}/                        table directory
      {table id}_{region sequence, 10 digits}/                 region directory
        [data/ | metadata/]                                    for a metric engine's two regions
          {file id}.parquet                                    data file
          index/{file id}.puffin                               index file, version 0
          index/{file id}.{version}.puffin                     index file, later versions
          manifest/ staging/manifest/                          see greptime_manifest
          .dropping                                            the region is being dropped

    region id, 64 bits:  table id, 32 | region group, 8 | region sequence, 24

The region group is in no key: two regions of a metric engine share a sequence and differ by
the folder, group 0 in ``data/`` and group 1 in ``metadata/``. So a region id taken from a key is
inferred; only the id in the region's manifest is certain.

Invariants: directories end with ``/``, keys do not begin with it, slashes never double; parsing
a key that was built returns its parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from lakehouse.errors import FormatError, InvalidInputError
from lakehouse.index.region_ids import SEQUENCE_MAX, region_id_of, region_sequence, table_id

__all__ = [
    "DATA_DIRECTORY",
    "DROPPING_MARKER",
    "GreptimeFile",
    "PathType",
    "RegionDir",
    "parse_table_dir",
    "table_dir",
]

DATA_DIRECTORY = "data/"
"""Directory of all regions, below that of a GreptimeDB."""
DROPPING_MARKER = ".dropping"
"""Object that marks a region's directory as being dropped: the next opening deletes the rest of it."""
_U32_MAX = (1 << 32) - 1
_U64_MAX = (1 << 64) - 1
_REGION_NAME = re.compile(r"([0-9]{1,10})_([0-9]{10})")
_FILE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSION = re.compile(r"[0-9]{1,20}")


class PathType(StrEnum):
    """Folder of a region's directory that holds its files."""

    BARE = "bare"
    """No folder: the directory itself."""
    DATA = "data"
    """Folder of the metric engine's rows."""
    METADATA = "metadata"
    """Folder of the metric engine's table of logical tables."""


def table_dir(catalog: str, schema: str, table: int) -> str:
    """Returns the directory of a table, ``data/{catalog}/{schema}/{table}/``."""
    for name in (catalog, schema):
        if not name or "/" in name:
            raise InvalidInputError(f"{name!r} is no name of a catalog or schema: it is one part of a key")
    return f"data/{catalog}/{schema}/{table}/"


def parse_table_dir(path: str) -> tuple[str, str, int]:
    """Returns catalog, schema and table id of a table directory; ignores the part before ``data/``."""
    parts = _parts(path)
    if len(parts) < 4 or parts[-4] != "data" or not _is_table_id(parts[-1]):
        raise _key_error(path, "is no table directory", "data/{catalog}/{schema}/{table id}/")
    return parts[-3], parts[-2], int(parts[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDir:
    """The directory of a region's files, and the parts of its name."""

    table_dir: str
    """Directory of the table, ending with ``/``; empty when the region's directory is at the root."""
    table_id: int
    sequence: int
    path_type: PathType = PathType.BARE

    @classmethod
    def of(cls, table_dir: str, region_id: int, path_type: PathType = PathType.BARE) -> Self:
        """Returns the directory of a region; its group is not part of it."""
        return cls(
            table_dir=_directory(_parts(table_dir)),
            table_id=table_id(region_id),
            sequence=region_sequence(region_id),
            path_type=path_type,
        )

    @property
    def region_id(self) -> int:
        """Id of the region in this directory, if GreptimeDB made it."""
        return region_id_of(self.table_id, self.sequence, int(self.path_type is PathType.METADATA))

    @property
    def path(self) -> str:
        """The directory, ending with ``/``."""
        folder = "" if self.path_type is PathType.BARE else f"{self.path_type.value}/"
        return f"{self.table_dir}{self.table_id}_{self.sequence:010}/{folder}"

    def sst(self, file_id: str) -> str:
        """Returns the key of a data file."""
        return f"{self.path}{_checked(file_id)}.parquet"

    def index(self, file_id: str, version: int = 0) -> str:
        """Returns the key of an index file."""
        if not 0 <= version <= _U64_MAX:
            raise InvalidInputError(f"an index version has 64 bits, {version} does not fit")
        middle = f".{version}" if version else ""
        return f"{self.path}index/{_checked(file_id)}{middle}.puffin"

    @classmethod
    def split(cls, key: str) -> tuple[Self, str] | None:
        """Splits a key into the region it belongs to and the rest; None when it is in no region's directory.

        The rest of a region's own directory is empty.
        """
        parts = _parts(key)
        for place in range(len(parts) - 1, -1, -1):
            named = _REGION_NAME.fullmatch(parts[place])
            if named and int(named[1]) <= _U32_MAX and int(named[2]) <= SEQUENCE_MAX:
                break
        else:
            return None
        rest = parts[place + 1 :]
        is_file = bool(rest) and not key.endswith("/")
        folder = rest[0] if len(rest) > is_file and rest[0] in (PathType.DATA, PathType.METADATA) else None
        region = cls(
            table_dir=_directory(parts[:place]),
            table_id=int(named[1]),
            sequence=int(named[2]),
            path_type=PathType(folder) if folder else PathType.BARE,
        )
        rest = rest[1:] if folder else rest
        return region, "/".join(rest) + ("" if is_file or not rest else "/")

    @classmethod
    def parse(cls, path: str) -> Self:
        """Parses the path of a region's directory."""
        region_and_rest = cls.split(path if path.endswith("/") else f"{path}/")
        if region_and_rest is None or region_and_rest[1]:
            expected = "{table directory}{table id}_{region sequence, 10 digits}/[data/|metadata/]"
            raise _key_error(path, "is no region directory", expected)
        return region_and_rest[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class GreptimeFile:
    """A data file, or an index file of one."""

    region: RegionDir
    """Region that made it: after a repartition another one may refer to it."""
    file_id: str
    """UUID in lower case with hyphens; a data file and its index files share it."""
    index_version: int | None
    """Version of an index file; None for a data file."""

    @property
    def key(self) -> str:
        """Key of the object."""
        if self.index_version is None:
            return self.region.sst(self.file_id)
        return self.region.index(self.file_id, self.index_version)

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parses the key of a file.

        Version 0 and versions with leading zeros are accepted as GreptimeDB does, although it
        never writes them: to read a file, use the key under which it was listed.
        """
        region_and_rest = RegionDir.split(key)
        if region_and_rest is None:
            raise _key_error(key, "is in no region directory", "{table id}_{region sequence, 10 digits}/")
        region, rest = region_and_rest
        folder, _, name = rest.rpartition("/")
        file_id, *versions = name.split(".")
        suffix = versions.pop() if versions else ""
        wanted = {"parquet": "", "puffin": "index"}.get(suffix)
        if wanted is None or folder != wanted or len(versions) > (suffix == "puffin"):
            expected = "{file id}.parquet, index/{file id}.puffin or index/{file id}.{version}.puffin"
            raise _key_error(key, "is neither a data nor an index file", expected)
        if not _FILE_ID.fullmatch(file_id):
            raise _key_error(key, f"has {file_id!r} for a file id", "a UUID, lower case, with hyphens")
        if versions and not (_VERSION.fullmatch(versions[0]) and int(versions[0]) <= _U64_MAX):
            raise _key_error(key, f"has {versions[0]!r} for an index version", f"a number up to {_U64_MAX}")
        version = int(versions[0]) if versions else 0
        return cls(region=region, file_id=file_id, index_version=version if suffix == "puffin" else None)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _directory(parts: list[str]) -> str:
    return "".join(f"{part}/" for part in parts)


def _is_table_id(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,10}", text)) and int(text) <= _U32_MAX


def _checked(file_id: str) -> str:
    if not _FILE_ID.fullmatch(file_id):
        raise InvalidInputError(f"{file_id!r} is no file id: it is a UUID, lower case, with hyphens")
    return file_id


def _key_error(path: str, why: str, expected: str) -> FormatError:
    return FormatError(f"{path!r} {why}: expected {expected}", key=path, expected=expected)
