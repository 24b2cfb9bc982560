"""Storage options of schemes that are no S3 store, checked against what their file systems take."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.io.location import Location
from lakehouse.io.open import open_store, understood_options


def understood(url: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options as the file system takes them."""
    return understood_options(Location.parse(url), options).reveal()


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("memory://x", {"endpoint_url": "http://x"}, "no storage option 'endpoint_url' for memory://"),
        ("file:///x", {"key": "x"}, "no storage option 'key' for file://"),
        ("/x", {"auto_mkdri": True}, "no storage option 'auto_mkdri' for file://"),
        ("http://h/x", {"header": {}}, "did you mean 'headers'?"),
        ("https://h/x", {"block_siz": 1}, "did you mean 'block_size'?"),
        ("ftp://h/x", {"user": "x"}, "did you mean 'username'?"),
        ("zip://x", {"target_option": {}}, "did you mean 'target_options'?"),
    ],
)
def test_unknown_names_are_errors(url: str, options: dict[str, Any], says: str) -> None:
    """A name that the file system does not take is an error before it is made."""
    with pytest.raises(InvalidInputError) as caught:
        open_store(url, storage_options=options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("url", "options"),
    [("file:///x", {"auto_mkdir": False}), ("memory://x", {"global_store": False})],
)
def test_options_without_effect_are_refused(url: str, options: dict[str, Any]) -> None:
    """What our own backends do always cannot be turned off in silence."""
    with pytest.raises(InvalidInputError, match="would have no effect"):
        understood(url, options)


def test_what_holds_anyway_may_be_said() -> None:
    """An option that says what is done is taken, and goes nowhere."""
    assert understood("file:///x", {"auto_mkdir": True, "skip_instance_cache": True}) == {}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://h/x", {"headers": {"a": "b"}, "client_kwargs": {}, "ssl": False}),
        ("ftp://h/x", {"username": "u", "tls": True, "use_listings_cache": False}),
        ("github://h/x", {"org": "o", "repo": "r", "sha": "main"}),
    ],
)
def test_what_the_class_takes_is_handed_on(url: str, options: dict[str, Any]) -> None:
    """Parameters of the class, of its bases and of the library behind it are known."""
    assert understood(url, options) == options


def test_a_file_system_from_elsewhere_takes_what_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a class takes any name, only what looks like a misspelling is refused."""

    class Elsewhere:
        def __init__(self, project: str = "", **rest: object) -> None: ...

    monkeypatch.setattr("fsspec.get_filesystem_class", lambda scheme: Elsewhere)
    assert understood("gs://b/x", {"project": "p", "something_else": 1}) == {
        "project": "p",
        "something_else": 1,
    }
    with pytest.raises(InvalidInputError, match="did you mean 'project'"):
        understood("gs://b/x", {"project_": "p"})


def test_a_file_system_that_is_not_installed_is_not_guessed_at() -> None:
    """Without the package of a scheme nothing is checked: the first request says what is missing."""
    assert understood("az://b/x", {"account_nam": "x"}) == {"account_nam": "x"}
