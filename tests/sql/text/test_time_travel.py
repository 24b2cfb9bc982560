"""Time travel in the text of a query."""

from __future__ import annotations

import pytest

from lakehouse.errors import InvalidInputError
from tests.kit.sql_texts import tree_of


@pytest.mark.parametrize(
    ("text", "unit", "value", "clause"),
    [
        ("from s.t for version as of 3", "version", 3, "for version as of 3"),
        ("from t FOR VERSION AS OF 'tag' x", "version", "tag", "FOR VERSION AS OF 'tag'"),
        (
            "from t for timestamp as of '2026-01-31' as x(a)",
            "timestamp",
            "2026-01-31",
            "for timestamp as of '2026-01-31'",
        ),
        (
            "from t x for timestamp as of timestamp '2026-01-31'",
            "timestamp",
            "2026-01-31",
            "for timestamp as of timestamp '2026-01-31'",
        ),
        (
            "from t timestamp as of 1769817600000 x",
            "timestamp",
            1769817600000,
            "timestamp as of 1769817600000",
        ),
        ("from t version as of 3 join u using (a)", "version", 3, "version as of 3"),
        ("from t x version as of 3", "version", 3, "version as of 3"),
        ("from t@v1", "version", "v1", "@v1"),
        ("from t@v1 x", "version", "v1", "@v1"),
        ('from "t"@"v 1" as x', "version", "v 1", '@"v 1"'),
        ("from t@'v-1'", "version", "v-1", "@'v-1'"),
        ("from t@7", "version", 7, "@7"),
        ("from (from t -- c\n@v /* d */ x)", "version", "v", "@v"),
        ("from t at (version => 3)", "version", 3, "at (version => 3)"),
        ("from t x AT (TIMESTAMP => '2026')", "timestamp", "2026", "AT (TIMESTAMP => '2026')"),
        (
            "from t as x(a) at (timestamp => date '2026-01-01')",
            "timestamp",
            "2026-01-01",
            "at (timestamp => date '2026-01-01')",
        ),
        ("pivot t@v on a using sum(b)", "version", "v", "@v"),
        ("select 'é' from t for version as of 3", "version", 3, "for version as of 3"),
    ],
)
def test_every_form_is_a_clause_of_its_table(text: str, unit: str, value: object, clause: str) -> None:
    """A clause has its unit, its value and its bytes, before the alias or behind it."""
    tree = tree_of(text)
    table = tree.tables[0]
    at = table.at
    assert at is not None
    assert (at.unit, at.value, at.parameter) == (unit, value, None)
    assert tree.statement.raw[at.start : at.end].decode() == clause
    assert table.start < at.start < at.end <= table.end
    assert table.alias == ("x" if " x" in text.replace("x(", "x (") else None)


def test_each_reference_has_its_own_moment() -> None:
    """The same table is read at several moments in one query."""
    tree = tree_of(
        "from t@a x join t@b y using (k), t z where x.v@y.v in (select 1 from u for version as of 4)"
    )
    assert [None if one.at is None else one.at.value for one in tree.tables] == ["a", "b", None, 4]


@pytest.mark.parametrize(
    "text",
    [
        "select a@b from t",
        "select version as of_, version from t",
        "select 1 as version, timestamp from t as version",
        "from t version",
        "select '@v', \"t@v\" from t -- @v",
        "select tag from t as tag",
    ],
)
def test_words_that_look_like_it_stay_what_they_are(text: str) -> None:
    """Operators, columns, aliases, strings and comments are no time travel."""
    assert [one.at for one in tree_of(text).tables] == [None]


@pytest.mark.parametrize(
    ("text", "parameter", "left"),
    [
        ("select ? from t for version as of ? where a = ?", "2", ["1", "3"]),
        ("from t at (version => $v) where a = $b", "v", ["b"]),
        ("from t timestamp as of $1", "1", []),
    ],
)
def test_a_parameter_gives_the_moment(text: str, parameter: str, left: list[str]) -> None:
    """Its name is told apart from those that DuckDB sees, whose numbers stay."""
    tree = tree_of(text)
    at = tree.tables[0].at
    assert at is not None
    assert (at.value, at.parameter) == (None, parameter)
    assert [one.name for one in tree.parameters] == left


@pytest.mark.parametrize(
    ("text", "says", "place"),
    [
        ("from t for version as of now()", "a moment is", "now"),
        ("from t for version as of", "a moment is", "for version as of"),
        ("from t for version as of 1.5", "a moment is", "1.5"),
        ("from t at (version => 1 + 2)", "a moment is", "1 + 2"),
        ("from t at (version => 'a' || 'b')", "a moment is", "'a' || 'b'"),
        ("from t@", "name of a tag", "@"),
        ("from t@ ?", "name of a tag", "@"),
        ("from t@a@b", "one moment", "@b"),
        ("from t@a at (version => 3)", "one moment", "@a"),
        ("from (select 1) x for version as of 3", "behind the name of a table", "for version as of 3"),
        ("with x as (select 1) from x@v", "behind the name of a table", "@v"),
        ("select 1 limit 1 version as of 3", "behind the name of a table", "version as of 3"),
        ("from range(3) for version as of 3", "behind the name of a table", "for version as of 3"),
        ("from t for system as of 3", "near", "for"),
        ("from t@v-1", "near", "-"),
    ],
)
def test_what_is_no_time_travel_is_refused_at_its_place(text: str, says: str, place: str) -> None:
    """A wrong value, a second moment and a place without a table are shown."""
    with pytest.raises(InvalidInputError, match=says) as caught:
        tree_of(text)
    start, length = caught.value.context["offset"], caught.value.context["length"]
    assert text[start : start + length] == place


def test_clauses_are_counted() -> None:
    """A query is parsed once for each clause, so that their number has a bound."""
    assert len(tree_of("from " + ", ".join(f"t{one}@v" for one in range(100))).tables) == 100
    with pytest.raises(InvalidInputError, match="too often"):
        tree_of("from " + ", ".join(f"t{one}@v" for one in range(101)))
