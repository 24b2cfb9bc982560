"""Versions of engines: a total order that reads numbers, releases and pre-releases as people do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.engines import ANY_VERSION, VersionWindow, version_key
from lakehouse.errors import InvalidInputError

_RISING = (
    *("latest", "0", "0.9", "1.0-1", "1.0-alpha", "1.0-alpha.0", "1.0-beta", "1.0rc2", "1.0-rc10", "1.0"),
    *("1.0.1", "1.2", "1.10", "16.0beta2", "16.0rc1", "16", "16.4", "17-0", "17beta1", "17.0"),
)
_suffixes = st.sampled_from(["a", "alpha", "beta", "rc1", "0"])
_texts = st.one_of(
    st.from_regex(r"v?[0-9]{1,3}(\.[0-9]{1,3}){0,3}([-.]?(alpha|beta|rc|dev)?[0-9.]{0,3})?", fullmatch=True),
    st.text(max_size=20),
)


@pytest.mark.parametrize(("lower", "higher"), [*itertools.pairwise(_RISING)])
def test_versions_rise(lower: str, higher: str) -> None:
    """Numbers count by magnitude, pre-releases come first, and of their parts numbers below words."""
    assert version_key(lower) < version_key(higher)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, "0"), ("", "0"), ("  ", "0"), ("1", "1.0.0"), ("1.0rc1", "1.0-rc1"), ("1.0-RC1", "1.0-rc1"),
        ("2024.01.15-alpha", "2024.1.15-alpha"), ("v1.2", "1.2"), ("1.4.0+build7", "1.4"),
        ("16.1 (Debian 16.1-1)", "16.1"),
    ],
)  # fmt: skip
def test_spellings_of_one_version_are_equal(one: str | None, other: str) -> None:
    """Blank is 0, zeros at the end, case, a leading v, a dash and who built it do not matter."""
    assert version_key(one) == version_key(other)


@given(_texts, _texts, _texts)
def test_the_order_is_total(one: str, two: str, three: str) -> None:
    """Any two versions have an order, equal both ways or the reverse, and it is transitive."""
    keys = [version_key(text) for text in (one, two, three)]
    assert (keys[0] < keys[1]) + (keys[0] == keys[1]) + (keys[0] > keys[1]) == 1
    low, middle, high = sorted(keys)
    assert low <= middle <= high
    assert low <= high


@given(
    st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}", fullmatch=True),
    _suffixes,
)
def test_a_release_is_above_its_pre_releases(release: str, suffix: str) -> None:
    """Every pre-release comes before its release."""
    assert version_key(f"{release}-{suffix}") < version_key(release)


def test_an_endless_version_is_refused() -> None:
    """A version that no engine can have is refused, and not read."""
    with pytest.raises(InvalidInputError, match="128 characters"):
        version_key("1" * 5000)


def test_both_ends_of_a_window_are_inside() -> None:
    """The bounds of a window are inclusive; 16.1 lies behind a window that ends at 16."""
    window = VersionWindow(first="14", last="16")
    assert [window.includes(v) for v in ("13.9", "14", "14.0", "15beta1", "16.0", "16.1")] == [
        *(False, True, True, True, True, False)
    ]


@pytest.mark.parametrize("version", [None, "", " "])
def test_any_version_is_inside_every_window(version: str | None) -> None:
    """A version that is not said fits each window."""
    assert VersionWindow(first="14", last="16").includes(version)


def test_a_window_whose_end_comes_first_is_empty() -> None:
    """Windows are empty when their first version comes behind their last, by magnitude and not by text."""
    assert VersionWindow(first="10", last="9").is_empty
    assert not VersionWindow(first="9", last="10").is_empty
    assert not VersionWindow(first="9").is_empty


@given(st.tuples(*[st.none() | st.sampled_from(_RISING)] * 4), st.sampled_from(_RISING))
def test_windows_overlap_when_a_version_is_in_both(bounds: tuple[str | None, ...], version: str) -> None:
    """Windows that share a version overlap."""
    one = VersionWindow(first=bounds[0], last=bounds[1])
    other = VersionWindow(first=bounds[2], last=bounds[3])
    assert one.overlaps(other) == other.overlaps(one)
    if one.includes(version) and other.includes(version):
        assert one.overlaps(other)


def test_windows_apart_do_not_overlap() -> None:
    """A window that begins behind the end of another shares nothing with it."""
    assert not VersionWindow(last="16.999").overlaps(VersionWindow(first="17"))
    assert ANY_VERSION.overlaps(VersionWindow(first="17"))
