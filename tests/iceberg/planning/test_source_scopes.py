"""Manifests of two sets of credentials: nothing is handed on that was not proven by a request of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import botocore.session
import pytest

from lakehouse.cache import CacheBudget
from lakehouse.config import Settings
from lakehouse.errors import PermissionDeniedError
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.opening import load_metadata
from lakehouse.iceberg.scopes import Scopes
from lakehouse.iceberg.table import IcebergTable
from lakehouse.io import measure, open_store
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from tests.kit.expiring_store import ExpiringStore, expiring_store
from tests.kit.iceberg_plans import three_days
from tests.kit.iceberg_tables import table_files

_URL = "s3://bucket/wh/t"


@pytest.fixture
def files() -> Iterator[ExpiringStore]:
    """A store with a table of three manifests, which the keys ``a`` and ``b`` may read."""
    metadata, contents = table_files(three_days(), _URL)
    with expiring_store() as store:
        store.objects = {f"bucket/wh/t/{name}": data for name, data in contents.items()}
        store.objects["metadata"] = metadata.encode()
        store.keys = {"a", "b"}
        yield store


async def _opened(
    budget: CacheBudget, scopes: Scopes, url: str, metadata: str, options: dict[str, Any]
) -> IcebergTable:
    """A table as credentials see it, whose content is kept in their scope."""
    places = Locations(url, storage_options=options, scope=scopes.enter(options))
    loaded = await load_metadata(places, f"{url}/{metadata}")

    async def reload() -> Any:
        raise AssertionError

    return IcebergTable("t", places, loaded, reload=reload, caches=budget, settings=Settings())


class _Lake:
    """Tables of one budget, opened with several credentials."""

    def __init__(self, files: ExpiringStore) -> None:
        self.files, self.budget = files, CacheBudget()
        self.scopes = Scopes(self.budget)

    async def open(self, key: str, **options: Any) -> IcebergTable:
        given = {"key": key, "secret": f"secret of {key}", "endpoint_url": self.files.url, **options}
        return await _opened(self.budget, self.scopes, _URL, self.files.objects["metadata"].decode(), given)

    def asked(self, key: str, what: str = "metadata/m") -> tuple[int, int]:
        """Gets and heads of manifests, or lists, by a key since the last call, answered with 200."""

        def of(asked: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
            return [one for one in asked if one[0] == key and one[2] == 200 and what in one[1]]

        asked, heads = of(self.files.asked), of(self.files.heads)
        self.files.asked.clear()
        self.files.heads.clear()
        return len(asked) - len(heads), len(heads)


async def test_equal_credentials_share_content(files: ExpiringStore) -> None:
    """A second table with the same credentials fetches no manifest."""
    lake = _Lake(files)
    async with await lake.open("a") as one, await lake.open("a") as other:
        await one.plan()
        assert lake.asked("a") == (3, 0)
        assert len(await other.plan()) == 30
        assert lake.asked("a") == (0, 0)


async def test_other_credentials_prove_themselves_by_heads(files: ExpiringStore) -> None:
    """A manifest that others have read costs a HEAD of one's own, once, and no bytes and no memory."""
    lake = _Lake(files)
    async with await lake.open("a") as one, await lake.open("b") as other:
        await one.plan()
        lake.asked("a")
        assert len(await other.plan()) == 30
        assert lake.asked("b") == (0, 3)
        assert len(await other.plan()) == 30
        assert lake.asked("b") == (0, 0)
        held = {s.group: s.weight for s in lake.budget.stats() if s.name == "iceberg-manifests"}
        assert held[str(other._locations.scope.who)] < held[str(one._locations.scope.who)] / 3


async def test_manifest_lists_are_taken_over_too(files: ExpiringStore) -> None:
    """A list that others have read costs a HEAD once, a GET when its holder lets go or it was replaced."""
    lake = _Lake(files)
    async with await lake.open("a") as one, await lake.open("b") as other:
        await one.plan()
        assert lake.asked("a", "metadata/snap") == (1, 0)
        assert len(await other.plan()) == 30
        assert lake.asked("b", "metadata/snap") == (0, 1)
        assert len(await other.plan()) == 30
        assert lake.asked("b", "metadata/snap") == (0, 0)
        lake.scopes.leave(one._locations.scope)
        assert len(await other.plan()) == 30
        assert lake.asked("b", "metadata/snap") == (1, 0)
        name = next(name for name in files.objects if "metadata/snap" in name)
        files.objects[name] = files.objects[name][:-1] + b"\0"
        files.keys.add("c")
        async with await lake.open("c") as third:
            with pytest.raises(Exception, match="metadata/snap"):
                await third.plan()
        assert lake.asked("c", "metadata/snap") == (1, 1)


async def test_content_never_reaches_who_may_not_read_it(files: ExpiringStore) -> None:
    """Credentials that the store refuses get nothing, however much of it is in memory."""
    lake = _Lake(files)
    async with await lake.open("a") as one, await lake.open("b") as other:
        await one.plan()
        files.keys = {"a"}
        with pytest.raises(PermissionDeniedError):
            await other.plan()
        assert len(await one.plan()) == 30


async def test_another_object_of_the_path_is_not_the_same(files: ExpiringStore) -> None:
    """A manifest whose object was replaced by one of equal length is read, and not taken over."""
    lake = _Lake(files)
    async with await lake.open("a") as one, await lake.open("b") as other:
        await one.plan()
        lake.asked("a")
        name = "bucket/wh/t/metadata/m1.avro"
        files.objects[name] = files.objects[name][:-1] + bytes([files.objects[name][-1] ^ 1])
        with pytest.raises(Exception, match=r"m1\.avro"):
            await other.plan()
        assert lake.asked("b")[0] == 1


async def test_another_store_is_never_asked_for_a_head(files: ExpiringStore) -> None:
    """The same path at another endpoint is another object, whatever its head says."""
    lake = _Lake(files)
    with expiring_store() as elsewhere:
        elsewhere.objects, elsewhere.keys = dict(files.objects), {"a"}
        async with await lake.open("a") as one, await lake.open("a", endpoint_url=elsewhere.url) as other:
            await one.plan()
            await other.plan()
        assert elsewhere.heads == []
        assert sum("metadata/m" in name for _, name, _ in elsewhere.asked) == 3


async def test_what_was_let_go_is_read_again(files: ExpiringStore) -> None:
    """A manifest that was taken over is read by its taker when its holder lets it go."""
    lake = _Lake(files)
    async with await lake.open("a") as one, await lake.open("b") as other:
        await one.plan()
        await other.plan()
        lake.asked("b")
        other._source.caches.files.invalidate_all()
        lake.scopes.leave(one._locations.scope)
        del one
        assert len(await other.plan()) == 30
        assert lake.asked("b")[0] == 3


# --- a real store -------------------------------------------------------------------


def _who_may_read(server: ServerInfo, *resources: str) -> dict[str, Any]:
    """Storage options of temporary credentials that may read these objects and nothing else."""
    sts = botocore.session.get_session().create_client(
        "sts",
        endpoint_url=server.endpoint_url,
        aws_access_key_id=server.key,
        aws_secret_access_key=server.secret,
        region_name=server.region or "us-east-1",
    )
    allowed = [f"arn:aws:s3:::{one}" for one in resources]
    statement = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": allowed}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    try:
        role = sts.assume_role(RoleArn="arn:aws:iam::1:role/reader", RoleSessionName="reader", Policy=policy)
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        pytest.skip(f"{server.note} gives no credentials of fewer rights, as MinIO does: {error}")
    given = role["Credentials"]
    return {
        **server.storage_options,
        "key": given["AccessKeyId"],
        "secret": given["SecretAccessKey"],
        "token": given["SessionToken"],
    }


async def test_a_real_store_decides_who_gets_what_is_shared(minio: ServerInfo) -> None:
    """On MinIO other keys get manifests for a HEAD each and no byte; keys that it refuses get none."""
    with fresh_bucket(minio) as bucket:
        url = f"s3://{bucket}/t"
        name, contents = table_files(three_days(), url)
        async with open_store(url, storage_options=minio.storage_options) as store:
            for key, data in contents.items():
                await store.put(key, data)
        manifests = [key for key in contents if key.startswith("metadata/m")]
        others = [f"{bucket}/t/{key}" for key in contents if key not in manifests]
        readers = [
            minio.storage_options,
            _who_may_read(minio, f"{bucket}/t/*"),
            _who_may_read(minio, *others),
        ]
        budget = CacheBudget()
        scopes = Scopes(budget)
        tables = [await _opened(budget, scopes, url, name, options) for options in readers]
        try:
            first, second, refused = tables
            assert len(await first.plan()) == 30
            await second.source.manifests(second.metadata.snapshots[1])
            with measure() as cost:
                assert len(await second.plan()) == 30
            assert (cost.operations["head"].requests, cost.requests, cost.bytes_read) == (3, 3, 0)
            with pytest.raises(PermissionDeniedError):
                await refused.plan()
        finally:
            for table in tables:
                await table._locations.aclose()
