"""Lines of TOML documents."""

from __future__ import annotations

import tomllib

from lakehouse.catalog.system.toml_lines import lines_of

_TEXT = '''# a comment with [brackets] and = signs
format = 1
text = """
[not.a.table]
key = 1
"""
[[functions]]
name = "a" # [[functions]]
signatures = [
    "(A, B)",
    # "(C)",
    "(D)", "(E)",
]
[[functions.rules]]
payload = { a = [1, 2], "b" = 'x = 1' }
[[functions.rules]]
payload_type = "x.y"
[[functions]]
"name" = "b"
properties.inner = "c"
'''


def test_tables_keys_and_elements_have_their_lines() -> None:
    """Comments, strings of several lines and brackets inside of values move nothing."""
    document, lines = tomllib.loads(_TEXT), lines_of(_TEXT)
    assert [len(document["functions"]), len(document["functions"][0]["rules"])] == [2, 2]
    assert {place: lines[place] for place in lines if place} == {
        ("format",): 2,
        ("text",): 3,
        ("functions", 0): 7,
        ("functions", 0, "name"): 8,
        ("functions", 0, "signatures"): 9,
        ("functions", 0, "signatures", 0): 10,
        ("functions", 0, "signatures", 1): 12,
        ("functions", 0, "signatures", 2): 12,
        ("functions", 0, "rules", 0): 14,
        ("functions", 0, "rules", 0, "payload"): 15,
        ("functions", 0, "rules", 1): 16,
        ("functions", 0, "rules", 1, "payload_type"): 17,
        ("functions", 1): 18,
        ("functions", 1, "name"): 19,
        ("functions", 1, "properties", "inner"): 20,
    }
