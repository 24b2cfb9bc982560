"""No assertion guards what users and stores hand in: ``python -O`` changes nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.house import budgets
from tests.house.allowances import ASSERTS
from tests.house.source_tree import ROOT, library, none_of, parse

REPRESENTATIVE = (
    "tests/io/backends/test_class_options.py",
    "tests/io/test_location.py",
    "tests/io/test_protocols.py",
    "tests/storage/write/test_conditional_writes.py",
    "tests/everywhere/test_option_doors.py",
)
"""Tests of wrong arguments, of stores that lack things, of reads and writes; quick ones."""


def test_assertions_are_counted() -> None:
    """A new assertion needs a look at who could break it, and its place in the list."""
    found = [row for row in budgets.assertions(library()) if not row[0].startswith("lakehouse/testing/")]
    counts = Counter(path for path, _ in found)
    none_of(
        (text for path, text in found if counts[path] > ASSERTS.get(path, 0)),
        "raise an error of lakehouse.errors, or count it in tests/house/allowances.py:",
    )
    none_of((path for path in ASSERTS if path not in counts), "no assertions there any more:")


def test_the_count_finds_assertions() -> None:
    """Assertions are found wherever they stand, and not in examples of docstrings."""
    module = parse("lakehouse/x.py", '"""::\n\n    assert a\n"""\ndef f(x):\n    assert x > 0\n')
    assert [text for _, text in budgets.assertions([module])] == ["lakehouse/x.py:6 asserts x > 0"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_changes_without_assertions() -> None:
    """A representative set of tests passes under ``python -O``, where pytest keeps their own assertions."""
    command = [sys.executable, "-O", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    command += ["-W", "ignore::pytest.PytestConfigWarning", *REPRESENTATIVE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^\d{2,} passed", done.stdout, re.MULTILINE)
