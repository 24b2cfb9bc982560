"""``lakehouse table alter`` and ``delete``: changes of columns, options and rows."""

from __future__ import annotations

import pytest

import lakehouse.sync
from tests.cli.tables.test_commands import Run, orders, run, warehouse  # noqa: F401 - fixtures


def test_changes_are_one_commit(orders: str, run: Run) -> None:  # noqa: F811
    """Columns and options change together: all of it is in one snapshot."""
    with lakehouse.sync.connect(orders) as lake:
        before = lake.table("sales.orders").current_snapshot()
    done = run(
        *(
            "table",
            "alter",
            orders,
            "sales.orders",
            "--add",
            "rate double comment 'of tax'",
            "--rename",
            "note=said",
        ),
        *("--set", "compaction.auto=off", "--comment", "of the shop", "--drop", "raw", "--yes"),
    )
    assert done.code == 0, done.err
    with lakehouse.sync.connect(orders) as lake:
        table = lake.table("sales.orders")
        schema = table.schema()
        assert [field.name for field in schema.fields] == ["id", "day", "amount", "said", "rate"]
        assert (schema.fields[-1].comment, schema.comment) == ("of tax", "of the shop")
        assert schema.options["compaction.auto"] == "off"
        assert table.current_snapshot() == before + 1
    assert run("table", "alter", orders, "sales.orders", "--unset", "compaction.auto").code == 0
    assert run("table", "alter", orders, "sales.orders", "--widen", "amount decimal(20,2)").code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "nothing to change"),
        (("--rename", "note"), "--rename takes OLD=NEW"),
        (("--add", "x nothing"), "nothing"),
        (("--widen", "nope bigint"), "nope"),
    ],
)
def test_wrong_changes_are_refused(words: tuple[str, ...], says: str, orders: str, run: Run) -> None:  # noqa: F811
    """What cannot be changed so is an error that names it."""
    done = run("table", "alter", orders, "sales.orders", *words)
    assert (done.code, says in done.err) == (1, True)


def test_only_drops_are_asked_about(orders: str, run: Run) -> None:  # noqa: F811
    """A change that takes nothing away needs no answer; one that drops a column does."""
    assert run("table", "alter", orders, "sales.orders", "--optional", "note").code == 0
    assert run("table", "alter", orders, "sales.orders", "--drop", "note").code == 2


def test_rows_are_deleted_by_condition_or_key(orders: str, run: Run) -> None:  # noqa: F811
    """Rows that match are gone; a key is written as in ``table get``."""
    assert run("table", "delete", orders, "sales.orders", "--where", "id >= 2", "--yes").code == 0
    done = run("table", "delete", orders, "sales.orders", "--key", "id=0", "--yes", "--json")
    assert '"changed": true' in done.out
    with lakehouse.sync.connect(orders) as lake:
        assert lake.table("sales.orders").scan().to_arrow()["id"].to_pylist() == [1]
    assert run("table", "delete", orders, "sales.orders", "--yes").code == 1
    assert run("table", "delete", orders, "sales.orders", "--where", "id = 1").code == 2
