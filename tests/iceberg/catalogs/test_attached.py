"""Catalogs under names: credentials that are replaced, and what is left of a catalog that is detached."""

from __future__ import annotations

import gc
import json
import types
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lakehouse.cache import CacheBudget
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, PermissionDeniedError
from lakehouse.iceberg.catalogs import Catalogs
from tests.kit.expiring_store import ExpiringStore, expiring_store
from tests.kit.iceberg_plans import three_days
from tests.kit.iceberg_rest import RestServer, rest_catalog
from tests.kit.iceberg_tables import table_files

_URL = "s3://bucket/wh/db/t"


@pytest.fixture
def files() -> Iterator[ExpiringStore]:
    """A store with a table in a directory of a warehouse, which the key ``k1`` may read."""
    metadata, contents = table_files(three_days(), _URL)
    with expiring_store() as store:
        store.objects = {f"bucket/wh/db/t/{name}": data for name, data in contents.items()}
        hint = metadata.removeprefix("metadata/").removesuffix(".metadata.json")
        store.objects["bucket/wh/db/t/metadata/version-hint.text"] = hint.encode()
        store.keys = {"k1"}
        yield store


@pytest.fixture
def rest(files: ExpiringStore) -> Iterator[RestServer]:
    """A REST catalog of that table, which hands out no credentials, and knows the token ``t1``."""
    metadata = next(name for name in files.objects if name.endswith(".metadata.json"))
    with rest_catalog() as server:
        server.tables[("db", "t")] = lambda: {
            "metadata-location": f"s3://{metadata}",
            "metadata": json.loads(files.objects[metadata]),
            "config": {},
        }
        server.token = "t1"
        yield server


def _options(files: ExpiringStore, key: str) -> dict[str, Any]:
    return {"key": key, "secret": f"secret-of-{key}", "endpoint_url": files.url}


def _directory(files: ExpiringStore, key: str = "k1") -> dict[str, Any]:
    return {"type": "directory", "warehouse": "s3://bucket/wh", "storage_options": _options(files, key)}


def _rest(rest: RestServer, files: ExpiringStore, token: str = "t1") -> dict[str, Any]:
    return {"type": "rest", "uri": rest.url, "token": token, "storage_options": _options(files, "k1")}


def _catalogs(**attached: Mapping[str, Any]) -> Catalogs:
    catalogs = Catalogs(CacheBudget(), settings=Settings())
    for name, properties in attached.items():
        catalogs.attach(name, properties)
    return catalogs


def _texts_below(root: object) -> set[str]:
    """Texts that can be reached from an object."""
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


# --- rotation -----------------------------------------------------------------------


async def test_open_tables_use_the_new_credentials(files: ExpiringStore) -> None:
    """After a rotation an open table makes its next request with the new keys, and none with the old ones."""
    catalogs = _catalogs(ice=_directory(files))
    table = await catalogs.table(("ice", "db", "t"))
    files.keys = {"k2"}
    await catalogs.update("ice", {"storage_options": _options(files, "k2")})
    asked = len(files.asked)
    await table.refresh()
    assert len(await table.plan()) == 30
    assert {key for key, _, _ in files.asked[asked:]} == {"k2"}
    await catalogs.aclose()


async def test_cached_content_survives_a_rotation(files: ExpiringStore) -> None:
    """What the catalog alone has read is not read again with its new keys."""
    catalogs = _catalogs(ice=_directory(files))
    table = await catalogs.table(("ice", "db", "t"))
    await table.plan()
    files.keys = {"k2"}
    await catalogs.update("ice", {"storage_options": _options(files, "k2")})
    asked = len(files.asked)
    assert len(await table.plan()) == 30
    assert files.asked[asked:] == []
    await catalogs.aclose()


async def test_no_old_credential_is_referenced_after_a_rotation(files: ExpiringStore) -> None:
    """Neither catalogs nor open tables hold an old key, wherever one looks."""
    catalogs = _catalogs(ice=_directory(files))
    table = await catalogs.table(("ice", "db", "t"))
    assert "secret-of-k1" in _texts_below(catalogs)
    await catalogs.update("ice", {"storage_options": _options(files, "k2")})
    found = _texts_below([catalogs, table])
    assert "secret-of-k2" in found
    assert "secret-of-k1" not in found
    await catalogs.aclose()


async def test_a_rotation_cannot_make_another_catalog(files: ExpiringStore, rest: RestServer) -> None:
    """Type and place stay: with others the tables of before would be others under their names."""
    catalogs = _catalogs(ice=_directory(files), rest=_rest(rest, files))
    for name, change in (
        ("ice", {"warehouse": "s3://bucket/elsewhere"}),
        ("rest", {"uri": "http://127.0.0.1:9"}),
        ("rest", {"type": "sql"}),
    ):
        with pytest.raises(InvalidInputError, match="detach it") as raised:
            await catalogs.update(name, change)
        assert raised.value.context["option"] in change
    await catalogs.aclose()


async def test_a_rotation_of_one_of_two_leaves_the_other_alone(files: ExpiringStore) -> None:
    """Of two catalogs with the same keys only the rotated one uses others."""
    catalogs = _catalogs(one=_directory(files), two=_directory(files))
    files.keys = {"k1", "k2"}
    one, two = await catalogs.table(("one", "db", "t")), await catalogs.table(("two", "db", "t"))
    await catalogs.update("one", {"storage_options": _options(files, "k2")})
    asked = len(files.asked)
    await one.refresh()
    await two.refresh()
    assert {key for key, _, _ in files.asked[asked:]} == {"k1", "k2"}
    await catalogs.aclose()


# --- refusals -----------------------------------------------------------------------


async def test_a_refusal_never_wedges_a_catalog(files: ExpiringStore, rest: RestServer) -> None:
    """A REST catalog that answered 401 for a while is used on when it no longer does (doris#64966)."""
    catalogs = _catalogs(ice=_rest(rest, files))
    await catalogs.tables(("ice", "db"))
    rest.token = "other"
    for _ in range(3):
        with pytest.raises(PermissionDeniedError, match="refuses these credentials"):
            await catalogs.tables(("ice", "db"))
    rest.token = "t1"
    assert await catalogs.tables(("ice", "db")) == ["ice.db.t"]
    await catalogs.aclose()


async def test_a_token_that_is_replaced_ends_the_refusals(files: ExpiringStore, rest: RestServer) -> None:
    """After a 401 a rotation of the token is enough, for listings and for open tables."""
    catalogs = _catalogs(ice=_rest(rest, files))
    table = await catalogs.table(("ice", "db", "t"))
    rest.token = "t2"
    with pytest.raises(PermissionDeniedError):
        await table.refresh()
    await catalogs.update("ice", {"token": "t2"})
    await table.refresh()
    assert await catalogs.tables(("ice", "db")) == ["ice.db.t"]
    await catalogs.aclose()


class _Tokens:
    """Gives the token of the moment, and counts."""

    def __init__(self, *tokens: str) -> None:
        self.tokens, self.asked = list(tokens), 0

    async def __call__(self) -> Mapping[str, Any]:
        self.asked += 1
        return {"token": self.tokens[0]}


async def test_credentials_may_be_asked_for(files: ExpiringStore, rest: RestServer) -> None:
    """A function gives credentials before the first call and after each refusal, and at no other time."""
    ask = _Tokens("t1")
    catalogs = _catalogs(ice={**_rest(rest, files), "token": None, "credentials": ask})
    assert ask.asked == 0
    await catalogs.tables(("ice", "db"))
    await catalogs.tables(("ice", "db"))
    assert ask.asked == 1
    rest.token, ask.tokens = "t2", ["t2"]
    assert await catalogs.tables(("ice", "db")) == ["ice.db.t"]
    assert ask.asked == 2
    await catalogs.aclose()


async def test_keys_of_a_store_may_be_asked_for(files: ExpiringStore) -> None:
    """A table of a directory reads on with fresh keys when those it was opened with are refused."""
    keys = ["k1"]
    properties = {
        "type": "directory",
        "warehouse": "s3://bucket/wh",
        "credentials": lambda: {"storage_options": _options(files, keys[0])},
    }
    catalogs = _catalogs(ice=properties)
    table = await catalogs.table(("ice", "db", "t"))
    files.keys, keys[0] = {"k2"}, "k2"
    assert len(await table.plan()) == 30
    assert "secret-of-k1" not in _texts_below([catalogs, table])
    await catalogs.aclose()


async def test_trouble_with_asking_says_no_secret(files: ExpiringStore) -> None:
    """An error of the function that gives credentials is told by its sort alone."""

    def ask() -> Mapping[str, Any]:
        raise ValueError("the-secret-itself")

    properties = {"type": "directory", "warehouse": "s3://bucket/wh", "credentials": ask}
    catalogs = _catalogs(ice=properties)
    with pytest.raises(PermissionDeniedError, match="asking for credentials failed: ValueError") as raised:
        await catalogs.tables(("ice", "db"))
    assert "the-secret-itself" not in f"{raised.value!r} {raised.value.__cause__!r}"
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    ("answer", "told"),
    [([], "returns properties, not list"), ({"uri": "http://elsewhere"}, "another catalog")],
)
async def test_answers_that_are_no_credentials_are_refused(
    rest: RestServer, files: ExpiringStore, answer: Any, told: str
) -> None:
    """What is no properties, or would make it another catalog, is an error and used for nothing."""
    catalogs = _catalogs(ice={**_rest(rest, files), "credentials": lambda: answer})
    with pytest.raises(InvalidInputError, match=told):
        await catalogs.tables(("ice", "db"))


def test_credentials_are_a_function() -> None:
    """What cannot be called is refused when the catalog is attached."""
    with pytest.raises(InvalidInputError, match="credentials is a function"):
        _catalogs(ice={"type": "directory", "warehouse": "file:///wh", "credentials": "k1"})


# --- leaving ------------------------------------------------------------------------


async def test_detaching_leaves_nothing_behind(files: ExpiringStore) -> None:
    """A catalog that is attached, read and detached many times leaves no entry, weight or connection."""
    caches = CacheBudget()
    catalogs = Catalogs(caches, settings=Settings())
    for _ in range(3):
        catalogs.attach("ice", _directory(files))
        await (await catalogs.table(("ice", "db", "t"))).plan()
        assert caches.weight > 0
        await catalogs.detach("ice")
        assert (caches.weight, sum(one.entries for one in caches.stats())) == (0, 0)
    assert "secret-of-k1" not in _texts_below([catalogs, caches])
