"""Builtins' files: what they define, and what is wrong with them, by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.engines import VersionWindow
from lakehouse.catalog.system import BuiltinFile, CastContext, Severity, read_builtins

_HEAD = 'format = 1\nengine = "toy"\nsource = "a test"\n'
_TYPES = '[[types]]\nname = "INT"\naliases = ["int4"]\n[[types]]\nname = "TEXT"\n'


def _read(text: str, *, head: str = _HEAD) -> BuiltinFile:
    return read_builtins(head + text, name="toy.toml")


def _told(text: str, *, head: str = _HEAD) -> list[tuple[int, str, str]]:
    """Line, severity and code of each problem."""
    return [(each.line, each.severity.value, each.code) for each in _read(text, head=head).problems]


def test_each_signature_is_a_builtin() -> None:
    """A function's signatures are as many builtins, with canonical names of types."""
    file = _read(_TYPES + '[[functions]]\nname = "f"\nsignatures = ["(int4) -> TEXT", "(TEXT...)"]\n')
    assert not file.problems
    assert [each.signature for each in file.builtins[2:]] == ["f(INT) -> TEXT", "f(TEXT...)"]


def test_a_function_without_signatures_is_one_builtin() -> None:
    """A function may say that it is there, and not what it takes."""
    (builtin,) = _read('[[functions]]\nname = "f"\n').builtins
    assert (builtin.signature, builtin.arguments) == ("f", None)


def test_a_definition_without_a_window_has_that_of_its_file() -> None:
    """The versions of a file are those of definitions that give none, bound by bound."""
    head = _HEAD + 'min_version = "2"\n'
    text = '[[functions]]\nname = "f"\n[[functions]]\nname = "g"\nmin_version = "3"\nmax_version = "4"\n'
    assert [each.window for each in _read(text, head=head).builtins] == [
        VersionWindow(first="2"), VersionWindow(first="3", last="4")
    ]  # fmt: skip


def test_casts_have_a_context() -> None:
    """A cast is explicit unless it says otherwise."""
    text = (
        '[[casts]]\nfrom = "INT"\nto = "TEXT"\n[[casts]]\nfrom = "TEXT"\nto = "INT"\ncontext = "implicit"\n'
    )
    first, second = _read(_TYPES + text).builtins[2:]
    assert (first.signature, first.context) == ("INT -> TEXT", CastContext.EXPLICIT)
    assert second.context is CastContext.IMPLICIT


def test_rules_inherit_the_kind_of_their_file() -> None:
    """A rule without a kind is for the engine of its file; payloads are text, or JSON of tables."""
    text = (
        '[[functions]]\nname = "f"\n[[functions.rules]]\npayload_type = "x.y+json"\npayload = { a = 1 }\n'
        '[[functions.rules]]\npayload_type = "x.z"\npayload = "as it is"\nproperties = { b = "2" }\n'
    )
    (builtin,) = _read(text).builtins
    assert [(rule.kind, rule.payload) for rule in builtin.rules] == [
        ("toy", b'{"a":1}'), ("toy", b"as it is")
    ]  # fmt: skip
    assert dict(builtin.rules[1].properties) == {"b": "2"}


def test_a_file_for_every_engine_leaves_kinds_open() -> None:
    """In a file whose engine is ``*``, a rule without a kind is for all engines."""
    head = 'format = 1\nengine = "*"\nsource = "a test"\n'
    file = _read('[[functions]]\nname = "f"\n[[functions.rules]]\npayload_type = "x.y"\n', head=head)
    assert (file.engine, file.builtins[0].rules[0].kind) == (None, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('nmae = "x"\n', (4, "error", "unknown-key")),
        ('[[functions]]\nname = "f"\nsignature = "()"\n', (6, "error", "unknown-key")),
        ("[[functions]]\n", (4, "error", "missing-key")),
        ("functions = 3\n", (4, "error", "wrong-type")),
        ("[[functions]]\nname = 3\n", (5, "error", "wrong-type")),
        ('[[functions]]\nname = "f"\nsignatures = "()"\n', (6, "error", "wrong-type")),
        ('[[functions]]\nname = "f"\nsignatures = [\n  "()",\n  "INT",\n]\n', (8, "error", "signature")),
        ('[[functions]]\nname = "f"\nsignatures = [\n  "()",\n  "()",\n]\n', (8, "error", "duplicate")),
        (_TYPES + '[[types]]\nname = "Int4"\n', (9, "error", "duplicate")),
        ('[[functions]]\nname = "f"\nsignatures = ["(INTT)"]\n', (6, "error", "unknown-type")),
        (_TYPES + '[[casts]]\nfrom = "INT"\nto = "INTT"\n', (11, "error", "unknown-type")),
        (_TYPES + '[[casts]]\nfrom = "INT"\nto = "TEXT"\ncontext = "now"\n', (12, "error", "context")),
        ('[[functions]]\nname = "f"\nmin_version = "10"\nmax_version = "9"\n', (6, "error", "empty-window")),
        (f'[[functions]]\nname = "f"\nmin_version = "{"1" * 200}"\n', (6, "error", "version")),
        ('[[functions]]\nname = "f"\nrules = 1\n', (6, "error", "wrong-type")),
    ],
)
def test_a_problem_has_its_line(text: str, told: tuple[int, str, str]) -> None:
    """Each mistake is found once, on the line where it is."""
    assert _told(text) == [told]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ('payload_type = "json"', (7, "error", "payload-type")),
        ('kind = "toy"', (6, "error", "payload-type")),
        ('payload_type = "x.y"\npayload = 1979-05-27', (8, "error", "wrong-type")),
        ('payload_type = "x.y"\nproperties = { a = 1 }', (8, "error", "wrong-type")),
        (f'payload_type = "x.y"\npayload = "{"x" * 70_000}"', (8, "error", "oversize-payload")),
        ('payload_type = "x.y"\nmin_version = "2"\nmax_version = "1"', (8, "error", "empty-window")),
        ('payload_type = "x.y"\nkind = "other"', (8, "warning", "never-matches")),
        ('payload_type = "x.y"\nkind = "no kind"', (8, "error", "engine")),
    ],
)
def test_a_rules_problem_has_its_line(rule: str, told: tuple[int, str, str]) -> None:
    """Payload types have namespaces, payloads are small, and a rule that never matches is told."""
    assert _told(f'[[functions]]\nname = "f"\n[[functions.rules]]\n{rule}\n') == [told]


def test_a_rule_outside_of_its_definitions_window_is_told() -> None:
    """A rule for versions that do not have the function has no effect, which is a warning."""
    text = (
        '[[functions]]\nname = "f"\nmin_version = "5"\n'
        '[[functions.rules]]\npayload_type = "x.y"\nmax_version = "4"\n'
    )
    assert _told(text) == [(7, "warning", "never-matches")]


def test_one_function_may_be_defined_for_windows_apart() -> None:
    """The same signature in versions that do not meet is no duplicate."""
    text = '[[functions]]\nname = "f"\nmax_version = "4.999"\n[[functions]]\nname = "f"\nmin_version = "5"\n'
    assert not _told(text)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ('engine = "toy"\nsource = "x"\n', (1, "error", "format")),
        ('format = 2\nengine = "toy"\nsource = "x"\n', (1, "error", "format")),
        ('format = 1\nsource = "x"\n', (1, "error", "engine")),
        ('format = 1\nsource = "x"\nengine = "a b"\n', (3, "error", "engine")),
        ('format = 1\nengine = "toy"\n', (1, "warning", "no-source")),
    ],
)
def test_the_head_says_format_engine_and_source(head: str, told: tuple[int, str, str]) -> None:
    """A file says which format it has, whose builtins it lists and how anybody can check them."""
    assert _told("", head=head) == [told]


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"format = 1\nx = \n", 2), (b"a = 1\n\xff", 2), (b"a = " + b"[" * 100_000, 1), (b"[[[", 1)],
)
def test_what_is_no_toml_is_told_with_its_line(data: bytes, line: int) -> None:
    """Syntax errors, bytes that are no text and endless nesting are problems, not crashes."""
    (problem,) = read_builtins(data, name="bad.toml").problems
    assert (problem.line, problem.code, problem.severity) == (line, "syntax", Severity.ERROR)


def test_a_huge_file_is_not_read() -> None:
    """A file beyond the bound is refused by its size."""
    (problem,) = read_builtins(b"#" * (9 << 20), name="huge.toml").problems
    assert problem.code == "oversize-file"


@given(st.text(max_size=60), st.integers(0, 200), st.integers(0, 40))
def test_damaged_files_are_problems(noise: str, at: int, cut: int) -> None:
    """A file with any part replaced by any text is read, or has problems; nothing else happens."""
    whole = _HEAD + _TYPES + '[[functions]]\nname = "f"\nsignatures = ["(INT) -> TEXT"]\n'
    file = read_builtins(whole[:at] + noise + whole[at + cut :], name="toy.toml")
    lines = whole.count("\n") + noise.count("\n") + 1
    assert all(1 <= each.line <= lines for each in file.problems)


def test_problems_are_shown_as_places_in_files() -> None:
    """A problem's text begins as compilers' do, so that editors jump to it."""
    (problem,) = _read('nmae = "x"\n').problems
    assert str(problem).startswith("toy.toml:4: error: there is no key")
    assert str(problem).endswith("did you mean 'name'? [unknown-key]") or "known are" in str(problem)
    assert problem.as_dict()["code"] == "unknown-key"
