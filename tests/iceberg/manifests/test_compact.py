"""Columns in few bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.iceberg.manifests import NumberLists, Numbers, Texts
from lakehouse.iceberg.manifests.compact import UNKNOWN, narrowed

_NUMBERS = st.lists(
    st.integers(-1, 3) | st.sampled_from([127, 128, 1 << 15, 1 << 31, (1 << 63) - 1]), max_size=6
)


@given(_NUMBERS)
def test_numbers_come_back(values: list[int]) -> None:
    """Numbers are the same whatever their form, all of them and some."""
    numbers = Numbers.of(np.array(values, np.int64))
    assert numbers.all().tolist() == values
    rows = np.arange(len(values))[::-1]
    assert numbers.at(rows).tolist() == values[::-1]


@given(_NUMBERS, st.data())
def test_numbers_are_cut_apart(values: list[int], data: st.DataObject) -> None:
    """Parts of numbers have the numbers between their cuts, whatever the form of the whole."""
    inner = data.draw(st.lists(st.integers(0, len(values)), max_size=3).map(sorted))
    cuts = [0, *inner, len(values)]
    parts = Numbers.of(np.array(values, np.int64)).cut(cuts)
    assert [part.all().tolist() for part in parts] == [
        values[begin:end] for begin, end in itertools.pairwise(cuts)
    ]
    assert all(part.count_of(3) == part.all().tolist().count(3) for part in parts)


def test_parts_that_say_the_same_are_one_object() -> None:
    """Parts of one number are kept once for each size, and so are lists of them."""
    numbers = Numbers.same(7, 6)
    one, other, longer = numbers.cut([0, 1, 2, 6])
    assert one is other
    assert (one.count, longer.count) == (1, 4)
    lists = NumberLists(lengths=Numbers.same(2, 6), values=Numbers.same(7, 12)).cut([0, 1, 2, 6])
    assert lists[0] is lists[1]
    assert lists[2].at(np.arange(4)) == [(7, 7)] * 4


@pytest.mark.parametrize(("value", "width"), [(127, 1), (129, 2), (1 << 16, 4), (1 << 32, 8)])
def test_numbers_take_the_bytes_of_the_largest(value: int, width: int) -> None:
    """The widest number says how many bytes each takes; numbers that are all the same take none."""
    assert narrowed(np.array([0, value])).dtype.itemsize == width
    assert narrowed(np.array([0, -value])).dtype.itemsize == width
    assert Numbers.of(np.full(10_000, value)).nbytes < 100


def test_the_same_number_for_all_is_kept_once() -> None:
    """A number of all entries needs no array."""
    numbers = Numbers.same(7, 3)
    assert (numbers.all().tolist(), numbers.at(np.array([2])).tolist(), numbers.narrow) == (
        [7, 7, 7],
        [7],
        None,
    )


@given(st.lists(st.none() | st.lists(st.integers(0, 5), max_size=3), max_size=5))
def test_lists_come_back(lists: list[list[int] | None]) -> None:
    """Lists are the same, and none is no empty one."""
    lengths = np.array([UNKNOWN if one is None else len(one) for one in lists], np.int64)
    values = np.array([value for one in lists for value in one or ()], np.int64)
    made = NumberLists(lengths=Numbers.of(lengths), values=Numbers.of(values))
    assert made.at(np.arange(len(lists))) == [None if one is None else tuple(one) for one in lists]


def _texts(texts: list[str | None]) -> Texts:
    stored = [b"" if text is None else text.encode() for text in texts]
    lengths = np.array([len(text) for text in stored], np.int64)
    valid = np.array([text is not None for text in texts], np.bool_)
    data = np.frombuffer(b"".join(stored), np.uint8)
    return Texts.of(data, np.cumsum(lengths) - lengths, lengths, None if valid.all() else valid)


_TEXT = st.text("aüÿ€", max_size=4)


@given(st.lists(st.none() | st.builds("{}{}{}".format, _TEXT, _TEXT, _TEXT), max_size=5), _TEXT, _TEXT)
def test_texts_come_back(texts: list[str | None], begin: str, end: str) -> None:
    """Texts are the same whatever they share: ends that overlap, and parts of characters too."""
    whole = [None if text is None else begin + text + end for text in texts]
    made = _texts(whole)
    assert made.at().to_pylist() == whole
    assert made.at(np.arange(len(whole))[::-1]).to_pylist() == whole[::-1]


def test_what_texts_share_is_kept_once() -> None:
    """A beginning and an end that all texts have take no room in each."""
    texts: list[str | None] = [
        f"s3://a-bucket/a/long/way/{number:05}-{'x' * 30}.parquet" for number in range(1000)
    ]
    made = _texts(texts)
    assert (made.prefix, made.suffix) == ("s3://a-bucket/a/long/way/00", f"-{'x' * 30}.parquet")
    assert made.nbytes < 1000 * 8 + 300


def test_an_end_that_only_the_first_share_is_not_taken() -> None:
    """An end that texts share at the beginning of a long column is looked for in all of them."""
    texts: list[str | None] = [f"{number:05}-same.parquet" for number in range(100)] + ["other.parquet"]
    made = _texts(texts)
    assert made.suffix == ".parquet"
    assert made.at().to_pylist() == texts


def test_text_that_is_not_utf8_is_refused() -> None:
    """Bytes that are no text are an error, wherever they stand."""
    for stored in ([b"a\xff", b"a\xffb"], [b"x\xc3", b"y\xc3"], [b"\xbc", b"a\xbc"], [b"\xff"]):
        lengths = np.array([len(text) for text in stored], np.int64)
        data = np.frombuffer(b"".join(stored), np.uint8)
        with pytest.raises(ValueError, match="UTF8"):
            Texts.of(data, np.cumsum(lengths) - lengths, lengths, None)
