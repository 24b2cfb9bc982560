"""Protobuf wire format, compared with Google's own implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.index.protobuf import FieldKind, Message, MessageField, decode_varints, encode_varints
from lakehouse.kernels.varint import encode_varint

U64 = st.integers(0, 2**64 - 1) | st.integers(0, 300)

ROW = Message(
    "Row",
    MessageField(number=1, name="offset", kind="uint64"),
    MessageField(number=2, name="size", kind="uint64"),
    MessageField(number=20, name="count", kind="uint64"),
)
INNER = Message(
    "Inner",
    MessageField(number=1, name="name", kind="string"),
    MessageField(number=2, name="data", kind="bytes"),
    MessageField(number=3, name="kind", kind="enum"),
    MessageField(number=4, name="flag", kind="bool"),
)
OUTER = Message(
    "Outer",
    MessageField(number=1, name="big", kind="uint64"),
    MessageField(number=2, name="small", kind="uint32"),
    MessageField(number=3, name="many", kind="packed"),
    MessageField(number=4, name="rows", kind="columns", message=ROW),
    MessageField(number=5, name="one", kind="message", message=INNER),
    MessageField(number=6, name="each", kind="message", message=INNER, repeated=True),
)


def google_type(message: Message) -> Any:
    """The same message type in Google's implementation."""
    numbers = {"uint64": 4, "uint32": 13, "enum": 5, "bool": 8, "bytes": 12, "string": 9, "packed": 4}
    file = descriptor_pb2.FileDescriptorProto(name=f"{message.name}.proto", package="test", syntax="proto3")

    def declare(one: Message) -> None:
        entry = file.message_type.add(name=one.name)
        for field in one.fields:
            repeated = field.repeated or field.kind in ("packed", "columns")
            entry.field.add(
                name=field.name,
                number=field.number,
                label=3 if repeated else 1,
                type=numbers.get(field.kind, 11),
                type_name=f".test.{field.message.name}" if field.message else None,
            )

    for one in (ROW, INNER, OUTER):
        declare(one)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"test.{message.name}"))


GOOGLE = google_type(OUTER)

inner = st.fixed_dictionaries(
    {
        "name": st.text(max_size=20),
        "data": st.binary(max_size=200),
        "kind": st.integers(-(2**31), 2**31 - 1),
        "flag": st.booleans(),
    }
)
outer = st.fixed_dictionaries(
    {
        "big": U64,
        "small": st.integers(0, 2**32 - 1),
        "many": st.lists(U64, max_size=60),
        "rows": st.lists(st.tuples(U64, U64, U64), max_size=60),
        "one": st.none() | inner,
        "each": st.lists(inner, max_size=3),
    }
)


def ours(values: dict[str, Any]) -> dict[str, Any]:
    """Plain values as :class:`Message` takes and gives them."""
    table = np.array(values["rows"], np.uint64).reshape(-1, 3)
    rows = dict(zip(("offset", "size", "count"), table.T, strict=True))
    return {**values, "many": np.array(values["many"], np.uint64), "rows": rows}


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """The way back, for comparing."""
    columns = [values["rows"][name].tolist() for name in ("offset", "size", "count")]
    return {**values, "many": values["many"].tolist(), "rows": list(zip(*columns, strict=True))}


def theirs(values: dict[str, Any]) -> Any:
    """Plain values as Google's message."""
    message = GOOGLE(big=values["big"], small=values["small"], many=values["many"])
    for offset, size, count in values["rows"]:
        message.rows.add(offset=offset, size=size, count=count)
    if values["one"] is not None:
        message.one.SetInParent()
        message.one.MergeFrom(type(message.one)(**values["one"]))
    for one in values["each"]:
        message.each.add(**one)
    return message


@settings(max_examples=150, deadline=None)
@given(outer)
def test_messages_are_encoded_as_protobuf_encodes_them(values: dict[str, Any]) -> None:
    """Encoding gives the bytes that Google's implementation gives."""
    assert OUTER.encode(ours(values)) == theirs(values).SerializeToString(deterministic=True)


@settings(max_examples=150, deadline=None)
@given(outer)
def test_decoding_gives_the_values_back(values: dict[str, Any]) -> None:
    """What was encoded decodes to the same values, absent ones as their zero."""
    assert plain(OUTER.decode(OUTER.encode(ours(values)))) == values


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120))
def test_garbage_is_refused_or_read_as_protobuf_reads_it(data: bytes) -> None:
    """Arbitrary bytes either raise CorruptionError or decode to what Google's reader finds in them."""
    try:
        found = plain(OUTER.decode(data))
    except CorruptionError:
        return
    message = GOOGLE.FromString(data)
    assert found["big"] == message.big
    assert found["many"] == list(message.many)
    assert found["rows"] == [(row.offset, row.size, row.count) for row in message.rows]


@settings(max_examples=60, deadline=None)
@given(outer, st.randoms(use_true_random=False))
def test_every_cut_is_refused_or_ends_between_fields(values: dict[str, Any], random: Any) -> None:
    """A message cut inside a field raises CorruptionError; cut between fields, those before remain."""
    data = OUTER.encode(ours(values))
    cut = data[: random.randrange(len(data))] if data else data
    try:
        again = OUTER.encode(OUTER.decode(cut))
    except CorruptionError:
        return
    assert again == cut


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("08", "cut off"),
        ("0880", "cut off"),
        ("08ffffffffffffffffff7f", "more than 64 bits"),
        ("08ffffffffffffffffffff01", "more than 64 bits"),
        ("0a", "wrong wire type"),
        ("2a", "cut off"),
        ("1a05 0102", "cut off"),
        ("0d00000000", "wrong wire type"),
        ("0a0101", "wrong wire type"),
        ("2801", "wrong wire type"),
        ("108080808010", "out of range"),
        ("2a020a01", "cut off"),
        ("2a030a01ff", "UTF-8"),
        ("0001", "field number"),
        ("7f01", "wire type"),
        ("7c", "wire type"),
        ("7b", "cut off"),
        ("7b8401", "wire type"),
        ("7d0000", "cut off"),
        ("7a0500", "cut off"),
        ("1a0180", "cut off"),
        ("220108", "cut off"),
    ],
)
def test_damage_is_named(data: str, problem: str) -> None:
    """Damage raises CorruptionError that says what is wrong and at which byte."""
    with pytest.raises(CorruptionError, match=problem) as caught:
        OUTER.decode(bytes.fromhex(data))
    assert "offset" in caught.value.context


@pytest.mark.parametrize(
    "unknown", ["7801", "7d00000000", "790000000000000000", "7a03414243", "7b08017c", "7b7b7c7c"]
)
def test_unknown_fields_are_skipped(unknown: str) -> None:
    """A field the schema does not know, of any wire type, changes nothing."""
    data = bytes.fromhex(f"0805{unknown}1007")
    assert (OUTER.decode(data)["big"], OUTER.decode(data)["small"]) == (5, 7)


def test_the_last_value_counts() -> None:
    """Of a singular field that occurs twice the last value counts."""
    assert OUTER.decode(bytes.fromhex("08050806"))["big"] == 6


def test_a_message_in_pieces_is_put_together() -> None:
    """A singular message that occurs twice is the message both make together."""
    one = OUTER.decode(bytes.fromhex("2a030a0161" + "2a022001"))["one"]
    assert (one["name"], one["flag"]) == ("a", True)


def test_repeated_numbers_may_stand_singly() -> None:
    """Numbers of a packed field are read packed, one by one, and mixed."""
    assert OUTER.decode(bytes.fromhex("1801" + "1a020203" + "1804"))["many"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("count", [3, 30, 300])
def test_rows_with_anything_unusual_in_them_are_read_too(count: int) -> None:
    """Sub-messages with unknown, repeated or long-winded fields give the same columns as plain ones."""
    odd = bytes.fromhex("0805" + "1006" + "0807" + "7801" + "1a00")
    rows = OUTER.decode(b"".join(b"\x22" + bytes([len(odd)]) + odd for _ in range(count)))["rows"]
    assert rows["offset"].tolist() == [7] * count
    assert rows["size"].tolist() == [6] * count
    assert rows["count"].tolist() == [0] * count


def test_rows_are_found_in_between_other_fields() -> None:
    """Sub-messages of one field need not stand together."""
    data = bytes.fromhex("22020801" + "0805" + "22020802" + "1a0109" + "2200")
    assert OUTER.decode(data)["rows"]["offset"].tolist() == [1, 2, 0]


def test_numbers_out_of_range_are_not_encoded() -> None:
    """A number that its field cannot hold is refused by name."""
    with pytest.raises(InvalidInputError, match=r"Outer\.small"):
        OUTER.encode({"small": 2**32})


def test_unknown_names_are_not_encoded() -> None:
    """A name that is no field is refused."""
    with pytest.raises(InvalidInputError, match="tiny"):
        OUTER.encode({"tiny": 1})


@given(st.lists(U64, max_size=80))
def test_many_varints_are_each_as_one(numbers: list[int]) -> None:
    """Encoding many numbers at once gives what encoding each gives, and decoding gives them back."""
    data = encode_varints(np.array(numbers, np.uint64))
    assert data == b"".join(encode_varint(number) for number in numbers)
    decoded = decode_varints(data)
    assert decoded is not None
    assert decoded.tolist() == numbers


@pytest.mark.parametrize("data", ["80", "0180", "ffffffffffffffffff02", "8080808080808080808001"])
def test_varints_that_are_none_are_told(data: str) -> None:
    """A buffer that ends inside a number, or has one of more than 64 bits, decodes to None."""
    assert decode_varints(bytes.fromhex(data)) is None


def test_kinds_cover_what_the_schema_offers() -> None:
    """Every kind of field has a place in the message that these tests compare with Google's."""
    used = {field.kind for message in (ROW, INNER, OUTER) for field in message.fields}
    assert used == set(FieldKind.__args__)
