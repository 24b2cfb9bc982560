"""Object stores for interop: the engine's own, those it must work on, and those it must refuse.

Every server listens on 127.0.0.1 alone and is gone, with its data, when its block ends.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakehouse.testing.endpoint import ServerInfo
from lakehouse.testing.servers import find_server, local_server

__all__ = ["Place", "gateways", "rclone_server", "s3proxy_server"]

_JARS = Path(__file__).parents[2] / ".cache" / "bin" / "s3proxy-4.1.0"
_KEY, _SECRET = f"key-{secrets.token_hex(4)}", secrets.token_hex(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An empty place on a store."""

    url: str
    options: dict[str, Any]
    """Storage options that lead there."""


def _binary(name: str) -> str:
    found = find_server(name)
    if found is None:
        pytest.skip(f"{name} is not built: make stores")
    return found[0]


def _info(name: str, endpoint_url: str) -> ServerInfo:
    return ServerInfo(kind="environment", endpoint_url=endpoint_url, key=_KEY, secret=_SECRET, note=name)


def _started(
    name: str, words: list[str], env: Mapping[str, str], files: Mapping[str, str] | None = None
) -> AbstractContextManager[ServerInfo]:
    """A server of these words, in which DIRECTORY and PORT stand for what it is given."""

    def filled(text: str, directory: str, port: int) -> str:
        return text.replace("DIRECTORY", directory).replace("PORT", str(port))

    def command(directory: str, port: int, other_port: int) -> list[str]:
        (Path(directory) / "data").mkdir()
        for path, text in (files or {}).items():
            (Path(directory) / path).write_text(filled(text, directory, port))
        return [filled(word, directory, port) for word in words]

    return local_server(name, command, env=env, info=lambda url: _info(name, url))


def rclone_server() -> AbstractContextManager[ServerInfo]:
    """``rclone serve s3``, which takes the headers of conditional puts and ignores them."""
    words = [_binary("rclone"), "serve", "s3", "--addr", "127.0.0.1:PORT", "--auth-key", f"{_KEY},{_SECRET}"]
    words += ["--config", "DIRECTORY/none.conf", "--cache-dir", "DIRECTORY/cache", "DIRECTORY/data"]
    return _started("rclone", words, {})


def s3proxy_server() -> AbstractContextManager[ServerInfo]:
    """S3Proxy over a directory, which looks at an ETag first and replaces the object later."""
    if not _JARS.is_dir() or shutil.which("java") is None:
        pytest.skip("S3Proxy is not fetched, or Java is missing: make stores")
    properties = "\n".join(
        (
            "s3proxy.endpoint=http://127.0.0.1:PORT",
            "s3proxy.authorization=aws-v4",
            f"s3proxy.identity={_KEY}",
            f"s3proxy.credential={_SECRET}",
            "jclouds.provider=filesystem-nio2",
            "jclouds.filesystem.basedir=DIRECTORY/data",
        )
    )
    words = ["java", "-Xmx512m", "-cp", f"{_JARS}/*", "org.gaul.s3proxy.Main"]
    words += ["--properties", "DIRECTORY/s3proxy.conf"]
    return _started("S3Proxy", words, {"PATH": os.environ["PATH"]}, {"s3proxy.conf": properties})


@contextmanager
def gateways(count: int, *, locked: bool) -> Iterator[list[ServerInfo]]:
    """Several versitygw in front of one directory, with or without the locks that they share."""
    words = [_binary("versitygw"), "--quiet", "--port", "127.0.0.1:PORT", "posix"]
    words += [] if locked else ["--disable-object-lock-file"]
    env = {"ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET}
    with tempfile.TemporaryDirectory(prefix="lakehouse-gateways-") as data, ExitStack() as stack:
        yield [stack.enter_context(_started("versitygw", [*words, data], env)) for _ in range(count)]
