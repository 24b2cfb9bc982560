"""Versions of views, and name pointers that hold them: bytes of the specification, damage, formats."""

from __future__ import annotations

import dataclasses
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError
from lakehouse.format.metadata.name_pointer import (
    DroppedTable,
    NameKind,
    NamePointer,
    NameState,
    decode_pointer,
    encode_pointer,
)
from lakehouse.format.metadata.sealed_json import seal
from lakehouse.format.metadata.view_version import ViewVersion, decode_view_version, encode_view_version
from tests.kit.blob_samples import spec_bytes
from tests.kit.table_samples import POINTER, TOKEN

VIEW = uuid.UUID("21222324-2526-2728-292a-2b2c2d2e2f30")
FIRST = ViewVersion(
    view=VIEW,
    number=1,
    time_ms=1_750_000_000_000,
    texts={"duckdb": "select * from orders"},
    depends_on=("sales.orders",),
    search_path=("sales",),
    comment="orders that matter",
)
SECOND = ViewVersion(
    view=VIEW,
    number=2,
    time_ms=1_760_000_000_000,
    texts={"duckdb": "select id from sales.orders where amount > 100"},
    columns=("id",),
    depends_on=("sales.orders",),
    owner="ann",
)
VIEW_POINTER = NamePointer(
    name="sales.large",
    kind=NameKind.VIEW,
    table=VIEW,
    path="sales/_history/large-2122232425262728292a2b2c2d2e2f30",
    token=TOKEN,
    time_ms=1_750_000_000_000,
    view=SECOND,
)
DROPPED_VIEW = DroppedTable(
    table=VIEW, path=VIEW_POINTER.path, state=NameState.DROPPED, time_ms=1, kind=NameKind.VIEW
)


def members(data: bytes) -> dict[str, object]:
    """Of a sealed object, without its checksum."""
    found: dict[str, object] = json.loads(data)
    del found["crc32c"]
    return found


def test_the_example_of_the_specification_is_a_version() -> None:
    """The bytes in the specification decode to the version it describes, and encode to the same bytes."""
    data = spec_bytes("view.md", "version")
    assert decode_view_version(data, key="v") == FIRST
    assert encode_view_version(FIRST) == data


def test_the_example_of_the_specification_is_a_pointer_of_a_view() -> None:
    """The pointer in the specification decodes to the view it describes, and encodes to the same bytes."""
    data = spec_bytes("view.md", "pointer")
    assert decode_pointer(data, key="p") == VIEW_POINTER
    assert encode_pointer(VIEW_POINTER) == data


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(
    st.builds(
        ViewVersion,
        view=st.uuids(),
        number=st.integers(0, 2**53),
        time_ms=st.integers(0, 253_402_300_799_999),
        texts=st.dictionaries(texts, texts, min_size=1, max_size=3),
        columns=st.lists(texts, max_size=3).map(tuple),
        depends_on=st.none() | st.lists(texts, max_size=3).map(tuple),
        search_path=st.lists(texts, max_size=3).map(tuple),
        owner=st.none() | texts,
        comment=st.none() | texts,
    )
)
def test_a_version_survives_its_bytes(version: ViewVersion) -> None:
    """Whatever texts a version has, it comes back as it was, alone and in a pointer."""
    assert decode_view_version(encode_view_version(version), key="v") == version
    pointer = dataclasses.replace(VIEW_POINTER, table=version.view, view=version)
    assert decode_pointer(encode_pointer(pointer), key="p") == pointer


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        (POINTER, 1),
        (dataclasses.replace(POINTER, state=NameState.PURGING), 2),
        (VIEW_POINTER, 3),
        (dataclasses.replace(VIEW_POINTER, state=NameState.PURGING, view=None), 3),
        (dataclasses.replace(POINTER, before=(DROPPED_VIEW,)), 3),
    ],
)
def test_only_pointers_that_speak_of_views_need_a_newer_release(pointer: NamePointer, expected: int) -> None:
    """The format is the lowest whose readers understand the pointer, and the pointer survives."""
    data = encode_pointer(pointer)
    assert members(data)["format"] == expected
    assert decode_pointer(data, key="p") == pointer


def test_a_kind_of_a_newer_release_asks_for_an_upgrade() -> None:
    """A kind of relation that this release does not know is no damage."""
    data = seal({**members(encode_pointer(VIEW_POINTER)), "kind": "stream"})
    with pytest.raises(UnsupportedVersionError, match="'stream'"):
        decode_pointer(data, key="p")


@pytest.mark.parametrize(
    "change",
    [
        {"view": None},
        {"view": {**members(encode_pointer(VIEW_POINTER))["view"], "view": str(uuid.UUID(int=1))}},  # type: ignore[dict-item]
        {"view": {**members(encode_pointer(VIEW_POINTER))["view"], "sql": {}}},  # type: ignore[dict-item]
        {"before": [[str(VIEW), "p", "dropped", 1, "stream"]]},
        {"before": [[str(VIEW), "p", "dropped", 1, "view", 2]]},
        {"moved_from": 3},
    ],
    ids=[
        "no view",
        "another's view",
        "no SQL",
        "unknown kind before",
        "one member more",
        "number for a name",
    ],
)
def test_wrong_members_of_a_view_are_corruption(change: dict[str, object]) -> None:
    """With a right checksum and wrong content, the error names the object."""
    with pytest.raises(CorruptionError, match="p: "):
        decode_pointer(seal({**members(encode_pointer(VIEW_POINTER)), **change}), key="p")


def test_damaged_bytes_of_a_version_are_an_error() -> None:
    """Each byte cut off or turned over is a FormatError that names the object."""
    data = encode_view_version(FIRST)
    damaged = [data[:end] for end in range(len(data))]
    damaged += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    for bad in damaged:
        with pytest.raises(FormatError, match="v"):
            decode_view_version(bad, key="v")
