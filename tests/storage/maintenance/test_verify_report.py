"""Reports of verifications: each damage names an object, its problem and the snapshots that need it."""

from __future__ import annotations

from lakehouse.storage.maintenance.verify_report import Damage, Damages, Problem, VerifyReport

MISSING = Damage(object="data/a", problem=Problem.MISSING, detail="gone", snapshots=(1, 2, 4))


def report(*damages: Damage) -> VerifyReport:
    """A report of some checks."""
    return VerifyReport(deep=True, snapshots=4, manifests=1, files=1_000, bytes=5_000, damages=damages)


def test_snapshots_are_said_as_ranges() -> None:
    """A damage says its snapshots briefly."""
    one = Damage(object="a", problem=Problem.MISSING, detail="gone", snapshots=(1, 2, 3, 7))
    assert str(one) == "a: gone (snapshots 1-3, 7)"


def test_damages_of_no_snapshot_say_so() -> None:
    """An object that no verified snapshot needs has none."""
    one = Damage(object="a", problem=Problem.MISSING, detail="gone", snapshots=())
    assert str(one) == "a: gone (snapshots none)"


def test_a_report_without_damages_is_sound() -> None:
    """It says what was looked at, and that nothing is wrong."""
    assert report().ok
    assert "1,000 data files (5,000 bytes, read in full): sound" in str(report())
    assert report().relation().num_rows == 0


def test_a_report_lists_its_damages() -> None:
    """Each is a line of text and a row of the relation."""
    found = report(MISSING)
    assert not found.ok
    assert "1 damages\n  data/a: gone (snapshots 1-2, 4)" in str(found)
    assert found.relation().to_pylist() == [
        {"object": "data/a", "problem": "missing", "detail": "gone", "snapshots": [1, 2, 4]}
    ]


def test_a_problem_of_an_object_is_one_damage() -> None:
    """Found again it gets further snapshots; another problem of the object is another damage."""
    damages = Damages()
    damages.add("b", Problem.SIZE, "too small", [3])
    damages.add("a", Problem.MISSING, "gone", [2])
    damages.add("a", Problem.MISSING, "still gone", [1])
    damages.add("a", Problem.SIZE, "too large", [2])
    assert damages.all() == (
        Damage(object="a", problem=Problem.MISSING, detail="gone", snapshots=(1, 2)),
        Damage(object="a", problem=Problem.SIZE, detail="too large", snapshots=(2,)),
        Damage(object="b", problem=Problem.SIZE, detail="too small", snapshots=(3,)),
    )


def test_a_snapshot_that_needs_an_object_has_all_its_problems() -> None:
    """Touching an object adds the snapshot to every problem of it, and to no other object's."""
    damages = Damages()
    damages.add("a", Problem.MISSING, "gone", [1])
    damages.add("a", Problem.SIZE, "too large", [1])
    damages.add("b", Problem.MISSING, "gone", [1])
    damages.touch("a", 2)
    damages.touch("sound", 2)
    assert [one.snapshots for one in damages.all()] == [(1, 2), (1, 2), (1,)]


def test_files_are_carried_from_snapshot_to_snapshot() -> None:
    """A snapshot with the same files has their damages; damage to a snapshot object is its own."""
    damages = Damages()
    own = f"snapshot/snapshot-{1:020}"
    damages.add("data/a", Problem.MISSING, "gone", [1])
    damages.add("data/b", Problem.MISSING, "gone", [7])
    damages.add(own, Problem.CHAIN, "another parent", [1])
    damages.carry(1, 2)
    assert {one.object: one.snapshots for one in damages.all()} == {
        "data/a": (1, 2),
        "data/b": (7,),
        own: (1,),
    }


def test_damages_of_expired_snapshots_are_left_out() -> None:
    """What only snapshots need that have expired meanwhile was deleted, and is no damage."""
    damages = Damages()
    damages.add("a", Problem.MISSING, "gone", [1])
    damages.add("b", Problem.MISSING, "gone", [1, 2])
    damages.add("LATEST", Problem.UNREADABLE, "rubbish", [])
    assert [one.object for one in damages.all(gone=[1])] == ["LATEST", "b"]
