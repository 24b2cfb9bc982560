"""Storage options of S3 stores: every spelling that is understood, as s3fs' own, and the rest refused.

Invariant: after :func:`s3_options` each option stands once, where s3fs takes it; nothing is dropped that
was meant to have an effect.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import s3fs
from botocore.config import Config
from botocore.session import Session

from lakehouse.errors import InvalidInputError
from lakehouse.io.backends.class_options import fixed, parameters, unknown
from lakehouse.io.backends.s3_spellings import (
    ALLOW_HTTP,
    BUCKET,
    REFUSED,
    SPELLINGS,
    Path,
    from_hadoop,
    text,
    truth,
)
from lakehouse.io.location import Location
from lakehouse.suggest import nearest

__all__ = ["s3_options"]

_FILES = "the engine reads ranges that it plans itself, through caches of its own"
_LISTINGS = "listings are asked of the store each time"
_OWN = "the engine decides this itself"
_UPLOADS = "uploads follow the settings io.part_bytes and io.part_concurrency"
_HOLDS: Final[Mapping[Path, tuple[tuple[object, ...], str]]] = {
    ("asynchronous",): ((True, False), _OWN),
    ("batch_size",): ((None,), "requests are bounded by the setting io.max_concurrency"),
    ("cache_regions",): ((False,), "name the region: region"),
    ("default_block_size",): ((None,), _FILES),
    ("default_cache_type",): (("none", "readahead"), _FILES),
    ("default_fill_cache",): ((True, False), _FILES),
    ("fixed_upload_size",): ((False,), _UPLOADS),
    ("listings_expiry_time",): ((None,), _LISTINGS),
    ("local_expiry_check",): ((False,), "credentials are renewed by botocore"),
    ("loop",): ((None,), _OWN),
    ("max_concurrency",): ((), _UPLOADS),
    ("max_paths",): ((None,), _LISTINGS),
    ("skip_instance_cache",): ((True,), _OWN),
    ("use_listings_cache",): ((False,), _LISTINGS),
    ("version_aware",): ((False,), "objects are read by their ETags"),
    ("client_kwargs", "config"): ((), "give config_kwargs"),
    ("client_kwargs", "service_name"): (("s3",), _OWN),
    ("config_kwargs", "http_session_cls"): ((), _OWN),
    ("config_kwargs", "retries"): ((), "the engine repeats requests itself: see the settings io.retry_…"),
    ("config_kwargs", "warm_up_loader_caches"): ((), _OWN),
}
"""Options of s3fs that have no effect here, with the values that agree with what holds."""
_SAME: Final[Mapping[Path, Path]] = {
    ("username",): ("key",),
    ("password",): ("secret",),
    ("client_kwargs", "aws_access_key_id"): ("key",),
    ("client_kwargs", "aws_secret_access_key"): ("secret",),
    ("client_kwargs", "aws_session_token"): ("token",),
    ("client_kwargs", "endpoint_url"): ("endpoint_url",),
    ("client_kwargs", "use_ssl"): ("use_ssl",),
    ("config_kwargs", "region_name"): ("client_kwargs", "region_name"),
}
"""Where s3fs takes the same option in two places: the one that is kept."""
_S3_CONFIG: Final = frozenset(
    {
        "addressing_style",
        "payload_signing_enabled",
        "s3_disable_multiregion_access_points",
        "us_east_1_regional_endpoint",
        "use_accelerate_endpoint",
        "use_arn_region",
        "use_dualstack_endpoint",
    }
)
"""Names that botocore looks for in ``config_kwargs={'s3': …}``; it ignores everything else."""
_FLAGS: Final = frozenset({"anon", "use_ssl", "requester_pays"})
_TEXTS: Final = frozenset({"endpoint_url", "key", "password", "profile", "secret", "token", "username"})
_OF_SESSION: Final = frozenset({"profile"})
"""Options that s3fs hands on to the session."""


def s3_options(location: Location, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options in s3fs' own names; unknown ones, contradictions and what has no effect are errors."""
    said: dict[Path, tuple[str, Any]] = {}
    for path, name, value in _translated(options):
        if value is None:
            continue
        path = _SAME.get(path, path)
        before, known = said.setdefault(path, (name, value))
        if known != value:
            raise InvalidInputError(
                f"storage options {before!r} and {name!r} say different things: give one of them", option=name
            )
    _settle(location, said)
    found: dict[str, Any] = {}
    for path, (_, value) in said.items():
        into = found
        for part in path[:-1]:
            into = into.setdefault(part, {})
        into[path[-1]] = value
    return found


def _settle(location: Location, said: dict[Path, tuple[str, Any]]) -> None:
    """Takes out what is no option of s3fs, once it agrees with what is."""
    name, bucket = said.pop(BUCKET, ("", location.bucket))
    if bucket != location.bucket:
        raise InvalidInputError(
            f"storage option {name!r} names another bucket than the URL {location.url}: leave it out",
            option=name,
        )
    at, endpoint = said.get(("endpoint_url",), ("", ""))
    name, allowed = said.pop(ALLOW_HTTP, ("", True))
    if not allowed and endpoint.startswith("http://"):
        raise InvalidInputError(f"storage option {name!r} forbids the endpoint of {at!r}", option=name)
    _, style = said.get(("config_kwargs", "s3", "addressing_style"), ("", None))
    parts = urlsplit(endpoint)
    # object_store wants the bucket in such an endpoint, botocore puts it there.
    if style == "virtual" and parts.netloc.startswith(f"{location.bucket}."):
        host = parts.netloc.removeprefix(f"{location.bucket}.")
        said[("endpoint_url",)] = (at, parts._replace(netloc=host).geturl())


def _translated(options: Mapping[str, Any]) -> Iterator[tuple[Path, str, Any]]:
    """Where s3fs takes each option, the name that was given, and the value."""
    for name, value in options.items():
        if name in _NESTED:
            yield from _inside((name,), name, value)
        elif name in _native():
            yield from _checked((name,), name, _read(name, value))
        elif name.lower() in SPELLINGS:
            path, read = SPELLINGS[name.lower()]
            yield path, name, None if value is None else read(name, value)
        elif name.lower() in REFUSED:
            raise InvalidInputError(
                f"storage option {name!r} would have no effect: {REFUSED[name.lower()]}", option=name
            )
        else:
            near = from_hadoop(name) or nearest(name, {*_native(), *SPELLINGS})
            useful = {one for one in _native() if (one,) not in _HOLDS}
            raise unknown(name, "s3", useful, near=near)


def _inside(path: Path, name: str, value: Any) -> Iterator[tuple[Path, str, Any]]:
    """The same of what stands in a mapping of s3fs'."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"storage option {name!r} is a mapping of names to values", option=name)
    known = _NESTED[".".join(path)]()
    for inner, it in value.items():
        here = (*path, inner)
        shown = f"{name}.{inner}"
        if ".".join(here) in _NESTED:
            yield from _inside(here, shown, it)
        elif inner in known or here in _HOLDS:
            yield from _checked(here, shown, it)
        else:
            raise unknown(shown, "s3", (f"{name}.{one}" for one in known))


def _read(name: str, value: Any) -> Any:
    if value is None:
        return None
    return truth(name, value) if name in _FLAGS else text(name, value) if name in _TEXTS else value


def _checked(path: Path, name: str, value: Any) -> Iterator[tuple[Path, str, Any]]:
    """The option, if it has an effect."""
    if path in _HOLDS:
        fixed(name, value, *_HOLDS[path])
    else:
        yield path, name, value


@functools.cache
def _native() -> frozenset[str]:
    return frozenset(parameters(s3fs.S3FileSystem) | _OF_SESSION | {path[0] for path in _HOLDS})


@functools.cache
def _client_names() -> frozenset[str]:
    return frozenset(inspect.signature(Session.create_client).parameters) - {"self"}


@functools.cache
def _config_names() -> frozenset[str]:
    return frozenset({*Config.OPTION_DEFAULTS, "connector_args"})


@functools.cache
def _request_names() -> frozenset[str]:
    """Every argument of S3's operations; s3fs leaves out what one does not take."""
    service = Session().get_service_model("s3")
    shapes = (service.operation_model(name).input_shape for name in service.operation_names)
    return frozenset(name for shape in shapes if shape is not None for name in shape.members)


_NESTED: Final[Mapping[str, Callable[[], frozenset[str]]]] = {
    "client_kwargs": _client_names,
    "config_kwargs": _config_names,
    "config_kwargs.s3": lambda: _S3_CONFIG,
    "s3_additional_kwargs": _request_names,
}
"""Options that are mappings themselves, and the names in them."""
