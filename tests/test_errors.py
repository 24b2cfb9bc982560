"""The error tree: its shape is API, its members travel, its kinds only grow."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from typing import Any

import pytest

from lakehouse import errors
from lakehouse.errors import KINDS, LakehouseError, NotFoundError

PINNED_KINDS = {
    "acknowledged-lost",
    "already-exists",
    "ambiguous_name",
    "bad-credentials",
    "clock-skew",
    "commit-unknown",
    "conflict",
    "corruption",
    "fenced",
    "format",
    "internal",
    "interrupted",
    "invalid-input",
    "lost-race",
    "missing-bucket",
    "missing-extra",
    "not-found",
    "object-changed",
    "out-of-memory",
    "overloaded",
    "overwritten",
    "permission-denied",
    "pin-conflict",
    "purged",
    "query-ended",
    "throttled",
    "timeout",
    "truncated-body",
    "unavailable",
    "unknown-setting",
    "unreachable",
    "unsafe-store",
    "unsupported",
    "unsupported-version",
    "wrong-loop",
    "wrong-process",
    "wrong-region",
}
"""Kinds that programs may compare with. Add new ones here; never take one away."""

PINNED_TREE = {
    "LakehouseError": (None, Exception),
    "ConflictError": ("LakehouseError", Exception),
    "FencedError": ("ConflictError", Exception),
    "CommitUnknownError": ("LakehouseError", Exception),
    "NotFoundError": ("LakehouseError", FileNotFoundError),
    "AlreadyExistsError": ("LakehouseError", FileExistsError),
    "InvalidInputError": ("LakehouseError", ValueError),
    "UnavailableError": ("LakehouseError", Exception),
    "FormatError": ("LakehouseError", Exception),
    "CorruptionError": ("FormatError", Exception),
    "UnsupportedVersionError": ("FormatError", Exception),
    "PermissionDeniedError": ("LakehouseError", PermissionError),
    "InternalError": ("LakehouseError", Exception),
}
"""Class: its parent in the tree and the builtin a caller may catch instead."""


def descendants(cls: type[LakehouseError]) -> list[type[LakehouseError]]:
    """The class and everything below it, in order of definition."""
    return [cls, *(d for child in cls.__subclasses__() for d in descendants(child))]


TREE = [cls for cls in descendants(LakehouseError) if cls.__module__ == errors.__name__]
every_class = pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)


def drawn_tree() -> dict[str, str | None]:
    """Class and parent as the module's docstring draws them."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for indent, name in re.findall(r"^    ([│├└─ ]*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE):
        depth = len(indent) // 4
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else None
    return parents


def test_the_tree_is_the_pinned_one() -> None:
    """Classes, parents and builtin bases are API and do not change."""
    assert set(PINNED_TREE) == {cls.__name__ for cls in TREE}
    for cls in TREE:
        parent, builtin = PINNED_TREE[cls.__name__]
        assert cls.__bases__[0].__name__ == (parent or "Exception")
        assert issubclass(cls, builtin)


def test_the_docstring_draws_the_tree() -> None:
    """The drawing at the head of the module shows every class under its parent."""
    assert drawn_tree() == {name: parent for name, (parent, _) in PINNED_TREE.items()}


def test_the_docstring_names_builtin_bases() -> None:
    """Where a class is also a builtin, the drawing says so."""
    for name, (_, builtin) in PINNED_TREE.items():
        line = next(line for line in (errors.__doc__ or "").splitlines() if name in line)
        assert (f"(also {builtin.__name__})" in line) == (builtin is not Exception)


def test_kinds_only_grow() -> None:
    """Every kind that was ever published is still there."""
    gone = sorted(PINNED_KINDS - set(KINDS))
    assert not gone


def test_kinds_are_sorted_words_with_a_meaning() -> None:
    """Kinds are lower-case words in order, and each says what it means."""
    assert list(KINDS) == sorted(KINDS)
    for kind, meaning in KINDS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*|ambiguous_name", kind)
        assert meaning


@every_class
def test_a_class_has_a_kind_of_its_own(cls: type[LakehouseError]) -> None:
    """Without a kind given, an error has its class's kind."""
    error = cls("what, where, what to do")
    assert error.kind == cls.default_kind
    assert error.kind in KINDS
    below_root = [c for c in TREE if c not in (LakehouseError, errors.InternalError)]
    assert len({c.default_kind for c in below_root}) == len(below_root)


@every_class
def test_an_error_shows_message_and_facts(cls: type[LakehouseError]) -> None:
    """The text is the message alone; the repr adds kind and context."""
    error = cls("object 'a' is gone: list again", kind="not-found", key="a", offset=7)
    assert str(error) == "object 'a' is gone: list again"
    assert repr(error) == (
        f"{cls.__name__}(\"object 'a' is gone: list again\", kind='not-found', key='a', offset=7)"
    )


def same(left: LakehouseError, right: LakehouseError) -> bool:
    """Whether two errors say the same."""
    return (type(left), left.message, left.kind, left.context, left.args) == (
        type(right),
        right.message,
        right.kind,
        right.context,
        right.args,
    )


@every_class
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickle(cls: type[LakehouseError], protocol: int) -> None:
    """Class, message, kind, context and notes cross process borders."""
    error = cls("damaged block", kind="corruption", key="k", offset=3, expected=b"\x00", got=None)
    error.add_note("while compacting")
    back = pickle.loads(pickle.dumps(error, protocol))
    assert same(back, error)
    assert back.__notes__ == ["while compacting"]
    assert same(copy.deepcopy(error), error)


def test_a_fact_that_cannot_travel_becomes_text() -> None:
    """A context value that cannot be pickled does not stop the error; its repr travels."""
    lock = threading.Lock()
    back = pickle.loads(pickle.dumps(NotFoundError("gone", key="k", holder=lock)))
    assert back.context == {"key": "k", "holder": repr(lock)}


def test_a_kind_of_a_newer_release_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error sent by a newer release keeps its kind here."""
    monkeypatch.setitem(KINDS, "from-the-future", "unknown today")
    sent = pickle.dumps(NotFoundError("gone", kind="from-the-future"))
    monkeypatch.delitem(KINDS, "from-the-future")
    assert pickle.loads(sent).kind == "from-the-future"


def test_an_unknown_kind_is_refused() -> None:
    """A kind that is not registered is a mistake of the programmer and shows at once."""
    with pytest.raises(AssertionError, match="add it to lakehouse"):
        LakehouseError("x", kind="no-such-kind")


@pytest.mark.parametrize("builtin", [FileNotFoundError, OSError, LakehouseError])
def test_builtin_handlers_catch_ours(builtin: type[Exception]) -> None:
    """Code that knows only Python's own errors catches ours where the meaning is the same."""
    with pytest.raises(builtin, match="not there"):
        raise NotFoundError("not there", key="k")


def test_exports_are_the_tree_and_its_kinds() -> None:
    """The module exports every class of the tree, the kinds, and nothing else."""
    expected: set[Any] = {*PINNED_TREE, "KINDS"}
    assert set(errors.__all__) == expected
