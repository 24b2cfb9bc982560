"""From a URL to a store that retries, is bounded, and counts what it does."""

from __future__ import annotations

import importlib
import importlib.util
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakehouse._version import install_command
from lakehouse.clock import Clock
from lakehouse.config import RESERVED_ENV, CatalogConfig, IoSettings, Settings
from lakehouse.errors import InvalidInputError
from lakehouse.io.backends.backend import StoreBackend
from lakehouse.io.decorators import InstrumentedStore, LimitedStore, innermost
from lakehouse.io.location import Location
from lakehouse.io.options import StorageOptions
from lakehouse.io.proofs.proof import gated
from lakehouse.io.retry import RetryPolicy
from lakehouse.io.retrying import RetryingStore
from lakehouse.io.store import ObjectStore
from lakehouse.io.work.memory_limit import settings_of_memory

__all__ = [
    "load_catalogs", "load_settings", "open_backend", "open_beside", "open_store", "stacked",
    "understood_options",
]  # fmt: skip

_BACKENDS = {
    "s3": ("lakehouse.io.backends.s3", "S3Backend"),
    "file": ("lakehouse.io.backends.local", "LocalBackend"),
    "memory": ("lakehouse.io.backends.memory", "MemoryBackend"),
    "http": ("lakehouse.io.backends.http", "HttpBackend"),
    "https": ("lakehouse.io.backends.http", "HttpBackend"),
    "*": ("lakehouse.io.backends.files", "FsspecBackend"),
}
"""Backends by scheme, named and not imported: botocore alone takes half a second to load."""
_OPTIONS = {
    "s3": ("lakehouse.io.backends.s3_options", "s3_options"),
    "*": ("lakehouse.io.backends.class_options", "class_options"),
}
"""By scheme, the function that reads storage options."""


def open_store(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | IoSettings | None = None,
    clock: Clock | None = None,
) -> ObjectStore:
    """The store at ``url``; nothing is contacted before the first request.

    Args:
        url: ``s3://bucket/prefix``, ``file:///path`` or a plain path, ``memory://name``, any other
            scheme fsspec knows, or a chain such as ``zip://wh::s3://bucket/wh.zip``.
        storage_options: fsspec's options for that scheme (``key``, ``secret``,
            ``endpoint_url``, …); for S3 the spellings of delta-rs and pyiceberg and the ``AWS_``
            environment work too. A name without effect is an error.
        settings: bounds and time-outs; from the environment and the file when not given.
        clock: for tests.

    Example::

        async with open_store("s3://bucket/warehouse") as store:
            tail = await store.get_tail("index.puffin", 8192)
    """
    backend = open_backend(url, storage_options=storage_options, settings=settings)
    return stacked(backend, clock=clock)


def open_beside(
    near: ObjectStore, url: str, *, settings: Settings, clock: Clock | None = None
) -> ObjectStore:
    """The store at ``url``, with the storage options of another where both are of one scheme.

    Args:
        near: store whose credentials are those of whoever asks.
        url: as for :func:`open_store`.
        settings: bounds.
        clock: for tests.
    """
    backend = innermost(near)
    options: dict[str, Any] | None = None
    if isinstance(backend, StoreBackend) and backend.location.scheme == Location.parse(url).scheme:
        options = backend.options.reveal()
    return open_store(url, storage_options=options, settings=settings, clock=clock)


def stacked(backend: ObjectStore, *, clock: Clock | None = None) -> ObjectStore:
    """The usual decorators around a backend; see :mod:`lakehouse.io.decorators`."""
    limited = LimitedStore(InstrumentedStore(backend))
    policy = RetryPolicy.of(backend.settings, clock)
    return gated(RetryingStore(limited, policy), policy)


def open_backend(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | IoSettings | None = None,
) -> ObjectStore:
    """The bare backend: every verb one request, nothing repeated, nothing counted."""
    location = Location.parse(url)
    options = understood_options(location, storage_options)
    if settings is None:
        settings = load_settings()
    bounds = settings.io if isinstance(settings, Settings) else settings
    backend: ObjectStore = _loaded(_BACKENDS, location)(location, options, bounds)
    return _with_fast_reads(backend) if location.scheme == "s3" else backend


def understood_options(location: Location, *layers: Mapping[str, Any] | None) -> StorageOptions:
    """The options in the words of the scheme's file system, later layers before earlier ones.

    For ``s3://`` the spellings of object_store (delta-rs, polars) and pyiceberg are understood. A name that
    nobody knows, two of one layer that contradict each other, and one without effect are errors. Nothing is
    contacted.
    """
    found: dict[str, Any] = {}
    for layer in layers:
        if layer:
            found = _over(found, _chain_options(location.links, StorageOptions(layer).reveal()))
    return StorageOptions(found)


def _chain_options(links: tuple[Location, ...], given: dict[str, Any]) -> dict[str, Any]:
    """The options of the first link of a chain, and those of later links under the names of their schemes."""
    later = {link.scheme: given.pop(link.scheme) for link in links[1:] if link.scheme in given}
    for link in links[1:]:
        if link.scheme in later:
            if not isinstance(later[link.scheme], Mapping):
                raise InvalidInputError(
                    f"storage option {link.scheme!r} is a mapping: the options of {link.scheme}://",
                    option=link.scheme,
                )
            later[link.scheme] = _loaded(_OPTIONS, link)(link, later[link.scheme])
    first = _loaded(_OPTIONS, links[0])(links[0], given) if given else {}
    return {**first, **later}


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, inner mappings too; what stands above wins."""
    both = {
        name: _over(below[name], value)
        for name, value in above.items()
        if _are_mappings(below.get(name), value)
    }
    return {**below, **above, **both}


def _are_mappings(*values: object) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _loaded(table: Mapping[str, tuple[str, str]], location: Location) -> Any:
    module, name = table.get(location.scheme, table["*"])
    return getattr(importlib.import_module(module), name)


def _with_fast_reads(backend: ObjectStore) -> ObjectStore:
    wanted = backend.settings.fast_reads
    if wanted == "off":
        return backend
    missing = importlib.util.find_spec("obstore") is None
    fast = importlib.import_module("lakehouse.io.backends.fast")
    options = None if missing else fast.fast_options(backend, os.environ)
    if options is not None:
        reading: ObjectStore = fast.FastReads(backend, options)
        return reading
    if wanted == "require":
        why = (
            f"the [fast] extra is not installed: {install_command('fast')}"
            if missing
            else "obstore has no counterpart for these storage options (credentials must be explicit)"
        )
        raise InvalidInputError(
            f"io.fast_reads = require, but {why}", kind="missing-extra" if missing else "unsupported"
        )
    return backend


def load_settings(
    overrides: Mapping[str, object] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    path: str | None = None,
) -> Settings:
    """Settings from arguments, then ``LAKEHOUSE_…`` variables, a TOML file, the container's memory.

    The file is ``path``, or what ``LAKEHOUSE_CONFIG`` names; without either there is none.
    """
    env = os.environ if env is None else env
    return Settings.resolve(overrides, env=env, file=_configuration(env, path), derived=settings_of_memory())


def load_catalogs(*, env: Mapping[str, str] | None = None, path: str | None = None) -> CatalogConfig:
    """Catalogs and accounts of the file that :func:`load_settings` reads."""
    return CatalogConfig.of_file(_configuration(os.environ if env is None else env, path))


def _configuration(env: Mapping[str, str], path: str | None) -> Mapping[str, object]:
    path = path or env.get(RESERVED_ENV[0])
    if not path:
        return {}
    try:
        with Path(path).expanduser().open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InvalidInputError(f"the configuration file {path!r} cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the configuration file {path!r} is not TOML: {error}") from error
