"""Rooms have an order, doors, names of their own and tests where one looks for them; each check can fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.house import rooms
from tests.house.allowances import SHARED_NAMES
from tests.house.source_tree import Module, library, none_of, parse, tracked_files

DOOR = (
    '"""Rooms.\n\nWords: *a*.\n"""\n'
    "from typing import TYPE_CHECKING\nfrom lakehouse.doors import door\n"
    "if TYPE_CHECKING:\n    from lakehouse.storage.scan.plan import Plan\n"
    '__all__ = ["Plan"]\n__getattr__, __dir__ = door(__name__, {"plan": "Plan"})\n'
)


def made_up(**files: str) -> Sequence[Module]:
    """A package: ``storage__scan__plan="x = 1"`` is ``lakehouse/storage/scan/plan.py``."""
    sources = {"storage__scan__": DOOR, "storage__scan__plan": "class Plan: ...", **files}
    return [
        parse(f"lakehouse/{name.replace('__', '/')}.py".replace("/.py", "/__init__.py"), text)
        for name, text in sources.items()
    ]


def test_every_room_has_its_place() -> None:
    """Each room, and each module beside rooms, stands in the order of its part."""
    none_of(rooms.without_a_place(library()), "without a place:")


def test_rooms_are_imported_in_order() -> None:
    """Inside a part a room imports only rooms before it."""
    none_of(rooms.against_the_order(library()), "against the order of rooms:")


def test_folders_are_small() -> None:
    """A folder has no more modules than one can take in."""
    none_of(rooms.crowded(library()), "crowded folders:")


def test_other_parts_come_through_the_door() -> None:
    """A module of a room is imported by its own part only."""
    none_of(rooms.past_a_door(library()), "imports past a door:")


def test_doors_are_true() -> None:
    """A door has a page of words, and gives out what it lists and what type checkers read."""
    none_of(rooms.untrue_doors(library()), "untrue doors:")


def test_a_public_name_is_one_class() -> None:
    """No two classes or aliases of the package have one public name."""
    none_of(rooms.shared_names(library(), SHARED_NAMES), "names of several classes:")


def test_keys_are_made_in_one_place() -> None:
    """Keys of a table's objects are built and parsed by one module."""
    none_of(rooms.keys_elsewhere(library()), "keys made elsewhere:")


def test_tests_are_where_one_looks_for_them() -> None:
    """A test file is named after the module it tests, or stands with promises of no module."""
    tests = [path for path in tracked_files() if path.startswith("tests/") and path.endswith(".py")]
    none_of(rooms.unmirrored(tests, library()), "tests without a module:")


def test_every_module_of_storage_has_its_tests() -> None:
    """Storage holds what must not be lost, so none of its modules is tested by its neighbours alone."""
    none_of(rooms.untested(tracked_files(), library()), "modules without tests of their own:")


def test_a_room_without_a_place_is_found() -> None:
    """A new room, and a new module beside rooms, have to be given their places."""
    tree = made_up(storage__novelty__="", storage__news="")
    assert [row.split(":")[0] for row in rooms.without_a_place(tree)] == [
        "lakehouse/storage/novelty/__init__.py",
        "lakehouse/storage/news.py",
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "from lakehouse.storage.write.flush import f",
        "import lakehouse.storage.write.flush",
        "from lakehouse.storage.write import flush",
        "from lakehouse.storage import write",
        "if TYPE_CHECKING:\n    from lakehouse.storage.write.flush import f",
        "from lakehouse.storage.table import Table",
    ],
)
def test_an_import_against_the_order_is_found(statement: str) -> None:
    """A room that imports a later one is found, however it is written; the other way is fine."""
    tree = made_up(
        storage__scan__scan=statement,
        storage__write__="",
        storage__write__flush="from lakehouse.storage.scan.plan import Plan",
        storage__table="from lakehouse.storage.write.flush import f",
    )
    found = list(rooms.against_the_order(tree))
    assert len(found) == 1
    assert found[0].startswith("lakehouse/storage/scan/scan.py:")


def test_a_crowded_folder_is_found() -> None:
    """One module too many is one too many; the folder's own page does not count."""
    full = {f"storage__scan__m{number}": "" for number in range(rooms.FOLDER_MODULES_MAX - 1)}
    assert not list(rooms.crowded(made_up(**full)))
    assert list(rooms.crowded(made_up(**full, storage__scan__more=""))) == [
        "lakehouse/storage/scan: 17 modules, 16 allowed: make rooms of it"
    ]


@pytest.mark.parametrize(
    ("statement", "offences"),
    [
        ("from lakehouse.storage.scan.plan import Plan", 1),
        ("import lakehouse.storage.scan.plan", 2),
        ("from lakehouse.storage.scan import plan", 1),
        ("HOMES = {'Plan': 'lakehouse.storage.scan.plan'}", 1),
        ("from lakehouse.storage.scan import Plan", 0),
        ("from lakehouse.storage.table import Table", 0),
    ],
)
def test_an_import_past_a_door_is_found(statement: str, offences: int) -> None:
    """Only other parts are held to the door, and modules beside rooms have none."""
    beside = made_up(lake=statement, storage__table="class Table: ...")
    assert bool(list(rooms.past_a_door(beside))) == bool(offences)
    inside = made_up(storage__table=f"{statement}\nclass Table: ...")
    assert not list(rooms.past_a_door(inside))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Words: *a*.", "No words.", "its docstring does not say"),
        ('__all__ = ["Plan"]', "__all__ = []", "Plan is in one of __all__ and door"),
        ('{"plan": "Plan"}', '{"plan": "Plan More"}', "More is in one of __all__ and door"),
        ('{"plan": "Plan"}', '{"other": "Plan"}', "to type checkers"),
        ("import Plan\n", "import Other\n", "type checkers do not know of Plan"),
    ],
)
def test_an_untrue_door_is_found(old: str, new: str, said: str) -> None:
    """A door whose page, list, table and annotations differ is found."""
    assert not list(rooms.untrue_doors(made_up()))
    assert old in DOOR
    found = "\n".join(rooms.untrue_doors(made_up(storage__scan__=DOOR.replace(old, new))))
    assert said in found


def test_a_name_that_is_a_module_too_is_found() -> None:
    """A door cannot give out a name that one of its modules has."""
    found = list(rooms.untrue_doors(made_up(storage__scan__Plan="")))
    assert found == [
        "lakehouse/storage/scan/__init__.py: Plan is a module too, and whichever is loaded last is found"
    ]


def test_a_name_of_two_classes_is_found() -> None:
    """Two classes of one name are found, aliases and doubles too; twins and constants are left alone."""
    tree = made_up(
        storage__rows__cut="Plan = tuple[int, int]\nLIMIT = 1",
        storage__table="LIMIT = 2\nclass Table: ...",
        sync__table="class Table: ...",
    )
    assert list(rooms.shared_names(tree, {})) == [
        "Plan: lakehouse/storage/scan/plan.py, lakehouse/storage/rows/cut.py"
    ]
    assert not list(rooms.shared_names(tree, {"Plan": "both are plans"}))
    assert list(rooms.shared_names(tree, {"Plan": "both", "Table": "?"})) == [
        "Table is there once: no allowance"
    ]


@pytest.mark.parametrize("text", ["f'wal/wal-{n}.log'", "'data/'", "x + '/snapshot/LATEST'", "r'index/.*'"])
def test_a_key_made_elsewhere_is_found(text: str) -> None:
    """A key that is put together outside its place is found, in documentation it is not."""
    assert list(rooms.keys_elsewhere([parse("lakehouse/storage/scan/x.py", f"key = {text}")]))
    assert not list(rooms.keys_elsewhere([parse(rooms.KEYS_HOME, f"key = {text}")]))
    assert not list(rooms.keys_elsewhere([parse("lakehouse/index/greptime/x.py", f"key = {text}")]))
    assert not list(rooms.keys_elsewhere([parse("lakehouse/storage/x.py", '"""Reads data/ and wal/."""')]))


@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        ("tests/storage/scan/test_plan.py", False),
        ("tests/storage/scan/test_plan_costs.py", False),
        ("tests/storage/scan/test_planning.py", True),
        ("tests/storage/test_plan.py", True),
        ("tests/storage/plan/test_plan.py", True),
        ("tests/models/test_plans.py", False),
        ("tests/storage/models/test_plans.py", False),
        ("tests/storage/scan/samples.py", False),
        ("tests/house/test_plans.py", False),
        ("tests/test_plans.py", True),
    ],
)
def test_a_test_without_a_module_is_found(path: str, is_found: bool) -> None:
    """A test is looked for beside its module, or in a folder of promises."""
    assert bool(list(rooms.unmirrored([path], made_up(storage__scan__models="")))) == is_found


@pytest.mark.parametrize(
    ("path", "is_found"),
    [("tests/storage/scan/test_plan.py", False), ("tests/storage/test_plan.py", True), ("", True)],
)
def test_a_module_without_a_test_is_found(path: str, is_found: bool) -> None:
    """Only a file of the module's own name and folder counts."""
    assert bool(list(rooms.untested([path], made_up(storage__scan__plan="")))) == is_found


@pytest.mark.parametrize("path", ["tests/models/test_plans.py", "tests/storage/models/test_plans.py"])
def test_a_folder_of_a_room_holds_no_promises(path: str) -> None:
    """Where a room has the name of a folder of promises, its tests mirror it."""
    assert list(rooms.unmirrored([path], made_up(storage__models__="", models__="")))
