"""Which files a GreptimeDB region has, from its manifest."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import (
    CorruptionError,
    FormatError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    UnsupportedVersionError,
)
from lakehouse.index.greptime.layout import PathType, RegionDir
from lakehouse.index.greptime.manifest import (
    POINTER_NAME,
    ManifestPointer,
    RegionManifest,
    fold_manifest,
    plan_manifest,
)
from tests.kit.blob_samples import spec_block
from tests.kit.region_manifests import (
    REGION,
    change,
    checkpoint,
    delta,
    edit,
    file,
    file_id,
    pointer,
    truncate,
)

PAGE = "greptime-manifest.md"
FIRST = delta(0, change())


def state(*objects: dict[str, bytes], pointer: bytes | None = None) -> RegionManifest:
    """The state of a region that has those objects."""
    contents = {name: data for each in objects for name, data in each.items()}
    found = ManifestPointer.decode(pointer) if pointer is not None else None
    return fold_manifest(plan_manifest(contents, found), contents)


def numbers(manifest: RegionManifest) -> list[int]:
    """The files of a state, as the numbers of their ids."""
    return sorted(int(found[-12:]) for found in manifest.files)


def test_the_examples_of_the_specification_fold() -> None:
    """The objects that the page shows make the state that it names."""
    contents = {
        name: spec_block(PAGE, name).encode()
        for name in (
            "manifest/00000000000000000002.checkpoint",
            "manifest/00000000000000000003.json",
        )
    }
    last = ManifestPointer.decode(spec_block(PAGE, POINTER_NAME).encode())
    plan = plan_manifest([*contents, POINTER_NAME], last)
    contents["manifest/00000000000000000002.checkpoint"] = contents[
        "manifest/00000000000000000002.checkpoint"
    ].rstrip()
    manifest = fold_manifest(plan, contents)
    shown = json.loads(spec_block(PAGE, "state"))
    found = manifest.index_files("data/greptime/public/1024/", PathType.BARE)
    assert [[one.index_file_path, one.index_file_size, one.region_id] for one in found] == shown


def test_edits_add_and_remove_files() -> None:
    """A file is there from the edit that adds it to the edit that removes it."""
    manifest = state(
        FIRST,
        delta(1, edit([file(1), file(2, size=0)])),
        delta(2, edit([file(3, version=2)], [file(1)])),
    )
    assert numbers(manifest) == [2, 3]
    assert manifest.region_id == REGION
    assert manifest.version == 2
    third = manifest.files[file_id(3)]
    assert (third.index_file_size, third.index_version, third.region_id) == (6000, 2, REGION)
    assert manifest.files[file_id(2)].index_file_size == 0


def test_removing_knows_files_by_their_id() -> None:
    """What else an edit says of a file it removes does not matter, nor whether the file is there."""
    gone = {"file_id": file_id(1)}
    assert numbers(
        state(FIRST, delta(1, edit([file(1), file(2)])), delta(2, edit(remove=[gone, file(9)])))
    ) == [2]


def test_an_edit_adds_before_it_removes() -> None:
    """A file that one edit both adds and removes is gone."""
    assert numbers(state(FIRST, delta(1, edit([file(1)], [file(1)])))) == []


def test_a_rebuilt_index_replaces_the_old_one() -> None:
    """A file that is added again has the index size and version it was last added with."""
    manifest = state(FIRST, delta(1, edit([file(1, size=0)])), delta(2, edit([file(1, size=700, version=3)])))
    found = manifest.files[file_id(1)]
    assert (found.index_file_size, found.index_version) == (700, 3)


def test_actions_of_a_delta_apply_in_order() -> None:
    """A delta may hold several actions."""
    assert numbers(state(delta(0, change(), edit([file(1)]), truncate(), edit([file(2)])))) == [2]


def test_truncating_takes_all_or_some() -> None:
    """One form of truncation empties the region, the other removes a list of files."""
    before = (FIRST, delta(1, edit([file(1), file(2), file(3)])))
    assert numbers(state(*before, delta(2, truncate()), delta(3, edit([file(4)])))) == [4]
    assert numbers(state(*before, delta(2, truncate([file(1), file(3)])))) == [2]


def test_metadata_changes_leave_files_alone() -> None:
    """Changes of schema or partition, and the removal that GreptimeDB itself ignores, change no files."""
    more = [change(), {"PartitionExprChange": {"partition_expr": None}}, {"Remove": {"region_id": REGION}}]
    assert numbers(state(FIRST, delta(1, edit([file(1)])), delta(2, *more))) == [1]


@pytest.mark.parametrize("gz", [False, True])
def test_deltas_go_on_from_the_checkpoint(gz: bool) -> None:
    """The newest checkpoint and what is behind it make the state; what is before it is not fetched."""
    contents = (
        checkpoint(4, file(1), gz=gz)
        | checkpoint(9, file(2), file(3), gz=gz)
        | delta(8, edit([file(7)]), gz=gz)
        | delta(9, edit([file(8)]), gz=gz)
        | delta(10, edit([file(4)], [file(2)]), gz=gz)
        | delta(11, edit([file(5)]), gz=gz)
    )
    plan = plan_manifest(contents)
    assert [int(name.split("/")[1].split(".")[0]) for name in plan.names] == [9, 10, 11]
    manifest = fold_manifest(plan, contents)
    assert numbers(manifest) == [3, 4, 5]
    assert manifest.version == 11


def test_compressed_and_plain_objects_mix() -> None:
    """Compression is a setting that may change between two objects."""
    assert numbers(
        state(checkpoint(2, file(1), gz=True), delta(3, edit([file(2)])), delta(4, edit([file(3)]), gz=True))
    ) == [1, 2, 3]


def test_the_pointer_says_which_checkpoint_counts() -> None:
    """A newer checkpoint that the pointer does not name may be half written, so it is left alone."""
    contents = (
        checkpoint(4, file(1))
        | delta(5, edit([file(2)]))
        | {"manifest/00000000000000000005.checkpoint": b'{"last_ver'}
    )
    assert numbers(state(contents, pointer=pointer(4, None))) == [1, 2]
    with pytest.raises(CorruptionError, match="not JSON"):
        state(contents)


@pytest.mark.parametrize("version", [3, 99])
def test_a_pointer_into_nothing_is_passed_over(version: int) -> None:
    """When the checkpoint that the pointer names is not listed, the newest one counts."""
    contents = checkpoint(4, file(1)) | delta(5, edit([file(2)]))
    assert numbers(state(contents, pointer=pointer(version, b"other"))) == [1, 2]


def test_without_a_pointer_the_newest_checkpoint_counts() -> None:
    """Nobody needs the pointer to find the state."""
    assert numbers(state(checkpoint(4, file(1)), delta(5, edit([file(2)])))) == [1, 2]


def test_a_pointer_without_checkpoints_changes_nothing() -> None:
    """With all deltas there, a pointer to a checkpoint that is gone does no harm."""
    assert numbers(state(FIRST, delta(1, edit([file(1)])), pointer=pointer(7, b"x"))) == [1]


@pytest.mark.parametrize("gz", [False, True])
def test_the_checkpoint_is_checked(gz: bool) -> None:
    """A checkpoint whose JSON does not have the pointer's checksum is damage, and says so."""
    (content,) = checkpoint(4, file(1)).values()
    good = checkpoint(4, file(1), gz=gz)
    assert numbers(state(good, pointer=pointer(4, content))) == [1]
    with pytest.raises(CorruptionError, match="checksum") as caught:
        state(good, pointer=pointer(4, content + b" "))
    assert caught.value.context["key"] == next(iter(good))


def test_versions_may_be_left_out() -> None:
    """Staging takes version numbers of its own, so deltas need not follow each other without gaps."""
    assert numbers(state(FIRST, delta(5, edit([file(1)])), delta(9, edit([file(2)])))) == [1, 2]


def test_order_is_that_of_the_versions() -> None:
    """In whatever order a listing names them, deltas apply by version."""
    contents = delta(2, edit(remove=[file(1)])) | delta(1, edit([file(1)])) | FIRST
    assert numbers(state(contents)) == []


def test_a_missing_beginning_is_an_error() -> None:
    """Without a checkpoint and without the first delta the state cannot be told."""
    with pytest.raises(CorruptionError, match=r"no checkpoint.*list the region"):
        plan_manifest(delta(3, edit([file(1)])))


def test_a_region_without_a_name_is_an_error() -> None:
    """A manifest that never says which region it is cannot be used."""
    with pytest.raises(CorruptionError, match="which region"):
        state(delta(0, edit([file(1)])))
    empty = {"manifest/00000000000000000001.checkpoint": b'{"last_version":1,"checkpoint":null}'}
    with pytest.raises(CorruptionError, match="which region"):
        state(empty)


def test_no_manifest_is_no_region() -> None:
    """A directory without a manifest is none of a region."""
    with pytest.raises(NotFoundError, match="no region"):
        plan_manifest(["index/x.puffin", POINTER_NAME, "staging/manifest/00000000000000000001.json"])


def test_other_objects_are_passed_over() -> None:
    """A listing of the whole directory may be given."""
    names = [
        POINTER_NAME,
        f"index/{file_id(1)}.puffin",
        f"{file_id(1)}.parquet",
        ".dropping",
        "manifest/",
        "manifest/00000000000000000001.json.tmp",
        "manifest/00000000000000000001.jsonl",
        "manifest/x.json",
        "deep/manifest/00000000000000000001.json",
        "staging/manifest/00000000000000000001.checkpoint",
        "staging/blob/region_manifest",
    ]
    assert plan_manifest([*names, *FIRST]).names == tuple(FIRST)


def test_staging_files_are_listed_beside_the_others() -> None:
    """While a region is staging, files of both states are listed, the staging ones as they are there."""
    manifest = state(
        FIRST,
        delta(1, edit([file(1), file(2)])),
        delta(2, edit([file(3), file(2, version=5)], [file(1)]), staging=True),
        delta(3, edit([file(4)]), staging=True),
    )
    assert numbers(manifest) == [1, 2, 3, 4]
    assert manifest.files[file_id(2)].index_version == 5
    assert manifest.version == 1


def test_staging_that_ended_is_passed_over() -> None:
    """Staging deltas that were merged into a later delta, but not cleared, count no more."""
    manifest = state(
        FIRST,
        delta(1, edit([file(1)]), staging=True),
        delta(2, edit([file(1)])),
        delta(3, edit(remove=[file(1)])),
    )
    assert numbers(manifest) == []


def test_older_files_have_no_version() -> None:
    """A file from before index files had sizes and versions has no index, or version 0 of it."""
    oldest = {key: value for key, value in file(1).items() if key in ("region_id", "file_id", "level")}
    manifest = state(FIRST, delta(1, edit([file(2, version=None), oldest])))
    assert [(found.index_file_size, found.index_version) for found in manifest.files.values()] == [
        (6000, 0),
        (0, 0),
    ]


def test_ids_may_be_spelt_differently() -> None:
    """Region ids may be text and file ids UUIDs in any spelling; keys have the usual one."""
    odd = file(1, region=str(REGION)) | {"file_id": file_id(1).replace("-", "").upper()}
    manifest = state(delta(0, change(str(REGION))), delta(1, edit([odd])))
    assert manifest.region_id == REGION
    assert manifest.files[file_id(1)].region_id == REGION
    assert numbers(state(FIRST, delta(1, edit([odd])), delta(2, edit(remove=[file(1)])))) == []


def test_index_files_are_where_their_origin_is() -> None:
    """After a repartition a file stays in the directory of the region that made it."""
    origin = 1024 << 32 | 7
    manifest = state(FIRST, delta(1, edit([file(2, size=0), file(3, region=origin, version=2), file(1)])))
    first, third = manifest.index_files("data/greptime/public/1024", PathType.BARE, node_id=4)
    assert first.index_file_path == f"data/greptime/public/1024/1024_0000000001/index/{file_id(1)}.puffin"
    assert third.index_file_path == f"data/greptime/public/1024/1024_0000000007/index/{file_id(3)}.2.puffin"
    for locator in (first, third):
        assert locator.table_dir == "data/greptime/public/1024/"
        assert (locator.region_id, locator.index_file_size, locator.node_id) == (REGION, 6000, 4)


def test_metadata_regions_keep_their_group() -> None:
    """The manifest knows the group that no key has."""
    region = 1024 << 32 | 1 << 24 | 1
    manifest = state(delta(0, change(region)), delta(1, edit([file(1, region=region)])))
    (locator,) = manifest.index_files("t/", PathType.METADATA)
    assert locator.region_group == 1
    assert locator.index_file_path == f"t/1024_0000000001/metadata/index/{file_id(1)}.puffin"
    found = RegionDir.split(locator.index_file_path)
    assert found is not None
    assert found[0].region_id == region


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "actions is no list"),
        (b'{"actions":[7]}', "action is no JSON object"),
        (b'{"actions":[{}]}', "not one of its kind"),
        (b'{"actions":[{"Edit":{},"Change":{}}]}', "not one of its kind"),
        (b'{"actions":[{"Edit":{}}]}', "files_to_add is no list"),
        (b'{"actions":[{"Edit":{"files_to_add":[]}}]}', "files_to_remove is no list"),
        (b'{"actions":[{"Edit":{"files_to_add":[{}]}}]}', "file_id is no UUID"),
        (b'{"actions":[{"Edit":{"files_to_add":[{"file_id":"x"}]}}]}', "file_id is no UUID"),
        (b'{"actions":[{"Edit":{"files_to_add":[{"file_id":7}]}}]}', "file_id is no UUID"),
        (b'{"actions":[{"Truncate":{"region_id":1}}]}', "files_to_remove is no list"),
        (b'{"actions":[{"Change":{}}]}', "metadata is no JSON object"),
        (b'{"actions":[{"Change":{"metadata":{}}}]}', "region_id is no number"),
        (b'{"actions":[{"Change":{"metadata":{"region_id":-1}}}]}', "region_id is no number"),
        (b'{"actions":[{"Change":{"metadata":{"region_id":true}}}]}', "region_id is no number"),
        (
            b'{"actions":[{"Change":{"metadata":{"region_id":18446744073709551616}}}]}',
            "region_id is no number",
        ),
    ],
)
def test_damaged_deltas_are_refused_by_name(data: bytes, problem: str) -> None:
    """A delta that is none is an error that names the object and what is wrong with it."""
    name = "manifest/00000000000000000001.json"
    with pytest.raises(CorruptionError, match=problem) as caught:
        state(FIRST, {name: data})
    assert caught.value.context["key"] == name


@pytest.mark.parametrize(
    "change_",
    [{"index_file_size": -1}, {"index_file_size": "1"}, {"index_version": 1.5}, {"region_id": None}],
)
def test_damaged_files_are_refused(change_: dict[str, Any]) -> None:
    """A file whose numbers are none is an error that names the object."""
    with pytest.raises(CorruptionError, match=next(iter(change_))):
        state(FIRST, delta(1, edit([file(1) | change_])))


def test_unknown_actions_are_refused() -> None:
    """An action of a newer GreptimeDB may remove files, so the state cannot be told without it."""
    with pytest.raises(UnsupportedVersionError, match=r"'Rewrite'.*upgrade"):
        state(FIRST, delta(1, {"Rewrite": {}}))


@pytest.mark.parametrize(
    "data",
    [b"", b"x", gzip.compress(b'{"actions":[]}', mtime=0)[:-1], gzip.compress(b"x", mtime=0)],
    ids=["empty", "not gzip", "cut off", "not JSON"],
)
def test_damaged_compression_is_refused(data: bytes) -> None:
    """An object that is no whole gzip file of JSON is damage."""
    name = "manifest/00000000000000000001.json.gz"
    with pytest.raises(CorruptionError, match=r"00001\.json\.gz"):
        state(FIRST, {name: data})


def test_bombs_are_refused() -> None:
    """An object that decompresses to more than the limit is not taken into memory."""
    contents = {"manifest/00000000000000000000.json.gz": gzip.compress(bytes(1 << 20))}
    with pytest.raises(FormatError, match="more than 1000 bytes"):
        fold_manifest(plan_manifest(contents), contents, max_bytes=1000)


def test_all_of_the_plan_must_be_passed() -> None:
    """Forgetting an object is an error, not an empty delta."""
    with pytest.raises(InvalidInputError, match=r"00000\.json"):
        fold_manifest(plan_manifest(FIRST), {})


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version":"1"}', b'{"version":1,"checksum":"x"}'])
def test_damaged_pointers_are_refused(data: bytes) -> None:
    """A pointer that is none is an error that names it."""
    with pytest.raises(CorruptionError, match="_last_checkpoint"):
        ManifestPointer.decode(data)


def test_pointers_from_before_checksums_are_read() -> None:
    """A pointer without a checksum checks nothing."""
    assert ManifestPointer.decode(b'{"size":1,"version":7,"extend_metadata":{}}').checksum is None
    assert ManifestPointer.decode(pointer(7, None)) == ManifestPointer(version=7, checksum=None)


_EDITS = st.lists(
    st.tuples(st.sets(st.integers(1, 6), max_size=3), st.sets(st.integers(1, 6), max_size=3)),
    min_size=1,
    max_size=8,
)


@given(_EDITS, st.data())
def test_a_checkpoint_changes_nothing(edits: list[tuple[set[int], set[int]]], data: st.DataObject) -> None:
    """Wherever a checkpoint was made, and whether old deltas were deleted, the state is the same."""
    deltas = [FIRST]
    files: list[set[int]] = [set()]
    for version, (add, remove) in enumerate(edits, start=1):
        deltas.append(delta(version, edit([file(n) for n in add], [file(n) for n in remove])))
        files.append((files[-1] | add) - remove)
    whole = state(*deltas)
    assert numbers(whole) == sorted(files[-1])
    at = data.draw(st.integers(1, len(edits)))
    kept = data.draw(st.integers(0, at + 1))
    assert state(checkpoint(at, *(file(n) for n in files[at])), *deltas[kept:]) == whole


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda each: (
            st.lists(each, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "actions",
                        "Edit",
                        "Change",
                        "Truncate",
                        "files_to_add",
                        "files_to_remove",
                        "metadata",
                        "region_id",
                        "file_id",
                        "checkpoint",
                        "files",
                    ]
                ),
                each,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.booleans(),
)
def test_any_json_is_read_or_refused(document: Any, as_checkpoint: bool) -> None:
    """Whatever JSON stands in a manifest, the answer is a state or an error of ours."""
    suffix = "checkpoint" if as_checkpoint else "json"
    contents = FIRST | {f"manifest/00000000000000000001.{suffix}": json.dumps(document).encode()}
    try:
        manifest = fold_manifest(plan_manifest(contents), contents)
    except LakehouseError:
        return
    assert manifest.version == 1
