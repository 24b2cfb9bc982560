"""What others' objects say about one's own: pure judgements."""

from __future__ import annotations

from lakehouse.storage.metadata.acknowledged import Acknowledged, Written


def ours(*numbers: int) -> Acknowledged:
    """Objects of these numbers, each with a token of its own."""
    found = Acknowledged()
    for number in numbers:
        found.add(Written(number=number, token=f"t{number}", version=f"v{number}"))
    return found


def test_own_objects_are_recognised_by_token_or_version() -> None:
    """A store that keeps no tokens, or copies objects, gives no false alarm."""
    mine = ours(1, 2)
    mine.saw(1, None, "v1")
    mine.saw(2, "t2", "another")
    mine.saw(3, "foreign", "foreign")
    assert not mine.lost


def test_another_object_is_a_loss() -> None:
    """A foreign token under an own number is named."""
    mine = ours(1)
    mine.saw(1, "foreign", "v9")
    assert mine.lost == {1: "foreign"}
    assert [one.number for one in mine.at_stake(builds=True)] == [1]


def test_another_version_in_a_listing_is_only_a_doubt() -> None:
    """Whether a listing is right shows a read."""
    mine = ours(1)
    mine.saw_listed(1, "v9")
    assert (mine.lost, mine.doubtful) == ({}, {1})
    mine.saw(1, "t1", "v9")
    assert (mine.lost, mine.doubtful) == ({}, set())


def test_what_only_lives_on_in_a_lost_one_is_at_stake_too() -> None:
    """A snapshot holds the state of those before it, unless another's builds on them as well."""
    mine = ours(1, 2, 3, 5)
    mine.saw(3, "foreign", "v9")
    assert [one.number for one in mine.at_stake(builds=True)] == [1, 2, 3]
    assert [one.number for one in mine.at_stake(builds=False)] == [3]
    mine.saw_parent(2, "t2")
    assert [one.number for one in mine.at_stake(builds=True)] == [3]


def test_it_remembers_a_bounded_number() -> None:
    """After a look the last ones are kept, and before it there are not many more than a thousand."""
    mine = ours(*range(1, 1_002))
    assert mine.is_full
    mine.looked_at()
    assert not mine.is_full
    assert 1 not in mine.numbers
    assert 1_001 in mine.numbers
