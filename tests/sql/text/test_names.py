"""Names and constants, written so that DuckDB reads them as what they are."""

from __future__ import annotations

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.sql.text import literal, quoted, unquoted
from tests.kit.sql_texts import parts_in

_NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(_NAMES, _NAMES)
def test_a_quoted_name_is_read_as_itself(database: str, table: str) -> None:
    """Quotes, dots, semicolons, keywords and comments are letters of a name, to DuckDB's parser and ours."""
    text = f"select 1 from {quoted(database)}.{quoted(table)} where true"
    assert parts_in(text) == [(database, table)]
    assert unquoted(quoted(table)) == table


@given(_NAMES)
def test_a_constant_is_read_as_its_text(text: str) -> None:
    """Text in quotes is the value that DuckDB gives back."""
    assert unquoted(literal(text)) == text
    with duckdb.connect() as connection:
        row = connection.execute(f"select {literal(text)}").fetchone()
    assert row == (text,)
