"""Object stores on loopback: which is chosen, what is said about it, and that none is left behind."""

from __future__ import annotations

import gc
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import InvalidInputError, PermissionDeniedError, UnavailableError
from lakehouse.testing import servers
from lakehouse.testing.endpoint import Kind, ServerInfo
from lakehouse.testing.servers import (
    KINDS,
    STORE_IMAGE,
    best_server,
    docker_server,
    environment_server,
    minio_server,
    moto_server,
    obstacle,
    survey,
    versitygw_server,
)

VARIABLES = ("ENDPOINT", "KEY", "SECRET", "REGION", "STORE", "MINIO", "VERSITYGW")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the test kit is set."""
    for name in VARIABLES:
        monkeypatch.delenv(f"LAKEHOUSE_TEST_{name}", raising=False)
    monkeypatch.delenv("LAKEHOUSE_STORE_IMAGE", raising=False)


@pytest.fixture
def nothing_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without MinIO; the directory is both its checkout and where it works."""
    monkeypatch.setattr(servers, "__file__", str(tmp_path / "lakehouse" / "testing" / "servers.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces a kind by one that has an obstacle, starts, or fails to start."""

    def replace(kind: Kind, *, reason: str | None = None, error: Exception | None = None) -> None:
        @contextmanager
        def start() -> Iterator[ServerInfo]:
            if error is not None:
                raise error
            yield ServerInfo(kind=kind, endpoint_url="http://127.0.0.1:1", key="k", secret="s", note=kind)

        monkeypatch.setitem(servers._OBSTACLES, kind, lambda: reason)
        monkeypatch.setitem(servers._STARTERS, kind, start)

    return replace


def executable(path: Path, script: str) -> str:
    """Writes a shell script that stands in for a server."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


# ------------------------------------------------------------------ choosing


def test_the_best_kind_that_can_be_had_is_chosen(pretend: Callable[..., None]) -> None:
    """The first kind without an obstacle runs, and the better ones are named with their reasons."""
    pretend("environment", reason="not set")
    pretend("docker", reason="no daemon")
    pretend("minio")
    pretend("moto")
    with best_server() as info:
        assert info.kind == "minio"
        assert info.explain() == [
            "object store: minio at http://127.0.0.1:1",
            "  not environment: not set",
            "  not docker: no daemon",
        ]


def test_docker_that_cannot_start_the_image_is_passed_over(pretend: Callable[..., None]) -> None:
    """A daemon without the image is no obstacle beforehand and a reason afterwards."""
    pretend("environment", reason="not set")
    pretend("docker", error=UnavailableError("the image cannot be pulled"))
    pretend("minio")
    with best_server() as info:
        assert info.passed_over == (
            ("environment", "not set"),
            ("docker", "the image cannot be pulled"),
        )


@pytest.mark.parametrize("kind", ["environment", "minio", "moto"])
def test_a_store_that_should_work_and_does_not_is_an_error(pretend: Callable[..., None], kind: Kind) -> None:
    """No lesser store is taken silently when a better one breaks."""
    for other in KINDS:
        pretend(other, reason="not here")
    pretend(kind, error=UnavailableError("broken"))
    with pytest.raises(UnavailableError, match="broken"), best_server():
        pass


def test_nothing_to_be_had_is_an_error_that_gives_every_reason(pretend: Callable[..., None]) -> None:
    """The error names each allowed kind and its obstacle, and no other."""
    pretend("environment", reason="not set")
    pretend("minio", reason="not built")
    with (
        pytest.raises(UnavailableError, match=r"\(environment: not set; minio: not built\)$"),
        best_server(allow=("minio", "environment")),
    ):
        pass


def test_an_error_of_the_block_is_not_taken_for_one_of_the_server(pretend: Callable[..., None]) -> None:
    """What the block raises passes through, also when Docker runs the store."""
    pretend("environment", reason="not set")
    pretend("docker")
    with pytest.raises(UnavailableError, match="the block's own"), best_server():
        raise UnavailableError("the block's own")


def test_one_kind_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """LAKEHOUSE_TEST_STORE leaves that kind alone without an obstacle."""
    monkeypatch.setenv("LAKEHOUSE_TEST_STORE", "moto")
    other = "LAKEHOUSE_TEST_STORE asks for moto"
    assert survey() == [(kind, None if kind == "moto" else other) for kind in KINDS]


def test_an_unknown_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt LAKEHOUSE_TEST_STORE is an error that lists the kinds."""
    monkeypatch.setenv("LAKEHOUSE_TEST_STORE", "mino")
    with pytest.raises(InvalidInputError, match="environment, docker, minio, versitygw, moto"):
        survey()


# ------------------------------------------------------------------ environment


def point_environment_at(monkeypatch: pytest.MonkeyPatch, info: ServerInfo, **changes: str) -> None:
    """Sets the variables that name this store, but for the changes."""
    values = {"ENDPOINT": info.endpoint_url, "KEY": info.key, "SECRET": info.secret, **changes}
    for name, value in values.items():
        monkeypatch.setenv(f"LAKEHOUSE_TEST_{name}", value)


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, moto: ServerInfo) -> None:
    """An endpoint in the environment is used before anything is started, and outlives the block."""
    point_environment_at(monkeypatch, moto, REGION="eu-west-1")
    for _ in range(2):
        with best_server() as info:
            assert (info.kind, info.endpoint_url, info.region) == (
                "environment",
                moto.endpoint_url,
                "eu-west-1",
            )
            assert info.passed_over == ()


def test_an_endpoint_without_credentials_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variables that are missing."""
    monkeypatch.setenv("LAKEHOUSE_TEST_ENDPOINT", "http://127.0.0.1:9")
    with (
        pytest.raises(InvalidInputError, match="LAKEHOUSE_TEST_KEY and LAKEHOUSE_TEST_SECRET"),
        best_server(),
    ):
        pass


def test_wrong_credentials_are_refused_at_once(monkeypatch: pytest.MonkeyPatch, minio: ServerInfo) -> None:
    """A store that refuses the key is not waited for."""
    point_environment_at(monkeypatch, minio, SECRET="wrong")
    with pytest.raises(PermissionDeniedError, match=minio.endpoint_url), environment_server():
        pass


def test_a_silent_endpoint_is_given_up(monkeypatch: pytest.MonkeyPatch, moto: ServerInfo) -> None:
    """Waiting for an endpoint ends, and the error says where nothing answered."""
    monkeypatch.setattr(servers, "_READY_S", 0.1)
    point_environment_at(monkeypatch, moto, ENDPOINT="http://127.0.0.1:9")
    with (
        pytest.raises(UnavailableError, match=r"http://127\.0\.0\.1:9 gave no listing"),
        environment_server(),
    ):
        pass


# ------------------------------------------------------------------ Docker


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Something that answers one connection on a Docker socket."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    threads: list[threading.Thread] = []
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(f"{tmp_path}/docker.sock")
        listener.listen()

        def answer(text: bytes) -> None:
            def serve() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(text)

            threads.append(threading.Thread(target=serve))
            threads[-1].start()

        yield answer
        for thread in threads:
            thread.join(10)


def test_a_daemon_that_answers_is_no_obstacle(daemon: Callable[[bytes], None]) -> None:
    """Docker can be had when its socket answers a ping."""
    daemon(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
    assert obstacle("docker") is None


def test_a_daemon_in_trouble_is_passed_over(daemon: Callable[[bytes], None]) -> None:
    """What the daemon answered instead of OK is the reason."""
    daemon(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    assert "503 Service Unavailable" in str(obstacle("docker"))


def test_no_daemon_is_an_obstacle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reason names the socket where no daemon listens."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert f"{tmp_path}/none.sock (No such file" in str(obstacle("docker"))


def test_a_daemon_on_another_machine_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ports would not be on this machine's loopback, so it is not even asked."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert "tcp://192.0.2.1:2375" in str(obstacle("docker"))


class Container:
    """Stands in for testcontainers' container and notes what it is asked for."""

    last: Container

    def __init__(self, image: str) -> None:
        self.image, self.ports, self.env = image, {}, {}
        self.running = False
        Container.last = self

    def with_name(self, name: str) -> Container:
        self.name = name
        return self

    def with_command(self, command: list[str]) -> Container:
        self.command = command
        return self

    def with_envs(self, **env: str) -> Container:
        self.env.update(env)
        return self

    def __enter__(self) -> Container:
        self.running = True
        return self

    def __exit__(self, *error: object) -> None:
        self.running = False

    def get_docker_client(self) -> Container:
        return self

    def get_container_id(self) -> str:
        return "id"

    def port(self, container_id: str, port: int) -> str:
        assert (container_id, port) == ("id", 9000)
        return "49153"


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Container]:
    """Docker without a daemon: the container is a note, and removing it writes its name to a file."""
    remove = f"import sys, pathlib; pathlib.Path({str(tmp_path)!r}, 'removed').write_text(sys.argv[1])"
    monkeypatch.setattr("testcontainers.core.container.DockerContainer", Container)
    monkeypatch.setattr(servers, "_REMOVE_CONTAINER", remove)
    monkeypatch.setattr(servers, "wait_until_it_lists", lambda info, **options: True)
    monkeypatch.setitem(servers._OBSTACLES, "docker", lambda: None)
    monkeypatch.setattr(servers, "_docker_obstacle", lambda: None)
    return Container


def test_a_container_is_published_on_loopback_alone(container: type[Container]) -> None:
    """The pinned image runs with credentials of its own behind a port of 127.0.0.1."""
    with docker_server() as info:
        made = container.last
        assert (made.image, made.ports, made.running) == (STORE_IMAGE, {"9000/tcp": ("127.0.0.1",)}, True)
        assert (made.env["RUSTFS_ACCESS_KEY"], made.env["RUSTFS_SECRET_KEY"]) == (info.key, info.secret)
        assert made.command == ["/data"]
        assert info.endpoint_url == "http://127.0.0.1:49153"
    assert not made.running


def test_another_image_can_be_named(container: type[Container], monkeypatch: pytest.MonkeyPatch) -> None:
    """LAKEHOUSE_STORE_IMAGE is started in the default's place, a MinIO with the words that it needs."""
    image = "quay.io/minio/minio:RELEASE.2025-09-07T16-13-09Z"
    monkeypatch.setenv("LAKEHOUSE_STORE_IMAGE", image)
    with docker_server() as info:
        made = container.last
        assert (made.image, made.command) == (image, ["server", "/data"])
        assert (made.env["MINIO_ROOT_USER"], made.env["MINIO_ROOT_PASSWORD"]) == (info.key, info.secret)
        assert image in info.note


def test_a_container_is_removed_by_name(container: type[Container], tmp_path: Path) -> None:
    """The keeper removes the container whatever became of this process."""
    with docker_server():
        pass
    assert (tmp_path / "removed").read_text() == container.last.name


@pytest.mark.filterwarnings("ignore:.*socket")  # docker's library leaves the socket it tried open
def test_docker_failing_to_start_is_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error of Docker's own library becomes one of ours."""
    monkeypatch.setattr(servers, "_docker_obstacle", lambda: None)
    monkeypatch.setattr(servers, "_REMOVE_CONTAINER", "")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(UnavailableError, match="cannot be started in Docker"), docker_server():
        pass
    gc.collect()


# ------------------------------------------------------------------ finding MinIO


def test_a_named_binary_comes_first(nothing_found: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAKEHOUSE_TEST_MINIO is started, not the one that was built."""
    executable(nothing_found / ".cache" / "bin" / "minio", "echo built; exit 1")
    named = executable(nothing_found / "other", "echo named; exit 1")
    monkeypatch.setenv("LAKEHOUSE_TEST_MINIO", named)
    with pytest.raises(UnavailableError, match="named"), minio_server():
        pass


def test_the_built_binary_comes_before_the_path(nothing_found: Path) -> None:
    """What make minio built is started, not what the system has."""
    executable(nothing_found / "minio", "echo system; exit 1")
    executable(nothing_found / ".cache" / "bin" / "minio", "echo built; exit 1")
    with pytest.raises(UnavailableError, match="built"), minio_server():
        pass


def test_a_binary_on_the_path_is_found(nothing_found: Path) -> None:
    """A MinIO of the system serves when none was built."""
    executable(nothing_found / "minio", "echo system; exit 1")
    assert obstacle("minio") is None
    with pytest.raises(UnavailableError, match="system"), minio_server():
        pass


@pytest.mark.parametrize(
    ("kind", "start", "target"),
    [("minio", minio_server, "make minio"), ("versitygw", versitygw_server, "make stores")],
)
def test_no_binary_is_an_obstacle(
    nothing_found: Path, kind: Kind, start: Callable[[], AbstractContextManager[ServerInfo]], target: str
) -> None:
    """The reason says how to get one."""
    assert target in str(obstacle(kind))
    with pytest.raises(UnavailableError, match=target), start():
        pass


def test_a_binary_that_cannot_run_is_refused(nothing_found: Path) -> None:
    """A file that is no executable is an error, not a reason to look further."""
    built = nothing_found / ".cache" / "bin" / "minio"
    executable(built, "")
    built.chmod(0o644)
    with pytest.raises(InvalidInputError, match="no executable"), minio_server():
        pass


# ------------------------------------------------------------------ starting and stopping

Start = Callable[[], AbstractContextManager[ServerInfo]]


@pytest.fixture(scope="module", params=["minio", "versitygw", "moto"])
def started(request: pytest.FixtureRequest) -> ServerInfo:
    """The run's own servers; of module scope, so that they are found before the variables are unset."""
    info: ServerInfo = request.getfixturevalue(request.param)
    return info


@pytest.fixture
def start() -> Start:
    """Starts MinIO where there is one, else moto."""
    return minio_server if obstacle("minio") is None else moto_server


def test_a_server_leaves_nothing_behind(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After the block nobody listens and the data is gone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with start() as info:
        port = int(info.endpoint_url.rsplit(":", 1)[1])
        assert len(list(tmp_path.iterdir())) == 1
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's list of sockets")
def test_a_server_listens_on_loopback_alone(started: ServerInfo) -> None:
    """Nobody on another machine can reach a server of a test."""
    if started.kind not in ("minio", "versitygw", "moto"):
        pytest.skip(f"the run uses a store it did not start: {started.note}")
    port = int(started.endpoint_url.rsplit(":", 1)[1])
    assert listening_addresses(port) <= {"0100007F", "00000000000000000000000001000000"}


def listening_addresses(port: int) -> set[str]:
    """Local addresses, as the kernel prints them, on which ``port`` takes connections."""
    rows: list[list[str]] = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        rows += [line.split() for line in Path(table).read_text().splitlines()[1:]]
    listening = [row[1].split(":") for row in rows if row[3] == "0A"]
    found = {address for address, hexadecimal in listening if int(hexadecimal, 16) == port}
    assert found, f"nobody listens on {port}"
    return found


def test_a_port_taken_meanwhile_is_given_up_for_another(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that finds its port taken is started again on a free one."""
    free_ports = servers._free_ports
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        first = [[taken.getsockname()[1], free_ports(1)[0]]]
        monkeypatch.setattr(servers, "_free_ports", lambda count: first.pop() if first else free_ports(count))
        with start() as info:
            assert info.endpoint_url != f"http://127.0.0.1:{taken.getsockname()[1]}"
    assert first == []


def test_a_server_that_ends_shows_what_it_printed(tmp_path: Path) -> None:
    """The error of a server that does not start carries its status and its log."""
    broken = executable(tmp_path / "broken", "echo no space left; exit 3")
    with pytest.raises(UnavailableError, match=r"(?s)status 3 .*no space left"), minio_server(broken):
        pass


def test_a_server_that_never_answers_shows_what_it_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error of a server that hangs carries its log as a note."""
    monkeypatch.setattr(servers, "_READY_S", 0.5)
    hanging = executable(tmp_path / "hanging", "echo thinking; exec sleep 60")
    with pytest.raises(UnavailableError) as caught, minio_server(hanging):
        pass
    assert "thinking" in caught.value.__notes__[0]


def test_moto_without_its_server_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto without the extra that brings its server says what to install."""
    find: Any = servers.importlib.util.find_spec
    monkeypatch.setattr(
        servers.importlib.util, "find_spec", lambda name: None if name == "flask" else find(name)
    )
    assert obstacle("moto") == "moto[server] is not installed"
    with pytest.raises(UnavailableError, match=r"moto\[server\]"), moto_server():
        pass
