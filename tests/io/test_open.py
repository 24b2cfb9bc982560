"""From a URL to a store: the backend, its stack, and where settings come from."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config import IoSettings, Settings
from lakehouse.errors import InvalidInputError, UnavailableError
from lakehouse.io import ObjectStore, load_settings, open_backend, open_beside, open_store
from lakehouse.io.decorators import find_layer, innermost
from lakehouse.io.retrying import RetryingStore
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore
from lakehouse.testing.manual_clock import ManualClock
from lakehouse.testing.stores import memory_store

CREDENTIALS = {"key": "minio", "secret": "minio123", "endpoint_url": "http://127.0.0.1:1"}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting and no credential comes from outside the test."""
    for name in list(os.environ):
        if name.startswith(("LAKEHOUSE_", "AWS_")):
            monkeypatch.delenv(name)


# --- backends ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "backend"),
    [
        ("s3://bucket/x", "S3Backend"),
        ("memory://x", "MemoryBackend"),
        ("file:///x", "LocalBackend"),
        ("/x", "LocalBackend"),
        ("gs://bucket/x", "FsspecBackend"),
    ],
)
def test_the_scheme_chooses_the_backend(url: str, backend: str) -> None:
    """Each scheme has its backend, unknown ones are left to fsspec; nothing is contacted."""
    store = open_store(url, settings=IoSettings(fast_reads="off"))
    assert type(innermost(store)).__name__ == backend
    assert type(open_backend(url, settings=IoSettings(fast_reads="off"))).__name__ == backend


async def test_a_store_is_open_inside_its_block() -> None:
    """open_store is a context manager that gives a working store."""
    async with open_store("memory://test-open-block") as store:
        await store.put("k", b"x")
        assert (await store.get("k")).data == b"x"
        await store.delete("k")


def test_credentials_are_for_places_of_one_scheme() -> None:
    """A store beside another has its options where both are of one scheme, and none of them elsewhere."""
    near = open_store("s3://one/a", storage_options=CREDENTIALS)
    beside = open_beside(near, "s3://two", settings=Settings())
    assert innermost(beside).options.reveal() == innermost(near).options.reveal()  # type: ignore[attr-defined]
    other = open_beside(near, "memory://elsewhere", settings=Settings())
    assert innermost(other).options.reveal() == {}  # type: ignore[attr-defined]


async def test_two_stores_of_one_place_see_the_same() -> None:
    """A store is a view of its place: what one writes the other reads."""
    url = memory_store().url
    async with open_store(url) as one, open_store(f"{url}/") as other:
        await one.put("k", b"x")
        assert (await other.get("k")).data == b"x"
        await one.delete("k")


def test_a_wrong_url_is_refused_at_once() -> None:
    """Mistakes in the URL are found before the first request."""
    with pytest.raises(InvalidInputError, match="bucket"):
        open_store("s3://")


@pytest.mark.parametrize(
    "settings",
    [IoSettings(max_concurrency=3), Settings(io=IoSettings(max_concurrency=3))],
    ids=["group", "all"],
)
def test_settings_are_those_given(settings: Settings | IoSettings) -> None:
    """Settings may be given as a whole or as the group that matters."""
    assert open_store("memory://x", settings=settings).settings.max_concurrency == 3


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings given, the environment of the process counts."""
    monkeypatch.setenv("LAKEHOUSE_IO_MAX_CONCURRENCY", "5")
    assert open_store("memory://x").settings.max_concurrency == 5
    assert open_store("memory://x", settings=IoSettings()).settings.max_concurrency == 64


async def test_the_clock_given_is_the_one_that_waits() -> None:
    """Waits between attempts are by the caller's clock."""
    clock = ManualClock(skip=True)
    store = open_store(memory_store().url, clock=clock)
    retrying = find_layer(store, RetryingStore)
    assert retrying is not None
    retrying.inner = FaultyStore(retrying.inner, [Fault(kind=FaultKind.THROTTLE)])
    await store.put("k", b"x")
    assert len(clock.slept) == 1


async def test_a_file_system_that_cannot_be_reached_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems that connect when they are made fail with an error of ours, at the first request."""

    def refuse(**options: Any) -> None:
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr("fsspec.get_filesystem_class", lambda scheme: refuse)
    store = open_backend("sftp://host/x")
    with pytest.raises(UnavailableError, match="sftp://host/x cannot be reached") as caught:
        await store.get("k")
    assert caught.value.kind == "unreachable"


# --- fast reads ----------------------------------------------------------------------


@pytest.fixture
def without_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    """The [fast] extra is not installed."""
    real = importlib.util.find_spec

    def find_spec(name: str, *arguments: Any) -> Any:
        return None if name == "obstore" else real(name, *arguments)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def _is_fast(mode: str, options: dict[str, Any]) -> bool:
    backend: ObjectStore = open_backend(
        "s3://bucket/x", storage_options=options, settings=IoSettings(fast_reads=mode)
    )
    return type(backend).__name__ == "FastReads"


def test_fast_reads_are_used_where_they_can_be() -> None:
    """In mode auto reads go through obstore when it is there and understands the options."""
    assert _is_fast("auto", CREDENTIALS)
    assert _is_fast("require", CREDENTIALS)
    assert not _is_fast("off", CREDENTIALS)


@pytest.mark.parametrize(
    "options",
    [
        {"profile": "work"},
        {**CREDENTIALS, "s3_additional_kwargs": {"ServerSideEncryption": "aws:kms"}},
        {**CREDENTIALS, "client_kwargs": {"verify": False}},
        {**CREDENTIALS, "config_kwargs": {"proxies": {}}},
    ],
    ids=["profile", "encryption", "client", "config"],
)
def test_options_without_a_counterpart_are_read_by_s3fs(options: dict[str, Any]) -> None:
    """What obstore would ignore is never ignored: auto reads as before, require refuses."""
    assert not _is_fast("auto", options)
    with pytest.raises(InvalidInputError, match="no counterpart") as caught:
        _is_fast("require", options)
    assert caught.value.kind == "unsupported"


@pytest.mark.usefixtures("without_obstore")
def test_without_obstore_reads_go_through_s3fs() -> None:
    """In mode auto a missing extra is no mistake; in mode require the error says what to install."""
    assert not _is_fast("auto", CREDENTIALS)
    with pytest.raises(InvalidInputError, match=r"pip install 'aiolakehouse\[fast\]'") as caught:
        _is_fast("require", CREDENTIALS)
    assert caught.value.kind == "missing-extra"


def test_fast_reads_concern_s3_alone() -> None:
    """Other schemes are opened whatever the mode."""
    assert open_backend("memory://x", settings=IoSettings(fast_reads="require")).url == "memory://x"


def test_opening_memory_loads_no_s3() -> None:
    """Backends are loaded when their scheme is opened."""
    script = (
        "import sys; from lakehouse.io import open_store; open_store('memory://x'); "
        "sys.exit(bool({'s3fs', 'aiobotocore', 'obstore'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0


# --- settings ------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file that sets two things."""
    path = tmp_path / "lakehouse.toml"
    path.write_text("[io]\nmax_concurrency = 11\nretry_attempts = 11\nfsync = false\n")
    return path


def test_arguments_beat_environment_beats_file_beats_default(file: Path) -> None:
    """Each source counts where no nearer one speaks."""
    env = {"LAKEHOUSE_IO_MAX_CONCURRENCY": "12", "LAKEHOUSE_IO_RETRY_ATTEMPTS": "12"}
    io = load_settings({"io.max_concurrency": 13}, env=env, path=str(file)).io
    assert (io.max_concurrency, io.retry_attempts, io.fsync, io.threads) == (13, 12, False, 8)


def test_the_environment_names_the_file(file: Path) -> None:
    """Without a path given, LAKEHOUSE_CONFIG says where the file is; a path given beats it."""
    assert load_settings(env={"LAKEHOUSE_CONFIG": str(file)}).io.max_concurrency == 11
    other = file.with_name("other.toml")
    other.write_text("[io]\nmax_concurrency = 99\n")
    assert load_settings(env={"LAKEHOUSE_CONFIG": str(file)}, path=str(other)).io.max_concurrency == 99


def test_without_a_word_the_process_environment_counts(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """When no environment is handed in, it is that of the process."""
    monkeypatch.setenv("LAKEHOUSE_CONFIG", str(file))
    monkeypatch.setenv("LAKEHOUSE_IO_MAX_CONCURRENCY", "12")
    assert load_settings().io.max_concurrency == 12
    assert load_settings().io.retry_attempts == 11


def test_without_a_file_there_are_the_defaults() -> None:
    """No file is needed."""
    assert load_settings(env={}) == Settings()


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """A path may begin in the home directory, as services write it into their environment."""
    monkeypatch.setenv("HOME", str(file.parent))
    assert load_settings(env={"LAKEHOUSE_CONFIG": "~/lakehouse.toml"}).io.max_concurrency == 11


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[io\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"[io]\nmax_concurency = 3\n", "max_concurrency"),
        (b"[io]\nmax_concurrency = 'many'\n", "configuration file"),
    ],
    ids=["broken", "no text", "unknown name", "wrong value"],
)
def test_a_file_that_makes_no_sense_is_refused(file: Path, content: bytes, says: str) -> None:
    """Each mistake in the file gets an error that says where it is."""
    file.write_bytes(content)
    with pytest.raises(InvalidInputError, match=says):
        load_settings(env={}, path=str(file))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A file that was named has to be there, and a directory is none."""
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(InvalidInputError, match="cannot be read"):
            load_settings(env={}, path=str(path))
