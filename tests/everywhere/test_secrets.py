"""No secret shows: distinctive ones go wherever options are taken, and are looked for in all texts."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import logging
import pickle
import pkgutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

import lakehouse
import lakehouse.sync
from lakehouse.config import CatalogConfig, IoSettings
from lakehouse.errors import LakehouseError
from lakehouse.io import StorageOptions, open_backend, open_store
from lakehouse.spark.runtime.connection import Connection
from lakehouse.testing.endpoint import ServerInfo
from tests.kit.listening import listening

CANARY = "c4n4ry-of-a-secret"
KEY = f"AKIA{CANARY.upper()}"
SECRETS: dict[str, Any] = {
    "key": KEY,
    "secret": f"{CANARY}-secret",
    "token": f"{CANARY}-token",
    "config_kwargs": {"proxies": {"http": f"http://who:{CANARY}@127.0.0.1:1"}},
    "s3_additional_kwargs": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": f"{CANARY}-customer"},
}
URLS = (f"http://who:{CANARY}@127.0.0.1:1", f"http://127.0.0.1:1/?signature={CANARY}")
"""Endpoints as people paste them."""
HEADERS = {"headers": {"Authorization": f"Bearer {CANARY}", "X-Who": CANARY}, "cookies": {"id": CANARY}}


def shows(value: object) -> str:
    """Every way in which a value becomes text without anybody asking for its secrets."""
    said = logging.LogRecord("x", logging.INFO, "x", 1, "%s %r", (value, value), None).getMessage()
    text = f"{value} {value!r} {value!s:>10} {said} {[value]} { ({'x': value}) }"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        text += f"{dataclasses.asdict(value)} {json.dumps(dataclasses.asdict(value), default=str)}"
    return text.lower()


def options(endpoint: str = URLS[0], **more: Any) -> dict[str, Any]:
    """Storage options full of secrets."""
    return {**SECRETS, "endpoint_url": endpoint, **more}


def attached(endpoint: str) -> Iterator[Any]:
    """A lake with catalogs and accounts whose properties are full of secrets, and what it is made of."""
    catalogs = {
        "ice": {"type": "directory", "warehouse": "s3://bucket/ice", "storage_options": options(endpoint)},
        "rest": {"type": "rest", "uri": endpoint, "token": CANARY, "credential": f"id:{CANARY}"},
        "far": {"type": "lakehouse", "warehouse": "s3://bucket/far", "storage_options": options(endpoint)},
    }
    config = CatalogConfig.parse(catalogs, {"acme": {"catalogs": catalogs}})
    lake = lakehouse.connect("memory://secrets", catalogs=catalogs, accounts=config.accounts)
    acme = lake.for_account("acme")
    yield from (lake, acme, lake.graph, acme.graph, config, config.accounts["acme"])
    for name in catalogs:
        source: Any = lake._state.sources.get(name)
        yield from (source, source.display, source.connector)
    yield from (lake._state.catalogs.catalog("ice").properties, lake._state.catalogs.catalog("rest").scope)


def reader(endpoint: str, fast_reads: str) -> dict[str, Any]:
    """The same without what obstore has no counterpart for."""
    plain = {name: SECRETS[name] for name in ("key", "secret", "token")}
    return {**(plain if fast_reads == "require" else SECRETS), "endpoint_url": endpoint}


@pytest.mark.parametrize("endpoint", URLS)
def test_attached_catalogs_do_not_show_secrets(endpoint: str) -> None:
    """Lakes, accounts, graphs, sources and configurations show nothing of the properties of catalogs."""
    for one in attached(endpoint):
        assert CANARY not in f"{one} {one!r} {one!s:>10} {[one]}".lower(), type(one)


@pytest.mark.parametrize("endpoint", URLS)
def test_public_objects_do_not_show_secrets(endpoint: str) -> None:
    """Lakes, stores in every layer, connections and options show none, nor do their pickled copies."""
    url = "s3://bucket/wh"
    found: list[Any] = [
        StorageOptions(options(endpoint)),
        StorageOptions(HEADERS),
        StorageOptions({"s3": options(endpoint), "remote": f"https://h/x.zip?sig={CANARY}"}),
        Connection(url=url, storage_options=options(endpoint)),
        Connection(url="http://host/wh", storage_options=HEADERS),
        Connection(url="zip://wh::s3://bucket/x.zip", storage_options={"s3": options(endpoint)}),
        open_backend(url, storage_options=options(endpoint)),
        open_store("http://host/wh", storage_options=HEADERS),
        lakehouse.connect(url, storage_options=options(endpoint)).store,
    ]
    layers: list[Any] = [open_store(url, storage_options=reader(endpoint, "require"))]
    while (inner := getattr(layers[-1], "inner", None)) is not None:
        layers.append(inner)
    for one in [*found, *layers]:
        assert CANARY not in shows(one)
        assert CANARY not in shows(pickle.loads(pickle.dumps(one)))
    for lake in (lakehouse.connect, lakehouse.sync.connect):
        assert CANARY not in shows(lake(url, storage_options=options(endpoint)))


def test_a_test_server_does_not_show_its_credentials() -> None:
    """Who runs tests prints servers."""
    server = ServerInfo(kind="moto", endpoint_url="http://e", key=KEY, secret=SECRETS["secret"], note="")
    assert CANARY not in f"{server} {server!r} {server.explain()}".lower()


def test_a_connection_is_told_apart_without_its_secrets() -> None:
    """The identity of a connection differs with its secrets, and does not show them."""
    one = Connection(url="s3://bucket/wh", storage_options=options())
    other = Connection(url="s3://bucket/wh", storage_options=options(secret="another"))
    assert one.identity != other.identity
    assert CANARY not in one.identity.lower()
    assert one.revealed_options()["secret"] == SECRETS["secret"]


# --- whatever holds options ------------------------------------------------------------------

_HOLD = ("StorageOptions", "storage_options", "Connection", "ServerInfo")


def holders() -> Iterator[type]:
    """Public classes whose values hold options, as their fields or arguments say."""
    for info in pkgutil.walk_packages(lakehouse.__path__, "lakehouse."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            found = getattr(module, name)
            is_made = isinstance(found, type) and not inspect.isabstract(found)
            if is_made and found.__module__ == info.name and _holds(found):
                yield found


def _parts(cls: type) -> dict[str, str]:
    """Names of fields and arguments, with their annotations."""
    parts = (
        {one.name: str(one.type) for one in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    )
    made = cls.__init__  # type: ignore[misc]
    if inspect.isfunction(made):
        parts |= {name: str(one.annotation) for name, one in inspect.signature(made).parameters.items()}
    return parts


def _holds(cls: type) -> bool:
    return any(word in f"{name}: {kind}" for name, kind in _parts(cls).items() for word in _HOLD)


def _laden(cls: type) -> Any:
    """A value of the class in which each part that can hold options holds secrets."""
    server = ServerInfo(kind="moto", endpoint_url="http://e", key=KEY, secret=SECRETS["secret"], note="")
    told: dict[str, Any] = {
        "Connection": Connection(url="s3://bucket/wh", storage_options=options()),
        "StorageOptions": StorageOptions(options()),
        "storage_options": StorageOptions(options()),
        "ServerInfo": server,
    }
    value = object.__new__(cls)
    for name, kind in {"url": "", "inner": "", **_parts(cls)}.items():
        held = next((it for word, it in told.items() if word in f"{name}: {kind}"), None)
        for attribute in (name, f"_{name}"):
            try:
                object.__setattr__(value, attribute, held)
            except AttributeError:
                continue
    return value


def test_whatever_holds_options_hides_them() -> None:
    """Each public class of the package that can hold options or a connection prints without secrets."""
    found = {cls: _laden(cls) for cls in holders()}
    assert {"Connection", "S3Backend", "FsspecBackend", "LakehouseReader", "LocalBackend", "Warehouse"} <= {
        cls.__name__ for cls in found
    }
    assert len(found) >= 10
    leaky = [
        cls.__qualname__ for cls, value in found.items() if CANARY in f"{value} {value!r} {[value]}".lower()
    ]
    assert leaky == []


# --- errors and logs ----------------------------------------------------------------------------


def _said(error: BaseException) -> str:
    """All that a traceback shows of an error, and what programs see of it."""
    text = "".join(traceback.format_exception(error))
    while error is not None:
        text += f"{error!r} {error.args} {getattr(error, 'context', '')} {getattr(error, '__notes__', '')}"
        if error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None):
            break
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return text.lower()


@pytest.mark.parametrize("fast_reads", ["off", "require"])
@pytest.mark.parametrize("endpoint", [*URLS, "{live}"])
async def test_errors_and_logs_do_not_show_secrets(
    endpoint: str, fast_reads: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody there, and a server that repeats in its answer what it was sent: no error or log shows it."""
    for logger in ("lakehouse", "s3fs", "fsspec", "obstore"):
        caplog.set_level(logging.DEBUG, logger)
    told = f"{SECRETS['secret']} {SECRETS['token']} {KEY}"
    body = f"<Error><Code>AccessDenied</Code><Message>who is {told}?</Message></Error>".encode()
    settings = IoSettings(
        fast_reads=fast_reads, retry_attempts=2, retry_base_s=0.001, retry_deadline_s=0.5, connect_timeout_s=1
    )
    async with listening(403, body) as listener:
        given = reader(endpoint.format(live=listener.url), fast_reads)
        if "{live}" in endpoint:
            given.pop("config_kwargs", None)
        async with open_store("s3://bucket/wh", storage_options=given, settings=settings) as store:
            for work in (store.get("k"), store.head("k"), store.put("k", b""), store.put_if_absent("k", b"")):
                with pytest.raises(LakehouseError) as caught:
                    await work
                assert CANARY not in _said(caught.value)
                assert CANARY not in _said(pickle.loads(pickle.dumps(caught.value)))
    assert CANARY not in caplog.text.lower()


async def test_errors_of_other_file_systems_do_not_show_secrets() -> None:
    """What a file system says of the options it was given comes without their values."""
    broken = {"headers": {"Authorization": f"{CANARY}\nBearer"}}
    signed = {"client_kwargs": {"cookies": {"id": CANARY}}, "proxy": f"http://who:{CANARY}@127.0.0.1:1"}
    for given in (broken, signed):
        async with open_store("http://127.0.0.1:1/wh", storage_options=given) as store:
            with pytest.raises(LakehouseError) as caught:
                await store.get("k")
        assert CANARY not in _said(caught.value)


def test_other_peoples_logging_is_left_alone() -> None:
    """botocore writes tokens at DEBUG: nothing here turns that on."""
    program = (
        "import logging, lakehouse.io\n"
        "lakehouse.io.open_store('s3://b/w', storage_options={'key': 'k', 'secret': 's'})\n"
        "for name in ('botocore', 'aiobotocore', 'aiohttp', 's3fs', 'urllib3'):\n"
        "    logger = logging.getLogger(name)\n"
        "    print(name, logger.level, [h for h in logger.handlers if type(h) is not logging.NullHandler])\n"
        "print('root', logging.getLogger().handlers)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    levels = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert all("DEBUG" not in line and " 10 " not in line for line in levels.values())
    assert levels["root"].endswith("[]")
    assert levels["botocore"].endswith("[]")


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_line_does_not_repeat_secrets(as_json: bool) -> None:
    """A failing command names what is wrong with its options, and shows no value."""
    words = ["table", "list", "s3://bucket/wh", "-o", f"key={KEY}", "-o", f"secret={SECRETS['secret']}"]
    words += ["--endpoint-url", URLS[0], *(["--json"] if as_json else [])]
    program = "import os; os.environ['LAKEHOUSE_IO_RETRY_DEADLINE_S'] = '0.1'; "
    program += "from lakehouse.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=False
    )
    said = f"{done.stdout}{done.stderr}"
    assert done.returncode == 1, said
    assert "list_page at s3://bucket/wh" in said
    assert CANARY not in said.lower()
