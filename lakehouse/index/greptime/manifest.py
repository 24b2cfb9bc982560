"""Manifests of GreptimeDB regions: computes the files of a region from the bytes of its manifest objects.

A region's state is a checkpoint, when there is one, and the deltas behind it, folded in order.
Names here are relative to the region's directory::

    manifest/{version, 20 digits}.json[.gz]           a delta: a list of actions
    manifest/{version, 20 digits}.checkpoint[.gz]     the state after all deltas up to that version
    manifest/_last_checkpoint                         the pointer to the checkpoint that counts
    staging/manifest/{version, 20 digits}.json[.gz]   deltas of a region that is being repartitioned

:func:`plan_manifest` chooses the names to fetch, :func:`fold_manifest` makes the state of
their bytes; both are pure. ``docs/spec/v1/greptime-manifest.md`` has the details.

Invariant: a folded manifest names the files that GreptimeDB would name with the region open. If
they cannot be known (deltas are missing, an action is of a kind that this release does not know,
bytes are damaged) the result is an error, never a guess.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from lakehouse.errors import (
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    UnsupportedVersionError,
)
from lakehouse.excerpt import short
from lakehouse.format.limits import parse_json
from lakehouse.format.puffin import inflate
from lakehouse.index.greptime.layout import PathType, RegionDir
from lakehouse.index.models import IndexFileLocator

__all__ = [
    "MANIFEST_BYTES_MAX",
    "POINTER_NAME",
    "ManifestFile",
    "ManifestName",
    "ManifestPlan",
    "ManifestPointer",
    "RegionManifest",
    "fold_manifest",
    "plan_manifest",
]

MANIFEST_BYTES_MAX = 128 << 20
"""Default maximum bytes of a manifest object when decompressed."""
POINTER_NAME = "manifest/_last_checkpoint"
"""Name of the pointer to the checkpoint that counts."""
_NAME = re.compile(r"(staging/)?manifest/([0-9]{1,20})\.(json|checkpoint)(\.gz)?")
_U64_MAX = (1 << 64) - 1
_VALUES_MAX = 5_000_000
"""Maximum number of JSON values of a manifest object: a checkpoint has some twenty for each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestName:
    """The parsed name of a delta or a checkpoint."""

    name: str
    version: int
    checkpoint: bool
    staging: bool

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Parses a name; None when it is that of another object."""
        match = _NAME.fullmatch(name)
        if match is None or (match[1] and match[3] == "checkpoint"):
            return None
        return cls(
            name=name,
            version=int(match[2]),
            checkpoint=match[3] == "checkpoint",
            staging=match[1] is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPointer:
    """Content of ``_last_checkpoint``: the checkpoint that counts."""

    version: int
    """Version of the checkpoint."""
    checksum: int | None
    """CRC-32 of the checkpoint's JSON; None in files before 2024-04-09."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decodes the pointer, whose bytes are never compressed."""
        document = _load(POINTER_NAME, data, MANIFEST_BYTES_MAX)
        checksum = document.get("checksum")
        return cls(
            version=_number(document, "version", POINTER_NAME),
            checksum=None if checksum is None else _number(document, "checksum", POINTER_NAME),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlan:
    """The manifest objects that make up the state of a region."""

    checkpoint: ManifestName | None
    deltas: tuple[ManifestName, ...]
    """Deltas behind the checkpoint, in order."""
    staging: tuple[ManifestName, ...]
    """Deltas of a staging region, in order."""
    checksum: int | None
    """Checksum of the checkpoint; None if the pointer does not have it."""

    @property
    def version(self) -> int:
        """Version of the state, staging deltas aside."""
        return max(name.version for name in (self.checkpoint, *self.deltas) if name is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the objects to fetch."""
        first = () if self.checkpoint is None else (self.checkpoint,)
        return tuple(name.name for name in (*first, *self.deltas, *self.staging))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A data file of a region."""

    file_id: str
    region_id: int
    """Region that made it, in whose directory it is."""
    index_file_size: int
    """Bytes of its index file; 0 when it has none."""
    index_version: int
    """Version of its index file that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionManifest:
    """The state of a region."""

    region_id: int
    version: int
    """Version of the last delta that is in it, staging deltas aside."""
    files: Mapping[str, ManifestFile]
    """Data files by file id."""

    def index_files(
        self, table_dir: str, path_type: PathType, *, node_id: int | None = None
    ) -> list[IndexFileLocator]:
        """Returns the locators of the index files, by file id; leaves out files without an index."""
        origins: dict[int, RegionDir] = {}
        locators = []
        for file_id, file in sorted(self.files.items()):
            if file.index_file_size:
                origin = origins.get(file.region_id)
                if origin is None:
                    origin = origins[file.region_id] = RegionDir.of(table_dir, file.region_id, path_type)
                locator = IndexFileLocator(
                    table_dir=origin.table_dir,
                    region_id=self.region_id,
                    file_id=file_id,
                    node_id=node_id,
                    index_file_path=origin.index(file_id, file.index_version),
                    index_file_size=file.index_file_size,
                )
                locators.append(locator)
        return locators


def plan_manifest(names: Iterable[str], pointer: ManifestPointer | None = None) -> ManifestPlan:
    """Chooses the objects to fetch from a listing of a region's directory.

    Args:
        names: names relative to the region's directory; those of other objects are ignored.
        pointer: content of ``_last_checkpoint``. Without it the newest checkpoint counts, and its
            bytes cannot be checked against the pointer's checksum.

    Raises:
        NotFoundError: there is no manifest; GreptimeDB would report that there is no region.
        CorruptionError: deltas are missing, so the state cannot be known.
    """
    parsed = sorted(filter(None, map(ManifestName.parse, names)), key=lambda name: name.version)
    checkpoints = {name.version: name for name in parsed if name.checkpoint}
    deltas = [name for name in parsed if not name.checkpoint and not name.staging]
    if not checkpoints and not deltas:
        raise NotFoundError("there is no manifest in the region's directory: it is no region of GreptimeDB")
    pointed = checkpoints.get(pointer.version) if pointer is not None else None
    checkpoint = pointed or (checkpoints[max(checkpoints)] if checkpoints else None)
    if checkpoint is None and deltas[0].version:
        raise CorruptionError(
            f"the region's manifest begins with {deltas[0].name!r} and has no checkpoint: earlier deltas are "
            "missing, list the region's files instead",
            key=deltas[0].name,
            expected=0,
            got=deltas[0].version,
        )
    plan = ManifestPlan(
        checkpoint=checkpoint,
        deltas=tuple(name for name in deltas if checkpoint is None or name.version > checkpoint.version),
        staging=(),
        checksum=pointer.checksum if pointer is not None and pointed is not None else None,
    )
    # Staging deltas up to the state's version are merged into it already, and were left by a crash.
    staging = tuple(name for name in parsed if name.staging and name.version > plan.version)
    return replace(plan, staging=staging)


def fold_manifest(
    plan: ManifestPlan, contents: Mapping[str, bytes], *, max_bytes: int = MANIFEST_BYTES_MAX
) -> RegionManifest:
    """Computes the state of a region.

    Args:
        plan: the objects that :func:`plan_manifest` chose.
        contents: the bytes of the object of each of the plan's names.
        max_bytes: maximum bytes of one of them when decompressed.
    """

    def load(item: ManifestName, checksum: int | None = None) -> Mapping[str, Any]:
        if item.name not in contents:
            raise InvalidInputError(f"pass the bytes of all of the plan's names: {item.name!r} is missing")
        return _load(item.name, contents[item.name], max_bytes, checksum)

    state = _State()
    if plan.checkpoint is not None:
        state.restore(plan.checkpoint.name, load(plan.checkpoint, plan.checksum))
    for delta in plan.deltas:
        state.apply(delta.name, load(delta))
    if state.region_id is None:
        raise CorruptionError(
            "nothing in the region's manifest says which region it is: the first delta is missing or empty",
            expected="an action Change",
            got=plan.names,
        )
    files = dict(state.files)
    for delta in plan.staging:
        state.apply(delta.name, load(delta))
    # Files that a staging region removed stay listed until it leaves staging, hence the union.
    return RegionManifest(region_id=state.region_id, version=plan.version, files=files | state.files)


class _State:
    """State of a region while actions are applied to it."""

    def __init__(self) -> None:
        self.region_id: int | None = None
        self.files: dict[str, ManifestFile] = {}

    def restore(self, name: str, document: Mapping[str, Any]) -> None:
        """Starts from a checkpoint; an empty one changes nothing."""
        manifest = document.get("checkpoint")
        if manifest is None:
            return
        manifest = _object(manifest, "checkpoint", name)
        self._change(manifest, name)
        for file in _object(manifest.get("files"), "files", name).values():
            self._add(file, name)

    def apply(self, name: str, document: Mapping[str, Any]) -> None:
        """Applies the actions of a delta."""
        for action in _list(document, "actions", name):
            tagged = _object(action, "action", name)
            if len(tagged) != 1:
                raise _manifest_error(name, "an action is not one of its kind", "one key", sorted(tagged))
            ((kind, value),) = tagged.items()
            body = _object(value, kind, name)
            match kind:
                case "Change":
                    self._change(body, name)
                case "Edit":
                    for file in _list(body, "files_to_add", name):
                        self._add(file, name)
                    self._remove(body, name)
                case "Truncate":
                    # Two forms share the tag: one has two numbers and empties the region, one has a list.
                    if body.get("truncated_entry_id") is not None:
                        self.files.clear()
                    else:
                        self._remove(body, name)
                case "Remove" | "PartitionExprChange":
                    pass  # they change no list of files
                case _:
                    raise UnsupportedVersionError(
                        f"{name}: GreptimeDB's action {short(kind)} is unknown to this release: upgrade "
                        "lakehouse, or list the region's files instead",
                        key=name,
                        got=short(kind),
                    )

    def _change(self, body: Mapping[str, Any], name: str) -> None:
        metadata = _object(body.get("metadata"), "metadata", name)
        self.region_id = _number(metadata, "region_id", name)

    def _add(self, document: object, name: str) -> None:
        table = _object(document, "file", name)
        file = ManifestFile(
            file_id=_file_id(table, name),
            region_id=_number(table, "region_id", name),
            index_file_size=_number(table, "index_file_size", name, 0),
            index_version=_number(table, "index_version", name, 0),
        )
        self.files[file.file_id] = file

    def _remove(self, body: Mapping[str, Any], name: str) -> None:
        for document in _list(body, "files_to_remove", name):
            self.files.pop(_file_id(_object(document, "file", name), name), None)


def _load(name: str, data: bytes, max_bytes: int, checksum: int | None = None) -> Mapping[str, Any]:
    """Decompresses, verifies and parses the bytes of a manifest object."""
    if name.endswith(".gz"):
        data = inflate("gzip", data, max_bytes=max_bytes, what=name)
    if checksum is not None and (got := zlib.crc32(data)) != checksum:
        raise _manifest_error(name, "the checkpoint does not match its checksum", checksum, got)
    try:
        document = parse_json(data, values_max=_VALUES_MAX)
    except ValueError as error:
        raise CorruptionError(f"{name} is not JSON: {error}", key=name, expected="JSON") from error
    return _object(document, "document", name)


def _object(value: object, what: str, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _manifest_error(name, f"{what} is no JSON object", "object", value)
    return value


def _list(table: Mapping[str, Any], key: str, name: str) -> list[Any]:
    value = table.get(key)
    if not isinstance(value, list):
        raise _manifest_error(name, f"{key} is no list", "list", value)
    return value


def _number(table: Mapping[str, Any], key: str, name: str, default: int | None = None) -> int:
    """Reads a u64; a region id may be text, which serde's flattening requires."""
    value = table.get(key, default)
    if key == "region_id" and isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value):
        value = int(value)
    if type(value) is not int or not 0 <= value <= _U64_MAX:
        raise _manifest_error(name, f"{key} is no number of 64 bits", "0..2^64-1", value)
    return value


def _file_id(table: Mapping[str, Any], name: str) -> str:
    value = table.get("file_id")
    try:
        return str(uuid.UUID(value))
    except (AttributeError, TypeError, ValueError) as error:
        raise _manifest_error(name, "file_id is no UUID", "a UUID", value) from error


def _manifest_error(name: str, what: str, expected: object, got: object) -> CorruptionError:
    return CorruptionError(f"{name}: {what}: {short(got)}", key=name, expected=expected, got=short(got))
