"""Stores whose credentials expire: what is asked again, how often, and what travels."""

from __future__ import annotations

import gc
import pickle
import types
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from lakehouse.errors import NotFoundError, PermissionDeniedError
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.renewing import Credentials, RenewingStore
from lakehouse.iceberg.scopes import Scope
from lakehouse.io import Fetched, ObjectStore, open_store
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.options import StorageOptions


class _Keyed(StoreDecorator):
    """A store that only the key of the moment reads."""

    good = "k1"
    requests = 0
    closed: list[str]

    def __init__(self, inner: ObjectStore, key: str) -> None:
        super().__init__(inner)
        self.key = key

    async def call(self, verb: str, key: str, request: Any, size: int = 0) -> Any:
        await anyio.lowlevel.checkpoint()
        _Keyed.requests += 1
        if self.key != _Keyed.good:
            raise PermissionDeniedError(f"not with {self.key}")
        return await request()

    async def aclose(self) -> None:
        _Keyed.closed.append(self.key)


class _Catalog:
    """Hands out keys, and counts."""

    def __init__(self, *keys: str) -> None:
        self.keys = list(keys)
        self.asked = 0

    async def renew(self) -> Mapping[str, Any]:
        await anyio.lowlevel.checkpoint()
        self.asked += 1
        return {"key": self.keys.pop(0)}


def _renewing(catalog: _Catalog, places: int = 1) -> list[RenewingStore]:
    _Keyed.good, _Keyed.closed = "k1", []
    credentials = Credentials({"key": "k1"}, catalog.renew)

    def opened(options: StorageOptions) -> ObjectStore:
        return _Keyed(open_store("memory://renewing"), options.reveal()["key"])

    return [RenewingStore(credentials, opened) for _ in range(places)]


async def test_a_refused_request_is_made_again_with_fresh_credentials() -> None:
    """Whoever reads does not see that credentials expired."""
    catalog = _Catalog("k2")
    (store,) = _renewing(catalog)
    await store.put("one", b"1")
    _Keyed.good = "k2"
    assert (await store.get("one")).data == b"1"
    assert (await store.get_range("one", 0, 1)).data == b"1"
    assert catalog.asked == 1


async def test_many_requests_refused_at_once_ask_once() -> None:
    """All places of a table share what was handed out last."""
    catalog = _Catalog("k2")
    stores = _renewing(catalog, places=3)
    await stores[0].put("one", b"1")
    _Keyed.good = "k2"
    read: list[Fetched] = []

    async def one(store: ObjectStore) -> None:
        read.append(await store.get("one"))

    async with anyio.create_task_group() as tasks:
        for store in stores * 10:
            tasks.start_soon(one, store)
    assert (len(read), catalog.asked) == (30, 1)


async def test_the_same_credentials_are_not_tried_again() -> None:
    """What is refused with nothing newer to be had is refused, and other errors ask nobody."""
    catalog = _Catalog("k1")
    (store,) = _renewing(catalog)
    with pytest.raises(NotFoundError):
        await store.get("nothing")
    assert catalog.asked == 0
    _Keyed.good, _Keyed.requests = "another", 0
    with pytest.raises(PermissionDeniedError, match="not with k1"):
        await store.get("one")
    assert (catalog.asked, _Keyed.requests) == (1, 1)


async def test_replaced_stores_are_closed() -> None:
    """A store that was replaced is closed with the last request of it, and all of them in the end."""
    catalog = _Catalog("k2", "k3")
    (store,) = _renewing(catalog)
    for key in ("k2", "k3"):
        _Keyed.good = key
        with pytest.raises(NotFoundError):
            await store.get("nothing")
    assert _Keyed.closed == ["k1", "k2"]
    await store.aclose()
    assert sorted(_Keyed.closed) == ["k1", "k2", "k3"]


async def test_places_travel_with_the_credentials_of_the_moment() -> None:
    """Pickled places have the options of now, and ask nobody for others."""
    catalog = _Catalog()
    made = Locations("s3://bucket/t", storage_options={"key": "k1", "secret": "s"}, renew=catalog.renew)
    assert made._credentials is not None
    made._credentials.options = StorageOptions({"key": "k2", "secret": "s"})
    arrived = pickle.loads(pickle.dumps(made))
    assert arrived.storage_options.reveal() == {"key": "k2", "secret": "s"}
    assert arrived._credentials is None
    store = pickle.loads(pickle.dumps(made.store))
    assert store.url == "s3://bucket/t"


async def test_rotated_credentials_are_used_by_the_next_request() -> None:
    """Options that somebody replaces are those of the next request, in every place, and nobody is asked."""
    catalog = _Catalog()
    stores = _renewing(catalog, places=2)
    _Keyed.good, _Keyed.requests = "k2", 0
    await stores[0]._credentials.replace({"key": "k2"})
    for store in stores:
        with pytest.raises(NotFoundError):
            await store.get("nothing")
    assert (_Keyed.requests, catalog.asked, _Keyed.closed) == (2, 0, ["k1", "k1"])


async def test_requests_under_way_end_with_the_credentials_they_began_with() -> None:
    """A store that is replaced during a request is closed when the request has ended, and not before."""
    (store,) = _renewing(_Catalog())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_missed, store)
        await anyio.lowlevel.checkpoint()
        await store._credentials.replace({"key": "k2"})
        assert _Keyed.closed == []
    assert _Keyed.closed == ["k1"]


async def test_handed_out_credentials_are_asked_for_after_a_rotation() -> None:
    """Where credentials come with a table, a rotation asks for them again before the next request."""
    catalog = _Catalog("k3")
    (store,) = _renewing(catalog)
    await store._credentials.replace({"key": "none"}, is_refused=True)
    _Keyed.good, _Keyed.requests = "k3", 0
    with pytest.raises(NotFoundError):
        await store.get("nothing")
    assert (_Keyed.requests, catalog.asked) == (1, 1)


async def _missed(store: RenewingStore) -> None:
    with pytest.raises(NotFoundError):
        await store.get("nothing")


async def test_no_old_credential_is_left_behind() -> None:
    """After a rotation nothing that places hold refers to a credential of before."""
    places = Locations(
        "s3://b/t", storage_options={"key": "old-key", "secret": "old-secret"}, scope=Scope("x")
    )
    await places.rotate({"key": "new-key", "secret": "new-secret"})
    found = _texts_below(places)
    assert {"new-key", "new-secret"} <= found
    assert not {"old-key", "old-secret"} & found


def _texts_below(root: object) -> set[str]:
    """All texts that can be reached from an object, through values and not through code."""
    seen: set[int] = set()
    texts: set[str] = set()
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | types.ModuleType | types.FunctionType | types.FrameType):
            continue
        seen.add(id(one))
        if isinstance(one, str):
            texts.add(one)
        waiting.extend(gc.get_referents(one))
    return texts
