"""Object stores for tests: one real store for the whole run, moto beside it, a bucket per test.

Without xdist the store starts when the first test asks for it. With xdist the controller
starts it once and tells the workers where it is. The header says which store it will be
and why not a better one; the end of the run says which one it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import pytest

from lakehouse.errors import UnavailableError
from lakehouse.testing.endpoint import Kind, ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server, find_server, moto_server, survey, versitygw_server

REAL: tuple[Kind, ...] = ("environment", "docker", "minio", "versitygw")
_WORKERINPUT = "lakehouse_object_store"


class RealStore:
    """The run's one real object store, or the reason why there is none."""

    def __init__(self, told: dict[str, Any] | str | None) -> None:
        self.found = ServerInfo(**told) if isinstance(told, dict) else told
        self._stack = ExitStack()

    def get(self) -> ServerInfo | str:
        """The store, started by the first call, or why none can be had."""
        if self.found is None:
            try:
                self.found = self._stack.enter_context(best_server(allow=REAL))
            except UnavailableError as error:
                if any(reason is None for _, reason in survey(("environment", "minio", "versitygw"))):
                    raise
                self.found = error.message
        return self.found

    def tell(self) -> dict[str, Any] | str:
        """What another process needs to use the same one."""
        found = self.get()
        return found if isinstance(found, str) else asdict(found)

    def close(self) -> None:
        """Stops what was started here."""
        self._stack.close()


_STORE = pytest.StashKey[RealStore]()


def pytest_configure(config: pytest.Config) -> None:
    """Takes over what the controller told, when this is a worker of xdist."""
    store = RealStore(getattr(config, "workerinput", {}).get(_WORKERINPUT))
    config.stash[_STORE] = store
    config.add_cleanup(store.close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of xdist where the store is."""
    node.workerinput[_WORKERINPUT] = node.config.stash[_STORE].tell()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What will run, and why nothing better."""
    lines = []
    for kind, reason in survey(REAL):
        if reason is None:
            return [f"object store: {kind}, and moto where a test asks for it", *lines]
        lines.append(f"  not {kind}: {reason}")
    return ["object store: moto alone; tests that need a real store are skipped", *lines]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What did run."""
    found = config.stash[_STORE].found
    if isinstance(found, ServerInfo):
        terminalreporter.write_line("\n".join(found.explain()))
    elif found is not None:
        terminalreporter.write_line(f"tests that need a real object store were skipped: {found}")


@pytest.fixture(scope="session")
def minio(pytestconfig: pytest.Config) -> ServerInfo:
    """A real object store: the environment's, Docker's, MinIO or versitygw."""
    found = pytestconfig.stash[_STORE].get()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def versitygw() -> Iterator[ServerInfo]:
    """versitygw in front of a directory, whatever else there is."""
    if find_server("versitygw") is None:
        pytest.skip("versitygw is not built: make stores")
    with versitygw_server() as info:
        yield info


@pytest.fixture(scope="session")
def moto() -> Iterator[ServerInfo]:
    """moto's server, whatever else there is."""
    with moto_server() as info:
        yield info


@pytest.fixture(scope="session")
def object_store_server(request: pytest.FixtureRequest) -> ServerInfo:
    """The best object store that can be had: a real one, else moto."""
    found = request.config.stash[_STORE].get()
    info: ServerInfo = request.getfixturevalue("moto") if isinstance(found, str) else found
    return info


@pytest.fixture(scope="session")
def storage_options(object_store_server: ServerInfo) -> dict[str, Any]:
    """fsspec's options for the store that ``bucket_url`` is in."""
    return object_store_server.storage_options


@pytest.fixture
def bucket_url(object_store_server: ServerInfo) -> Iterator[str]:
    """``s3://`` URL of a bucket of the test's own."""
    with fresh_bucket(object_store_server) as name:
        yield f"s3://{name}"
