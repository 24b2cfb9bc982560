"""``lakehouse iceberg plan``, as a person gives it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

import lakehouse
from lakehouse.testing.endpoint import ServerInfo
from tests.cli.tables.test_commands import Run, run  # noqa: F401 - fixture
from tests.kit.iceberg_plans import three_days
from tests.kit.iceberg_tables import Snapshot, Table, on_disk, table_files

DOCUMENT = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "snapshot": {"type": "integer"},
        "manifests": {
            "type": "object",
            "required": ["total", "scanned", "pruned"],
            "additionalProperties": {"type": "integer"},
        },
        "files": {
            "type": "array",
            "items": {"required": ["path", "spec_id", "partition", "rows", "bytes", "deletes", "residual"]},
        },
        "files_pruned": {"type": "integer"},
        "filters": {
            "type": "array",
            "items": {"required": ["filter", "kind", "manifests", "files", "bytes"]},
        },
        "pruned": {"type": "array", "items": {"required": ["path", "what", "by", "why"]}},
        "cost": {"type": "object", "required": ["requests", "bytes_read"]},
    },
    "required": ["snapshot", "manifests", "files", "files_pruned", "filters", "pruned", "cost"],
}
"""What programs may rely on."""


def table_of_days() -> Table:
    """A table of ten files of each of three days, a day for each snapshot."""
    made = three_days()
    (last,) = made.snapshots
    snapshots = [
        Snapshot(id=number, sequence=number, parent=number - 1 or None, manifests=last.manifests[:number])
        for number in (1, 2, 3)
    ]
    log = [{"timestamp-ms": 1_700_000_000_000 + one.sequence, "snapshot-id": one.id} for one in snapshots]
    return replace(made, snapshots=snapshots, changed={"snapshot-log": log})


@pytest.fixture
def events(tmp_path: Path) -> str:
    """The metadata file of a table of three days."""
    return on_disk(table_of_days(), tmp_path / "events")


def _document(done: Any) -> dict[str, Any]:
    document = json.loads(done.out)
    jsonschema.validate(document, DOCUMENT)
    return dict(document)


def test_a_plan_is_a_document(events: str, run: Run) -> None:  # noqa: F811
    """Manifests, files, what is left out by what, and the cost are told to programs."""
    told = _document(run("iceberg", "plan", events, "--where", "at >= '2024-01-03' and id > 284", "--json"))
    assert told["manifests"] == {"total": 3, "scanned": 1, "pruned": 2}
    one, other = told["files"]
    assert (one["spec_id"], one["partition"], one["rows"]) == (0, {"at_day": "2024-01-03"}, 10)
    assert [file["residual"] for file in (one, other)] == ["id > 284", None]
    assert (one["deletes"], told["files_pruned"]) == ([], 8)
    assert Counter((one["what"], one["by"]) for one in told["pruned"]) == {
        ("manifest", "partition"): 2,
        ("file", "metrics"): 8,
    }
    assert told["cost"]["requests"] == {"get": 2}


def test_runtime_filters_are_applied_to_the_plan(events: str, run: Run) -> None:  # noqa: F811
    """Each ``--runtime-filter`` leaves files out, and the document says which one did."""
    told = _document(
        run(
            *("iceberg", "plan", events, "--json", "--runtime-filter", "id in (1, 111, 211)"),
            *("--runtime-filter", "at between '2024-01-01 20:00:00' and '2024-01-02 01:00:00'"),
        )
    )
    assert [file["path"].rpartition("/")[2] for file in told["files"]] == ["0.parquet", "11.parquet"]
    assert {one["by"] for one in told["pruned"]} == {"runtime filter"}
    assert told["manifests"] == {"total": 3, "scanned": 2, "pruned": 1}
    assert told["cost"]["requests"] == {"get": 3}
    assert [one["kind"] for one in told["filters"]] == ["runtime", "runtime"]


def test_people_see_files_and_why_others_are_left_out(events: str, run: Run) -> None:  # noqa: F811
    """Without ``--json`` there is a table of files; with ``--explain`` also one of what is left out."""
    words = ("iceberg", "plan", events, "--where", "at < '2024-01-02'")
    plain, explained = run(*words).out, run(*words, "--explain").out
    assert "at_day=2024-01-01" in plain
    assert "2 of 3 manifests left out" in plain
    assert "excluded by" not in plain
    assert "excluded by each filter alone" in explained
    assert "partition" in explained
    assert explained.startswith(plain)


def test_the_list_of_what_is_left_out_has_a_limit(events: str, run: Run) -> None:  # noqa: F811
    """No more than ``--limit`` are listed, and how many there are besides is said."""
    words = ("iceberg", "plan", events, "--where", "id > 1000", "--limit", 1, "--explain")
    assert len(_document(run(*words, "--json"))["pruned"]) == 1
    assert "29 more that are left out" in run(*words).err


@pytest.mark.parametrize(("chosen", "files"), [(("--snapshot", 1), 10), (("--ref", "main"), 30), ((), 30)])
def test_a_plan_is_of_the_snapshot_that_is_chosen(
    events: str,
    run: Run,  # noqa: F811
    chosen: tuple[object, ...],
    files: int,
) -> None:
    """The first of three snapshots has ten files; the branch ``main`` has all."""
    assert len(_document(run("iceberg", "plan", events, *chosen, "--json"))["files"]) == files


def test_a_plan_is_as_of_a_time(events: str, run: Run) -> None:  # noqa: F811
    """A time chooses the snapshot that was current then."""
    time = run("iceberg", "snapshots", events, "--json").lines[1]["time"]
    assert len(_document(run("iceberg", "plan", events, "--timestamp", time, "--json"))["files"]) == 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--runtime-filter", "id > 1 and at > '2024-01-01'"), "a runtime filter is on one column"),
        (("--runtime-filter", "id >"), "id >"),
        (("--where", "nothing = 1"), "nothing"),
        (("--snapshot", "7"), "7"),
        (("--snapshot", "7", "--ref", "main"), "give one of them"),
    ],
)
def test_wrong_words_are_errors(events: str, run: Run, words: tuple[str, ...], said: str) -> None:  # noqa: F811
    """What cannot be planned is one line on standard error and exit code 1."""
    done = run("iceberg", "plan", events, *words)
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_a_table_on_s3_is_planned_with_storage_options(
    bucket_url: str,
    object_store_server: ServerInfo,
    run: Run,  # noqa: F811
) -> None:
    """Storage options are those of every command."""
    info = object_store_server
    metadata, files = table_files(table_of_days(), f"{bucket_url}/events")

    async def put() -> None:
        async with lakehouse.open_store(bucket_url, storage_options=info.storage_options) as store:
            for key, content in files.items():
                await store.put(f"events/{key}", content)

    anyio.run(put)
    options = [f"key={info.key}", f"secret={info.secret}", f"region={info.region or 'us-east-1'}"]
    words = [word for option in options for word in ("--option", option)]
    for url in (f"{bucket_url}/events", f"{bucket_url}/events/{metadata}"):
        done = run("iceberg", "plan", url, "--endpoint-url", info.endpoint_url, *words, "--json")
        assert len(_document(done)["files"]) == 30


def test_a_copied_table_is_opened_where_it_is(events: str, tmp_path: Path, run: Run) -> None:  # noqa: F811
    """``--moved`` reads a table that was copied; without it the error says so."""
    copied = (tmp_path / "events").rename(tmp_path / "copy")
    refused = run("iceberg", "plan", copied)
    assert refused.code == 1
    assert len(_document(run("iceberg", "plan", copied, "--moved", "--json"))["files"]) == 30
