"""Real object stores: those that hold the conditions of commits pass, those that do not are refused by name.

How they come here: ``make stores``. What came of it: docs/reference/stores.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from lakehouse import connect, open_store
from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError, PermissionDeniedError
from lakehouse.io import ObjectStore
from lakehouse.io.proofs.check import StoreReport, check_store
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from tests.conformance.test_s3 import S3Conformance
from tests.interop.real_stores import Place, gateways, rclone_server, s3proxy_server

CREATE, REPLACE = "create has one winner", "replace under a condition"
WRITERS = 8


class OnVersitygw(S3Conformance):
    """versitygw in front of a directory: another program, another way to hold the conditions."""

    race_rounds = 40

    @pytest.fixture(autouse=True)
    def _server(self, versitygw: ServerInfo) -> None:
        self.server = versitygw


class TestVersitygw(OnVersitygw):
    """versitygw through s3fs alone."""


class TestVersitygwFast(OnVersitygw):
    """versitygw with obstore reading beside s3fs."""

    fast_reads = "require"


@pytest.mark.parametrize("fast_reads", ["off", "require"])
async def test_an_unknown_key_is_no_missing_object_on_versitygw(
    versitygw: ServerInfo, fast_reads: str
) -> None:
    """versitygw answers 404 to a key that it does not know; reads must not take it for an empty bucket."""
    options = {**versitygw.storage_options, "key": "nobody"}
    settings = IoSettings(fast_reads=fast_reads)
    with fresh_bucket(versitygw) as bucket:
        async with open_store(f"s3://{bucket}", storage_options=options, settings=settings) as store:
            with pytest.raises(PermissionDeniedError) as refused:
                await store.get("some/key")
    assert refused.value.kind == "bad-credentials"


# ------------------------------------------------------------------ stores that pass


@asynccontextmanager
async def ways_to(url: str, options: Sequence[dict[str, Any]]) -> AsyncIterator[list[ObjectStore]]:
    """The place opened once for each writer, with the options in turn."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(open_store(url, storage_options=options[number % len(options)]))
            for number in range(WRITERS)
        ]


async def checked(url: str, options: Sequence[dict[str, Any]], **how: Any) -> StoreReport:
    """What the check says, each writer with connections of its own."""
    async with ways_to(url, options) as stores:
        return await check_store(stores[0], others=stores[1:], writers=WRITERS, **how)


@pytest.mark.slow
async def test_a_hundred_rounds_are_passed(place: Place) -> None:
    """The long form of the check, as it is by default, finds nothing on stores that hold the conditions."""
    report = await checked(place.url, [place.options])
    assert report.may_commit, report.failures
    assert report.rounds == 400


@pytest.mark.slow
async def test_two_gateways_that_lock_together_pass() -> None:
    """Writers spread over two gateways to one directory find nothing while these lock their objects."""
    with gateways(2, locked=True) as pair, fresh_bucket(pair[0]) as bucket:
        report = await checked(f"s3://{bucket}", [info.storage_options for info in pair], large_bytes=65536)
    assert report.may_commit, report.failures


# ------------------------------------------------------------------ stores that must be refused


@pytest.fixture(scope="module")
def rclone() -> Iterator[ServerInfo]:
    """``rclone serve s3``."""
    with rclone_server() as info:
        yield info


async def test_rclone_is_refused_for_ignoring_both_conditions(rclone: ServerInfo) -> None:
    """The check names both conditions as ignored, in its short form too, and races nothing."""
    with fresh_bucket(rclone) as bucket:
        for how in ({"short": True}, {}):
            report = await checked(f"s3://{bucket}", [rclone.storage_options], **how)
            failed = {result.name.partition(",")[0]: result.reason for result in report.failures}
            assert failed == {CREATE: "ignored", REPLACE: "ignored", "create with an empty body": "ignored"}
            assert report.rounds == 0


async def test_a_checked_lake_refuses_rclone(rclone: ServerInfo) -> None:
    """connect(check=True) raises and names the condition without effect."""
    with fresh_bucket(rclone) as bucket:
        lake = connect(f"s3://{bucket}", storage_options=rclone.storage_options, check=True)
        with pytest.raises(InvalidInputError, match="If-None-Match: \\* is ignored") as refused:
            async with lake:
                pass
    assert refused.value.kind == "unsafe-store"


def check_store_command(url: str, servers: Sequence[ServerInfo], *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of ``lakehouse check-store``, through the endpoints of all these servers."""
    command = [sys.executable, "-c", "from lakehouse.cli import main; main()", "check-store", url, *words]
    for info in servers:
        command += ["--endpoint-url", info.endpoint_url]
    env = {**os.environ, "AWS_ACCESS_KEY_ID": servers[0].key, "AWS_SECRET_ACCESS_KEY": servers[0].secret}
    done = subprocess.run([*command, "--json"], env=env, capture_output=True, timeout=300, check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_command_refuses_rclone(rclone: ServerInfo) -> None:
    """``lakehouse check-store`` ends with 3 and gives the reason."""
    with fresh_bucket(rclone) as bucket:
        status, report = check_store_command(f"s3://{bucket}", [rclone])
    reasons = {check["reason"] for check in report["checks"] if check["required"] and not check["holds"]}
    assert (status, reasons) == (3, {"ignored"})


@pytest.mark.slow
async def test_s3proxy_is_refused_for_racing_replaces() -> None:
    """One writer at a time is refused as it should be; in a hundred rounds of eight several succeed."""
    with s3proxy_server() as info, fresh_bucket(info) as bucket:
        report = await checked(f"s3://{bucket}", [info.storage_options], large_bytes=65536)
    assert {(result.name.partition(",")[0], result.reason) for result in report.failures} == {
        (REPLACE, "raced")
    }
    assert all(result.race and result.race.most_winners > 1 for result in report.failures)


@pytest.mark.slow
def test_gateways_that_do_not_lock_together_are_refused_through_both() -> None:
    """A pair that passes by one endpoint is found out when the check is given both."""
    with gateways(2, locked=False) as pair, fresh_bucket(pair[0]) as bucket:
        alone, _ = check_store_command(f"s3://{bucket}", pair[:1], "--large-bytes", "0")
        together, report = check_store_command(f"s3://{bucket}", pair, "--large-bytes", "65536")
    assert (alone, together) == (0, 3)
    failed = {
        check["name"].partition(",")[0]: check["reason"] for check in report["checks"] if check["reason"]
    }
    assert set(failed.values()) == {"raced"}
    assert REPLACE in failed
