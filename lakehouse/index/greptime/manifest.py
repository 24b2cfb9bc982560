"""Manifests of GreptimeDB regions: which files a region has, from the bytes of its manifest objects.

A region's state is a checkpoint, when there is one, and the deltas behind it, folded in order.
Names here are relative to the region's directory::

    manifest/{version, 20 digits}.json[.gz]           a delta: a list of actions
    manifest/{version, 20 digits}.checkpoint[.gz]     the state after all deltas up to that version
    manifest/_last_checkpoint                         which checkpoint counts
    staging/manifest/{version, 20 digits}.json[.gz]   deltas of a region that is being repartitioned

:func:`plan_manifest` says which of the names to fetch, :func:`fold_manifest` makes the state of
their bytes; both are pure. ``docs/spec/v1/greptime-manifest.md`` has the details.

Invariant: a manifest that was folded names the files that GreptimeDB would name with the region
open. Where that cannot be known (deltas are missing, an action is of a kind nobody knew when this
was written, bytes are damaged) there is an error, never a guess.
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
"""Most bytes that an object of a manifest may have when decompressed, unless the caller says otherwise."""
POINTER_NAME = "manifest/_last_checkpoint"
"""Name of the pointer to the checkpoint that counts."""
_NAME = re.compile(r"(staging/)?manifest/([0-9]{1,20})\.(json|checkpoint)(\.gz)?")
_U64_MAX = (1 << 64) - 1
_VALUES_MAX = 5_000_000
"""Most values of one object of a manifest: a checkpoint has some twenty for each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestName:
    """The name of a delta or a checkpoint, taken apart."""

    name: str
    version: int
    checkpoint: bool
    staging: bool

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """None when it is the name of something else."""
        found = _NAME.fullmatch(name)
        if found is None or (found[1] and found[3] == "checkpoint"):
            return None
        return cls(
            name=name,
            version=int(found[2]),
            checkpoint=found[3] == "checkpoint",
            staging=found[1] is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPointer:
    """What ``_last_checkpoint`` says."""

    version: int
    """Of the checkpoint."""
    checksum: int | None
    """CRC-32 of the checkpoint's JSON; None in files before 2024-04-09."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The pointer from its bytes, which are never compressed."""
        document = _load(POINTER_NAME, data, MANIFEST_BYTES_MAX)
        checksum = document.get("checksum")
        return cls(
            version=_number(document, "version", POINTER_NAME),
            checksum=None if checksum is None else _number(document, "checksum", POINTER_NAME),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlan:
    """Which objects make up the state of a region."""

    checkpoint: ManifestName | None
    deltas: tuple[ManifestName, ...]
    """Behind the checkpoint, in order."""
    staging: tuple[ManifestName, ...]
    """Deltas of a staging region, in order."""
    checksum: int | None
    """Of the checkpoint, where the pointer has it."""

    @property
    def version(self) -> int:
        """Of the state, staging deltas aside."""
        return max(found.version for found in (self.checkpoint, *self.deltas) if found is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """What to fetch."""
        first = () if self.checkpoint is None else (self.checkpoint,)
        return tuple(found.name for found in (*first, *self.deltas, *self.staging))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A data file of a region."""

    file_id: str
    region_id: int
    """The region that made it, in whose directory it is."""
    index_file_size: int
    """Bytes of its index file; 0 when it has none."""
    index_version: int
    """Which of its index files counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionManifest:
    """The state of a region."""

    region_id: int
    version: int
    """Of the last delta that is in it, staging deltas aside."""
    files: Mapping[str, ManifestFile]
    """By file id."""

    def index_files(
        self, table_dir: str, path_type: PathType, *, node_id: int | None = None
    ) -> list[IndexFileLocator]:
        """Where the index files are, by file id; files without an index are left out."""
        origins: dict[int, RegionDir] = {}
        found = []
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
                found.append(locator)
        return found


def plan_manifest(names: Iterable[str], pointer: ManifestPointer | None = None) -> ManifestPlan:
    """Which objects to fetch, of a listing of a region's directory.

    Args:
        names: relative to the region's directory; names of other things are passed over.
        pointer: what ``_last_checkpoint`` says. Without it the newest checkpoint counts, and its
            bytes cannot be checked against the pointer's checksum.

    Raises:
        NotFoundError: there is no manifest; GreptimeDB would say that there is no region.
        CorruptionError: deltas are missing, so the state cannot be told.
    """
    found = sorted(filter(None, map(ManifestName.parse, names)), key=lambda name: name.version)
    checkpoints = {name.version: name for name in found if name.checkpoint}
    deltas = [name for name in found if not name.checkpoint and not name.staging]
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
    # Staging deltas up to the state's version are merged into it; a crash kept them from being cleared.
    staging = tuple(name for name in found if name.staging and name.version > plan.version)
    return replace(plan, staging=staging)


def fold_manifest(
    plan: ManifestPlan, contents: Mapping[str, bytes], *, max_bytes: int = MANIFEST_BYTES_MAX
) -> RegionManifest:
    """The state of a region.

    Args:
        plan: what :func:`plan_manifest` chose.
        contents: the bytes of each of the plan's names.
        max_bytes: most bytes that one of them may have when decompressed.
    """

    def load(found: ManifestName, checksum: int | None = None) -> Mapping[str, Any]:
        if found.name not in contents:
            raise InvalidInputError(f"pass the bytes of all of the plan's names: {found.name!r} is missing")
        return _load(found.name, contents[found.name], max_bytes, checksum)

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
    # What a staging region took out of its manifest stays listed until it leaves staging.
    return RegionManifest(region_id=state.region_id, version=plan.version, files=files | state.files)


class _State:
    """A region's files while actions are applied to them."""

    def __init__(self) -> None:
        self.region_id: int | None = None
        self.files: dict[str, ManifestFile] = {}

    def restore(self, name: str, document: Mapping[str, Any]) -> None:
        """Begins with a checkpoint."""
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
                raise _bad(name, "an action is not one of its kind", "one key", sorted(tagged))
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
                    # Two forms share the tag: one with two numbers empties the region, one has a list.
                    if body.get("truncated_entry_id") is not None:
                        self.files.clear()
                    else:
                        self._remove(body, name)
                case "Remove" | "PartitionExprChange":
                    pass
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
    """The JSON object of a manifest object's bytes."""
    if name.endswith(".gz"):
        data = inflate("gzip", data, max_bytes=max_bytes, what=name)
    if checksum is not None and (got := zlib.crc32(data)) != checksum:
        raise _bad(name, "the checkpoint does not match its checksum", checksum, got)
    try:
        document = parse_json(data, values_max=_VALUES_MAX)
    except ValueError as error:
        raise CorruptionError(f"{name} is not JSON: {error}", key=name, expected="JSON") from error
    return _object(document, "document", name)


def _object(value: object, what: str, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _bad(name, f"{what} is no JSON object", "object", value)
    return value


def _list(table: Mapping[str, Any], key: str, name: str) -> list[Any]:
    value = table.get(key)
    if not isinstance(value, list):
        raise _bad(name, f"{key} is no list", "list", value)
    return value


def _number(table: Mapping[str, Any], key: str, name: str, default: int | None = None) -> int:
    """A u64; region ids may be text, which serde's flattening needs."""
    value = table.get(key, default)
    if key == "region_id" and isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value):
        value = int(value)
    if type(value) is not int or not 0 <= value <= _U64_MAX:
        raise _bad(name, f"{key} is no number of 64 bits", "0..2^64-1", value)
    return value


def _file_id(table: Mapping[str, Any], name: str) -> str:
    value = table.get("file_id")
    try:
        return str(uuid.UUID(value))
    except (AttributeError, TypeError, ValueError) as error:
        raise _bad(name, "file_id is no UUID", "a UUID", value) from error


def _bad(name: str, what: str, expected: object, got: object) -> CorruptionError:
    return CorruptionError(f"{name}: {what}: {short(got)}", key=name, expected=expected, got=short(got))
