"""Storage options: handed to the backend as they are, and never shown."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from types import MappingProxyType
from typing import Any

import pytest

from lakehouse.config import IoSettings, Secret
from lakehouse.errors import LakehouseError
from lakehouse.io import StorageOptions, open_backend, open_store

SECRET = "hunter2"
OPTIONS: dict[str, Any] = {
    "key": f"AKIA{SECRET}",
    "secret": SECRET,
    "token": SECRET,
    "password": SECRET,
    "passphrase": SECRET,
    "sas_token": SECRET,
    "account_key": SECRET,
    "connection_string": f"AccountName=a;AccountKey={SECRET}",
    "session": SECRET,
    "api_secret_bytes": SECRET.encode(),
    "credentials": (SECRET, SECRET),
    "client_kwargs": {
        "aws_secret_access_key": SECRET,
        "region_name": "eu-west-1",
        "deeper": {"auth_header": SECRET},
    },
    "proxy": f"http://user:{SECRET}@proxy:3128",
    "endpoint_url": "http://127.0.0.1:9000",
    "anon": False,
    "use_ssl": True,
    "max_concurrency": 10,
}


def _shown(value: object) -> str:
    """Every way in which a value becomes text without anybody asking for it."""
    logged = logging.LogRecord("x", logging.INFO, "x", 1, "%s %r", (value, value), None).getMessage()
    return f"{value} {value!r} {value!s:>10} {logged} {[value]} {json.dumps(value, default=str)}"


def test_secrets_do_not_show() -> None:
    """However options become text, no secret is in it; what is no secret is."""
    shown = _shown(StorageOptions(OPTIONS))
    assert SECRET not in shown
    assert "***" in shown
    for plain in ("eu-west-1", "http://127.0.0.1:9000", "max_concurrency", "10"):
        assert plain in repr(StorageOptions(OPTIONS))


def test_values_do_not_show_one_by_one() -> None:
    """Looking values up, or going through them, gives the hidden form."""
    options = StorageOptions(OPTIONS)
    assert SECRET not in _shown(dict(options))
    assert SECRET not in _shown(list(options.items()))
    assert SECRET not in "".join(_shown(options[name]) for name in options)
    assert SECRET not in _shown(options.get("client_kwargs"))


def test_numbers_and_switches_are_as_they_are() -> None:
    """What cannot be a secret is not hidden, whatever it is called."""
    options = StorageOptions({"token_ttl": 60, "key_rotation": True, "account": None, "key_prefix": "x"})
    assert dict(options) == {"token_ttl": 60, "key_rotation": True, "account": None, "key_prefix": "x"}


def test_the_backend_gets_the_real_values() -> None:
    """What was given is what is revealed, nested values too."""
    assert StorageOptions(OPTIONS).reveal() == OPTIONS
    assert StorageOptions().reveal() == StorageOptions({}).reveal() == {}


def test_hidden_values_can_be_given_back() -> None:
    """Options made of other options, or of values taken from them, reveal the same."""
    options = StorageOptions(OPTIONS)
    assert StorageOptions(options).reveal() == OPTIONS
    assert StorageOptions(dict(options)).reveal() == OPTIONS
    assert StorageOptions({"secret": Secret(SECRET)}).reveal() == {"secret": SECRET}
    nested = StorageOptions({"client_kwargs": {"key": Secret(SECRET)}})
    assert nested.reveal() == {"client_kwargs": {"key": SECRET}}


def test_options_do_not_change() -> None:
    """Neither what was given nor what is revealed is a way in."""
    given = {"client_kwargs": {"region_name": "a"}, "anon": True}
    options = StorageOptions(given)
    given["client_kwargs"]["region_name"] = "b"  # type: ignore[index]
    options.reveal()["client_kwargs"]["region_name"] = "c"
    options["client_kwargs"]["region_name"] = "d"
    assert options.reveal() == {"client_kwargs": {"region_name": "a"}, "anon": True}


def test_any_mapping_will_do() -> None:
    """Nested mappings need not be dictionaries."""
    options = StorageOptions({"client_kwargs": MappingProxyType({"secret": SECRET})})
    assert options.reveal() == {"client_kwargs": {"secret": SECRET}}
    assert SECRET not in repr(options)


def test_equal_options_are_equal() -> None:
    """Options are compared by their real values, and hash alike."""
    assert StorageOptions(OPTIONS) == StorageOptions(dict(OPTIONS))
    assert hash(StorageOptions(OPTIONS)) == hash(StorageOptions(OPTIONS))
    assert StorageOptions({"secret": "a"}) != StorageOptions({"secret": "b"})
    assert StorageOptions({"a": "b"}) != {"a": "b"}


def test_options_travel() -> None:
    """A pickled copy works elsewhere, and shows as little."""
    copy = pickle.loads(pickle.dumps(StorageOptions(OPTIONS)))
    assert copy.reveal() == OPTIONS
    assert SECRET not in _shown(copy)


@pytest.mark.parametrize("fast_reads", ["off", "auto"])
def test_stores_do_not_show_their_options(fast_reads: str) -> None:
    """Neither a store nor its pickled copy shows credentials, in any layer."""
    store = open_store(
        "s3://bucket/x",
        storage_options={"key": SECRET, "secret": SECRET, "endpoint_url": "http://127.0.0.1:1"},
        settings=IoSettings(fast_reads=fast_reads),
    )
    for shown in (store, pickle.loads(pickle.dumps(store))):
        layer: Any = shown
        while layer is not None:
            assert SECRET not in f"{layer} {layer!r}"
            layer = getattr(layer, "inner", None)


@pytest.mark.parametrize(
    "options",
    [
        {"endpoint_url": "http://127.0.0.1:1"},
        {"endpoint_url": "no url at all"},
        {"endpoint_url": "http://127.0.0.1:1", "client_kwargs": {"nonsense": 1}},
        {"endpoint_url": "http://127.0.0.1:1", "config_kwargs": {"nonsense": 1}},
        {"nonsense": 1},
    ],
    ids=["nobody there", "no endpoint", "bad client option", "bad config option", "bad option"],
)
@pytest.mark.parametrize("fast_reads", ["off", "auto"])
async def test_errors_do_not_show_credentials(options: dict[str, Any], fast_reads: str) -> None:
    """Whatever goes wrong with the options, no error in the chain repeats a credential."""
    credentials = {"key": f"AKIA{SECRET}", "secret": SECRET, "token": SECRET}
    settings = IoSettings(fast_reads=fast_reads, connect_timeout_s=1)

    async def get() -> None:
        given = {**credentials, **options}
        async with open_backend("s3://bucket/x", storage_options=given, settings=settings) as store:
            await store.get("k")

    with pytest.raises(LakehouseError) as caught:
        await get()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error!r} {error.args}"
        error = error.__cause__ or error.__context__
    assert SECRET not in repr(pickle.loads(pickle.dumps(caught.value)))


async def test_errors_of_other_file_systems_do_not_show_credentials() -> None:
    """A scheme that fsspec cannot open with these options says so without repeating them."""
    with pytest.raises(LakehouseError) as caught:
        await open_backend("github://host/x", storage_options={"token": SECRET}).get("k")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
