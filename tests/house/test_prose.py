"""Docstrings are sentences of their own: they begin with a verb or a noun."""

from __future__ import annotations

import pytest

from tests.house.prose import fragments
from tests.house.source_tree import library, none_of, parse


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    """No docstring is a clause without what it speaks of."""
    none_of(fragments(library()), "docstrings that begin with neither a verb nor a noun:")


@pytest.mark.parametrize(
    "text",
    [
        '"""What a module has."""',
        'class A:\n    """Those of a table."""',
        'def f():\n    """Of a batch."""',
        'class A:\n    async def f(self):\n        """\n        What comes back.\n        """',
        'MAX = 1\n"""Of a batch, at most."""',
        'class A:\n    size: int\n    """Of the file."""',
        'class A:\n    def __init__(self):\n        self.size = 1\n        """What it weighs."""',
        'if LARGE:\n    MAX = 1\n    """Of a batch."""',
    ],
    ids=["module", "class", "function", "method", "constant", "field", "attribute", "branch"],
)
def test_a_fragment_is_found(text: str) -> None:
    """A docstring of any kind that begins with such a word is found."""
    assert len(list(fragments([parse("lakehouse/storage/commit/x.py", text)]))) == 1


@pytest.mark.parametrize(
    "text",
    [
        '"""Maximum rows per batch. What is larger is split."""',
        'def f():\n    """Offsets of the rows."""',
        'def f():\n    """Returns the size."""\n    call("Of none")\n    "What is a value"',
        'MESSAGE = "What happened"',
    ],
    ids=["later", "longer", "value", "message"],
)
def test_what_is_no_fragment_passes(text: str) -> None:
    """Only the first word of a docstring counts, and only all of it."""
    assert not list(fragments([parse("lakehouse/x.py", text)]))


def test_the_offence_says_where_and_what() -> None:
    """An offence names file, line, sentence and word."""
    module = parse("lakehouse/errors.py", 'A = 1\n"""Of a table.\n\nMore."""\n')
    assert list(fragments([module])) == [
        "lakehouse/errors.py:2 'Of a table.': begin with a verb or a noun, not 'Of'"
    ]
