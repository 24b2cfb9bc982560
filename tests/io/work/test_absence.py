"""Reads of what may be absent: an absent object is an answer, a missing bucket is none."""

from __future__ import annotations

import pytest

from lakehouse.errors import NotFoundError, UnavailableError
from lakehouse.io.work.absence import or_none
from lakehouse.testing import memory_store


async def test_an_absent_object_is_none() -> None:
    """What is there is returned, what is not is None."""
    store = memory_store()
    await store.put("a", b"x")
    found, absent = await or_none(store.get("a")), await or_none(store.get("b"))
    assert found is not None
    assert (found.data, absent) == (b"x", None)


@pytest.mark.parametrize(
    "error", [NotFoundError("no bucket", kind="missing-bucket"), UnavailableError("away")]
)
async def test_other_errors_pass(error: Exception) -> None:
    """A missing bucket says nothing of the object, nor does any other error."""

    async def read() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await or_none(read())
    assert caught.value is error
