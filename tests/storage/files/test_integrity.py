"""Errors about the bytes of data files: they name the object, and say when it is another one."""

from __future__ import annotations

import pytest

from lakehouse.errors import ConflictError, CorruptionError, FormatError, LakehouseError, NotFoundError
from lakehouse.storage.files.integrity import check_same, reading

KEY = "db/t-01020304/data/x.parquet"


def test_an_error_about_bytes_names_the_object() -> None:
    """An error of a decoder keeps its class, kind and facts, and gets the key."""
    with pytest.raises(CorruptionError, match=f"{KEY}: a bad page") as caught, reading(KEY):
        raise CorruptionError("a bad page", offset=7)
    assert caught.value.context == {"offset": 7, "key": KEY}


def test_an_error_that_names_its_object_stays_as_it_is() -> None:
    """Whoever knows the key better is not contradicted."""
    error = FormatError("a bad footer", key="other")
    with pytest.raises(FormatError) as caught, reading(KEY):
        raise error
    assert caught.value is error


def test_a_replaced_object_is_damage() -> None:
    """Data files are written once: one that changed while it was read is a CorruptionError."""
    with pytest.raises(CorruptionError, match="was replaced while it was read") as caught, reading(KEY):
        raise ConflictError("another version", kind="object-changed")
    assert caught.value.context["key"] == KEY


@pytest.mark.parametrize("error", [NotFoundError("gone"), ConflictError("lost"), ValueError("no")])
def test_other_errors_pass(error: Exception) -> None:
    """An error that says nothing about bytes is not touched."""
    with pytest.raises(type(error)) as caught, reading(KEY):
        raise error
    assert caught.value is error


def test_the_file_of_the_snapshot_is_accepted() -> None:
    """Facts that agree raise nothing."""
    check_same("rows and size", (3, 100), (3, 100))


def test_another_file_is_refused() -> None:
    """A sound file that is not the one the snapshot says is an error with both facts."""
    with pytest.raises(LakehouseError, match="another file stands in its place: rows") as caught:
        check_same("rows", (3,), (4,))
    assert isinstance(caught.value, CorruptionError)
    assert caught.value.context == {"expected": (3,), "got": (4,)}
