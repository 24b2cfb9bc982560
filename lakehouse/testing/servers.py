"""A real object store for tests, demo and benchmarks: the best one that can be had here.

Five kinds, best first: an endpoint given by the environment; a store in Docker (RustFS, unless
another image is named); the MinIO that ``make minio`` built; the versitygw that ``make stores``
built, a gateway to a directory; moto's server, a simulation in Python. What was passed over is
always said, with the reason. Every server started here listens on 127.0.0.1 alone, on a free
port, with fresh credentials and data in a temporary directory, and is stopped and removed when
its block ends or this process does, however it ends.

Environment::

    LAKEHOUSE_TEST_ENDPOINT  URL of an S3-compatible store, with
    LAKEHOUSE_TEST_KEY       its access key,
    LAKEHOUSE_TEST_SECRET    its secret key and
    LAKEHOUSE_TEST_REGION    its region, where it insists on one
    LAKEHOUSE_TEST_STORE     environment, docker, minio, versitygw or moto: this one or none
    LAKEHOUSE_TEST_MINIO     path of a MinIO binary
    LAKEHOUSE_TEST_VERSITYGW path of a versitygw binary
    LAKEHOUSE_STORE_IMAGE    image that Docker runs; one of MinIO works too
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from lakehouse.errors import InvalidInputError, LakehouseError, UnavailableError
from lakehouse.testing.endpoint import Kind, ServerInfo, wait_until_it_lists
from lakehouse.testing.keeper import kept

__all__ = [
    "KINDS",
    "STORE_IMAGE",
    "best_server",
    "docker_server",
    "environment_server",
    "find_server",
    "local_server",
    "minio_server",
    "moto_server",
    "obstacle",
    "survey",
    "versitygw_server",
]

KINDS: tuple[Kind, ...] = ("environment", "docker", "minio", "versitygw", "moto")
"""All kinds of servers, best first."""
STORE_IMAGE = "rustfs/rustfs:1.0.1"
"""The image that Docker runs, here and by docker-compose.yml; ``LAKEHOUSE_STORE_IMAGE`` names another."""

_READY_S = 60.0
_IMAGE_READY_S = 120.0
_PORT_ATTEMPTS = 3
_LOG_TAIL_BYTES = 4_000
_REMOVE_CONTAINER = (
    "import sys, docker, docker.errors\n"
    "try: docker.from_env().containers.get(sys.argv[1]).remove(force=True, v=True)\n"
    "except docker.errors.NotFound: pass\n"
)


# ------------------------------------------------------------------ choosing


def obstacle(kind: Kind) -> str | None:
    """Returns why ``kind`` cannot be had here; None when it can."""
    forced = os.environ.get("LAKEHOUSE_TEST_STORE")
    if forced and forced not in KINDS:
        raise InvalidInputError(f"LAKEHOUSE_TEST_STORE is {forced!r}; it must be one of {', '.join(KINDS)}")
    if forced and forced != kind:
        return f"LAKEHOUSE_TEST_STORE asks for {forced}"
    return _OBSTACLES[kind]()


def survey(allow: Sequence[Kind] = KINDS) -> list[tuple[Kind, str | None]]:
    """Returns every allowed kind, best first, with the reason why it cannot be had; starts nothing."""
    return [(kind, obstacle(kind)) for kind in KINDS if kind in allow]


@contextmanager
def best_server(*, allow: Sequence[Kind] = KINDS) -> Iterator[ServerInfo]:
    """Starts (or finds) the best allowed kind and stops it at the end of the block.

    A kind that should work and does not is an error, not a reason to take a lesser one;
    only Docker is passed over late, when the image cannot be had.

    Raises:
        UnavailableError: none can be had; the message says why, for each.
    """
    passed: list[tuple[Kind, str]] = []
    with ExitStack() as stack:
        for kind, reason in survey(allow):
            if reason is None:
                try:
                    info = stack.enter_context(_STARTERS[kind]())
                except UnavailableError as error:
                    if kind != "docker":
                        raise
                    reason = error.message
                else:
                    yield replace(info, passed_over=tuple(passed))
                    return
            passed.append((kind, reason))
    reasons = "; ".join(f"{kind}: {reason}" for kind, reason in passed)
    raise UnavailableError(f"no object store can be had here ({reasons})")


# ------------------------------------------------------------------ the five kinds


def _environment_obstacle() -> str | None:
    return None if os.environ.get("LAKEHOUSE_TEST_ENDPOINT") else "LAKEHOUSE_TEST_ENDPOINT is not set"


@contextmanager
def environment_server() -> Iterator[ServerInfo]:
    """Yields the store that ``LAKEHOUSE_TEST_ENDPOINT`` names; it is neither started nor stopped."""
    missing = [
        name
        for name in ("LAKEHOUSE_TEST_ENDPOINT", "LAKEHOUSE_TEST_KEY", "LAKEHOUSE_TEST_SECRET")
        if not os.environ.get(name)
    ]
    if missing:
        raise InvalidInputError(f"{' and '.join(missing)} must be set to use the store of the environment")
    info = ServerInfo(
        kind="environment",
        endpoint_url=os.environ["LAKEHOUSE_TEST_ENDPOINT"],
        key=os.environ["LAKEHOUSE_TEST_KEY"],
        secret=os.environ["LAKEHOUSE_TEST_SECRET"],
        region=os.environ.get("LAKEHOUSE_TEST_REGION") or None,
        note="the environment's own (LAKEHOUSE_TEST_ENDPOINT)",
    )
    wait_until_it_lists(info, seconds=_READY_S)
    yield info


def find_server(name: str) -> tuple[str, str] | None:
    """Finds a server's binary and its origin: ``LAKEHOUSE_TEST_NAME``, ``.cache/bin`` or the path."""
    variable = f"LAKEHOUSE_TEST_{name.upper()}"
    if named := os.environ.get(variable):
        return named, variable
    for root in (Path(__file__).parents[2], Path.cwd()):
        built = root / ".cache" / "bin" / name
        if built.is_file():
            return str(built), "built with go install"
    path = shutil.which(name)
    return (path, "found on PATH") if path else None


def _binary_obstacle(name: str, target: str) -> str | None:
    if find_server(name):
        return None
    return f"no .cache/bin/{name} (make {target} builds it) and none on PATH"


def _executable(title: str, name: str, target: str, binary: str | None) -> tuple[str, str]:
    """Returns the binary to start, given or found, and where it came from."""
    choice = (binary, "given binary") if binary else find_server(name)
    if choice is None:
        raise UnavailableError(f"{title} cannot be started: {_binary_obstacle(name, target)}")
    path, origin = choice
    if not os.access(path, os.X_OK):
        raise InvalidInputError(f"{path} ({origin}) is no executable: name a {title} binary")
    return path, origin


def _minio_environment(key: str, secret: str) -> dict[str, str]:
    return {
        "MINIO_ROOT_USER": key,
        "MINIO_ROOT_PASSWORD": secret,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "MINIO_CALLHOME_ENABLE": "off",
    }


def _minio_obstacle() -> str | None:
    return _binary_obstacle("minio", "minio")


@contextmanager
def minio_server(binary: str | None = None) -> Iterator[ServerInfo]:
    """Runs MinIO from ``binary``, or from the binary that is found here."""
    path, origin = _executable("MinIO", "minio", "minio", binary)
    key, secret = f"key-{secrets.token_hex(4)}", secrets.token_hex(16)

    def command(directory: str, port: int, other_port: int) -> list[str]:
        address, console = f"127.0.0.1:{port}", f"127.0.0.1:{other_port}"
        data = os.path.join(directory, "data")  # noqa: PTH118
        return [path, "server", "--quiet", "--address", address, "--console-address", console, data]

    # Nothing is inherited: MINIO_* of this shell must not change the store, proxies must not see it.
    env = _minio_environment(key, secret)

    def info(endpoint_url: str) -> ServerInfo:
        note = f"MinIO ({origin})"
        return ServerInfo(kind="minio", endpoint_url=endpoint_url, key=key, secret=secret, note=note)

    with local_server("MinIO", command, env=env, info=info) as server:
        yield server


def _versitygw_obstacle() -> str | None:
    return _binary_obstacle("versitygw", "stores")


@contextmanager
def versitygw_server(binary: str | None = None) -> Iterator[ServerInfo]:
    """Runs versitygw in front of a directory, from ``binary``, or from the binary that is found here.

    It keeps ETags and metadata in extended attributes, which the directory for temporary files must allow.
    """
    path, origin = _executable("versitygw", "versitygw", "stores", binary)
    key, secret = f"key-{secrets.token_hex(4)}", secrets.token_hex(16)

    def command(directory: str, port: int, other_port: int) -> list[str]:
        data = os.path.join(directory, "data")  # noqa: PTH118
        os.mkdir(data)  # noqa: PTH102
        return [path, "--quiet", "--port", f"127.0.0.1:{port}", "posix", data]

    def info(endpoint_url: str) -> ServerInfo:
        note = f"versitygw ({origin})"
        return ServerInfo(kind="versitygw", endpoint_url=endpoint_url, key=key, secret=secret, note=note)

    # Nothing is inherited: VGW_* of this shell must not change the store.
    env = {"ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret}
    with local_server("versitygw", command, env=env, info=info) as server:
        yield server


def _moto_obstacle() -> str | None:
    missing = [name for name in ("moto", "flask") if importlib.util.find_spec(name) is None]
    return "moto[server] is not installed" if missing else None


@contextmanager
def moto_server() -> Iterator[ServerInfo]:
    """Runs moto's S3 in a process of its own, so that it takes no time from this one's event loop."""
    reason = _moto_obstacle()
    if reason:
        raise UnavailableError(f"moto cannot be started: {reason}", kind="missing-extra")

    def command(directory: str, port: int, other_port: int) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]

    def info(endpoint_url: str) -> ServerInfo:
        note = "moto's server (a simulation)"
        return ServerInfo(kind="moto", endpoint_url=endpoint_url, key="moto", secret="moto", note=note)  # noqa: S106

    env = {name: value for name, value in os.environ.items() if not name.startswith(("MOTO_", "AWS_"))}
    with local_server("moto", command, env=env, info=info) as server:
        yield server


def _docker_obstacle() -> str | None:
    if importlib.util.find_spec("testcontainers") is None:
        return "testcontainers is not installed"
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not host.startswith("unix://"):
        return f"DOCKER_HOST {host} is not on this machine's own socket"
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(2.0)
            probe.connect(host.removeprefix("unix://"))
            probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            answer = probe.recv(64).split(b"\r\n")[0].decode("latin-1")
    except OSError as error:
        return f"the Docker daemon does not answer at {host} ({error.strerror or error})"
    return None if " 200 " in answer else f"the Docker daemon at {host} answers {answer!r}"


@contextmanager
def docker_server() -> Iterator[ServerInfo]:
    """Runs a store in a container, published on loopback alone."""
    reason = _docker_obstacle()
    if reason:
        raise UnavailableError(f"no store can be started in Docker: {reason}")
    from docker.errors import DockerException  # type: ignore[import-untyped]
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    # The keeper removes the container after a crash; testcontainers' own reaper would be a second
    # image to pull and a port open to every interface.
    testcontainers_config.ryuk_disabled = True
    image = os.environ.get("LAKEHOUSE_STORE_IMAGE") or STORE_IMAGE
    name = f"lakehouse-store-{secrets.token_hex(6)}"
    key, secret = f"key-{secrets.token_hex(4)}", secrets.token_hex(16)
    parting = [sys.executable, "-c", _REMOVE_CONTAINER, name]
    with tempfile.TemporaryFile() as log, kept(None, log=log, parting=parting), ExitStack() as stack:
        try:
            container = DockerContainer(image).with_name(name).with_command(_container_command(image))
            container.with_envs(**_container_environment(key, secret))
            # with_bind_ports takes no address and would publish to every interface.
            container.ports["9000/tcp"] = ("127.0.0.1",)
            stack.enter_context(container)
            port = container.get_docker_client().port(container.get_container_id(), 9000)
        except (DockerException, OSError) as error:
            raise UnavailableError(f"{image} cannot be started in Docker: {error}") from error
        url = f"http://127.0.0.1:{port}"
        info = ServerInfo(kind="docker", endpoint_url=url, key=key, secret=secret, note=f"{image} in Docker")
        wait_until_it_lists(info, seconds=_IMAGE_READY_S)
        yield info


def _container_command(image: str) -> list[str]:
    """Returns the words behind the image's entry point: RustFS takes directories, MinIO a command first."""
    return ["server", "/data"] if "/minio" in image else ["/data"]


def _container_environment(key: str, secret: str) -> dict[str, str]:
    """Returns the variables of RustFS and of MinIO; each ignores the other's."""
    return {
        "RUSTFS_ACCESS_KEY": key,
        "RUSTFS_SECRET_KEY": secret,
        "RUSTFS_CONSOLE_ENABLE": "false",
        "RUSTFS_CHECK_UPDATE": "false",
        "RUSTFS_OBS_LOG_DIRECTORY": "",
        **_minio_environment(key, secret),
    }


_OBSTACLES: Mapping[Kind, Callable[[], str | None]] = {
    "environment": _environment_obstacle,
    "docker": _docker_obstacle,
    "minio": _minio_obstacle,
    "versitygw": _versitygw_obstacle,
    "moto": _moto_obstacle,
}
_STARTERS: Mapping[Kind, Callable[[], AbstractContextManager[ServerInfo]]] = {
    "environment": environment_server,
    "docker": docker_server,
    "minio": minio_server,
    "versitygw": versitygw_server,
    "moto": moto_server,
}


# ------------------------------------------------------------------ local processes


@contextmanager
def local_server(
    name: str,
    command: Callable[[str, int, int], list[str]],
    *,
    env: Mapping[str, str],
    info: Callable[[str], ServerInfo],
) -> Iterator[ServerInfo]:
    """Runs ``command(directory, port, other port)`` until it lists buckets, then for the block.

    The directory is empty and of its own, and is removed at the end.

    A free port can be taken by somebody else before the server binds it, so a server that
    ends before it answers is started again on other ports.
    """
    for _ in range(_PORT_ATTEMPTS):
        directory = tempfile.mkdtemp(prefix=f"lakehouse-{name.lower()}-")
        port, other_port = _free_ports(2)
        server = info(f"http://127.0.0.1:{port}")
        run = command(directory, port, other_port)
        run_env = {**env, "HOME": directory, "TMPDIR": directory}
        with (
            tempfile.TemporaryFile() as log,
            kept(run, log=log, env=run_env, remove=directory) as keeper,
        ):
            try:
                answers = wait_until_it_lists(
                    server, seconds=_READY_S, ended=lambda: keeper.poll() is not None
                )
            except LakehouseError as error:
                error.add_note(f"{name} printed:\n{_tail(log)}")
                raise
            if answers:
                yield server
                return
            status, printed = keeper.returncode, _tail(log)
    raise UnavailableError(
        f"{name} ended with status {status} before it answered, {_PORT_ATTEMPTS} times; "
        f"it printed last:\n{printed}"
    )


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
    return log.read().decode("utf-8", "replace").strip()


def _free_ports(count: int) -> list[int]:
    """Returns ports of 127.0.0.1 that were free a moment ago, all different."""
    with ExitStack() as stack:
        # All are held until the last is chosen, so that no port is given twice.
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]
