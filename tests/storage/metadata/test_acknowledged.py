"""What others' objects say about one's own: pure judgements."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.storage.metadata.acknowledged import Acknowledged, AcknowledgedSnapshots, Written


def written(number: int) -> Written:
    """An object of that number, with a token of its own."""
    return Written(number=number, token=f"t{number}", version=f"v{number}")


def ours(*numbers: int) -> Acknowledged:
    """Objects of these numbers."""
    found = Acknowledged()
    for number in numbers:
        found.add(written(number))
    return found


def snapshots(*numbers: int) -> AcknowledgedSnapshots:
    """Snapshots of these numbers, each of which builds upon the one before it."""
    found = AcknowledgedSnapshots()
    for number in numbers:
        found.add(written(number))
        found.saw_child(number, f"t{number}", f"v{number}", parent=f"t{number - 1}")
    return found


def at_stake(mine: Acknowledged) -> list[int]:
    """Numbers that are lost or may be."""
    return [one.number for one in mine.at_stake()]


def test_own_objects_are_recognised_by_token_or_version() -> None:
    """A store that keeps no tokens, or copies objects, gives no false alarm."""
    mine = ours(1, 2)
    mine.saw(1, None, "v1")
    mine.saw(2, "t2", "another")
    mine.saw(3, "foreign", "foreign")
    assert not mine.at_stake()


def test_another_object_is_a_loss() -> None:
    """A foreign token under an own number is named."""
    mine = ours(1)
    mine.saw(1, "foreign", "v9")
    assert mine.is_suspect
    assert at_stake(mine) == [1]


def test_another_version_in_a_listing_is_only_a_doubt() -> None:
    """Whether a listing is right shows a read."""
    mine = ours(1)
    mine.saw_listed(1, "v9")
    assert (at_stake(mine), mine.doubtful, mine.to_read([1])) == ([], {1}, [1])
    mine.saw(1, "t1", "v9")
    assert (at_stake(mine), mine.doubtful, mine.to_read([1])) == ([], set(), [])


def test_segments_do_not_build_upon_each_other() -> None:
    """The loss of one segment says nothing of those around it."""
    mine = ours(1, 2, 3)
    mine.saw(3, "foreign", "v9")
    assert at_stake(mine) == [3]


def test_what_only_lives_on_in_a_lost_one_is_at_stake_too() -> None:
    """A snapshot holds the state of those before it, so what replaced it has to build on them as well."""
    mine = snapshots(1, 2, 3)
    mine.saw(3, "foreign", "v9")
    mine.saw_child(3, "foreign", "v9", parent="another")
    assert at_stake(mine) == [1, 2, 3]
    mine = snapshots(1, 2, 3)
    mine.saw(3, "foreign", "v9")
    mine.saw_child(3, "foreign", "v9", parent="t2")
    assert at_stake(mine) == [3]


def test_a_snapshot_that_stands_and_is_not_descended_from_is_at_stake() -> None:
    """The one after it names it, and the one after that was built upon another that is not there any more."""
    mine = snapshots(25)
    mine.saw_child(26, "Q", "q", parent="t25")
    assert not mine.is_suspect
    mine.saw_child(27, "S", "s", parent="overwritten by Q")
    assert mine.is_suspect
    assert at_stake(mine) == [25]


def test_one_that_was_seen_and_overwritten_still_counts_as_a_parent() -> None:
    """A later snapshot that was built upon it descends from what it was built upon."""
    mine = snapshots(25)
    mine.saw_child(26, "Q'", "q'", parent="t25")
    mine.saw_child(26, "Q", "q", parent="t25")
    mine.saw_child(27, "S", "s", parent="Q'")
    assert not at_stake(mine)


def test_one_that_changes_later_is_read_again() -> None:
    """A listing that shows another version of a snapshot after ours asks for a read of it."""
    mine = snapshots(25)
    assert mine.to_read([25, 26, 27]) == [26, 27]
    mine.saw_child(26, "Q", "q", parent="t25")
    mine.saw_child(27, "S", "s", parent="Q")
    mine.saw_listed(26, "q")
    assert mine.to_read([25, 26, 27]) == []
    mine.saw_listed(26, "another")
    assert mine.to_read([25, 26, 27]) == [26]


def test_only_the_next_snapshots_are_followed() -> None:
    """However many come after ours, a bounded number is read, and once."""
    mine = snapshots(5)
    asked = mine.to_read(range(5, 1_000))
    assert asked == list(range(6, 22))
    for number in range(6, 1_000):
        mine.saw_child(number, f"t{number}", f"v{number}", parent=f"t{number - 1}")
    assert mine.to_read(range(5, 1_000)) == []
    mine.looked_at()
    assert mine.to_read(range(5, 1_000)) == []


@dataclass(frozen=True)
class Made:
    """A snapshot of a history, and the one that it builds upon."""

    number: int
    token: str
    who: int
    parent: Made | None

    def descends_from(self, other: Made) -> bool:
        """Whether the other one's rows are in this state."""
        one: Made | None = self
        while one is not None and one != other:
            one = one.parent
        return one is not None


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_no_history_hides_a_loss(rng: random.Random, ignored: float) -> None:
    """Whoever overwrites what, each process names all of its snapshots that the newest does not hold."""
    first = Made(1, "t1", 0, None)
    there = {1: first}
    knows = dict.fromkeys(range(4), first)
    records = {who: AcknowledgedSnapshots() for who in knows}
    made: list[Made] = []

    def read(who: int, one: Made) -> None:
        assert one.parent is not None
        records[who].saw(one.number, one.token, one.token)
        records[who].saw_child(one.number, one.token, one.token, parent=one.parent.token)

    for step in range(rng.randrange(2, 40)):
        who = rng.randrange(4)
        if rng.random() < 0.5:
            knows[who] = there[max(there)]
            if knows[who].number > 1:
                read(who, knows[who])
            continue
        one = Made(knows[who].number + 1, f"t{step + 2}", who, knows[who])
        if one.number in there and rng.random() >= ignored:
            continue
        there[one.number] = knows[who] = one
        made.append(one)
        records[who].add(Written(number=one.number, token=one.token, version=one.token))
        read(who, one)

    newest = there[max(there)]
    for who, record in records.items():
        for number, one in there.items():
            record.saw_listed(number, one.token)
        for number in record.to_read(there):
            if number > 1:
                read(who, there[number])
        lost = {one.number for one in made if one.who == who and not newest.descends_from(one)}
        assert lost <= set(at_stake(record))
        if ignored == 0.0:
            assert not at_stake(record)


def test_it_remembers_a_bounded_number() -> None:
    """After a look the last ones are kept, and before it there are not many more than a thousand."""
    mine = ours(*range(1, 1_002))
    assert mine.is_full
    mine.looked_at()
    assert not mine.is_full
    assert 1 not in mine.numbers
    assert 1_001 in mine.numbers
