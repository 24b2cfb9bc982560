"""Every error the engine raises, grouped by what the caller does about it.

::

    LakehouseError                 the root; carries ``kind`` and named context
    ├── ConflictError              reload, then try again
    │   └── FencedError            stop: another writer owns the table
    ├── CommitUnknownError         the outcome is not known: read back, then decide
    ├── NotFoundError              (also FileNotFoundError) it does not exist
    ├── AlreadyExistsError         (also FileExistsError) it exists already
    ├── InvalidInputError          (also ValueError) fix the call
    ├── UnavailableError           transient: try again if the operation is idempotent
    ├── FormatError                do not try again: the bytes are not what they should be
    │   ├── CorruptionError        damaged: has key, offset, expected and got
    │   └── UnsupportedVersionError  written by a newer release: upgrade
    ├── PermissionDeniedError      (also PermissionError) fix the credentials or the policy
    └── InternalError              our bug: please report it

A class exists only where a caller would act differently; everything finer is a
``kind``, a stable word from :data:`KINDS` (append-only). The message explains what went
wrong, where, and what to do; it is for people and may change. The context (key,
offset, expected, got, ...) is for programs: ``error.context["key"]``.

Every error survives ``pickle``, because Spark ships them between processes: a fact that
cannot be pickled travels as its ``repr``, and a kind from a newer release is kept.
"""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

__all__ = [
    "KINDS",
    "AlreadyExistsError",
    "CommitUnknownError",
    "ConflictError",
    "CorruptionError",
    "FencedError",
    "FormatError",
    "InternalError",
    "InvalidInputError",
    "LakehouseError",
    "NotFoundError",
    "PermissionDeniedError",
    "UnavailableError",
    "UnsupportedVersionError",
]

KINDS: dict[str, str] = {
    # Append only: programs compare these words. A kind is never renamed or removed.
    "acknowledged-lost": "an acknowledged object was overwritten or is gone: the store ignored a condition",
    "already-exists": "something of that name is there already",
    "ambiguous_name": "a name fits several objects: say which kind is meant, or use the id",
    "bad-credentials": "the store does not know the access key, or the signature is wrong",
    "clock-skew": "this machine's clock and the store's differ too much",
    "closed": "used after it was closed, or before it was opened",
    "commit-unknown": "whether the write was applied could not be found out",
    "conflict": "somebody else was first",
    "corruption": "stored bytes are damaged",
    "fenced": "a newer writer has taken over",
    "format": "stored bytes are not in the expected format",
    "internal": "a bug in lakehouse",
    "interrupted": "a statement was ended while somebody waited for it",
    "invalid-input": "an argument is not acceptable",
    "lost-race": "another writer's object stands where ours should",
    "missing-bucket": "the bucket does not exist",
    "missing-extra": "an optional package is not installed",
    "not-found": "nothing of that name is there",
    "object-changed": "the object was replaced between two reads",
    "out-of-memory": "a statement needs more memory or disk than its settings allow",
    "overloaded": "too much of this sort is waiting already",
    "overwritten": "our write may have been applied and then replaced by another's",
    "permission-denied": "the store refuses the operation for these credentials",
    "pin-conflict": "a query has pinned a table to another snapshot than is asked for",
    "position-expired": "the snapshot that changes were read up to is gone",
    "purged": "the objects of a dropped table are deleted, it cannot come back",
    "query-ended": "the query that pinned these snapshots has ended, or its lifetime is over",
    "throttled": "the store asks for fewer requests",
    "timeout": "no answer within the time allowed",
    "truncated-body": "the store sent fewer bytes than it announced",
    "unavailable": "the store does not answer, or answers with a server error",
    "unflushed": "rows to be taken away are in the write-ahead log and in no file yet",
    "unknown-setting": "there is no setting of that name",
    "unreachable": "no connection to the endpoint",
    "unsafe-store": "the store ignores conditional puts or has none: it can be read, not written to",
    "unsupported": "this store cannot do that",
    "unsupported-version": "written by a newer release",
    "wrong-loop": "used from another event loop than the one it was opened on",
    "wrong-process": "used after a fork in the child process",
    "wrong-region": "the bucket is in another region",
    "wrong-relation": "the name is that of a view where a table is wanted, or the other way round",
}


class LakehouseError(Exception):
    """Root of all errors raised by lakehouse.

    Args:
        message: what went wrong, where, and what to do; one paragraph for people.
        kind: a word from :data:`KINDS`; the class's own kind when not given.
        context: named facts for programs, such as ``key=`` or ``offset=``.
    """

    default_kind: ClassVar[str] = "internal"

    def __init__(self, message: str, *, kind: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or self.default_kind
        self.context = context
        if self.kind not in KINDS:
            raise AssertionError(f"unknown error kind {self.kind!r}: add it to lakehouse.errors.KINDS")

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        facts = "".join(f", {name}={value!r}" for name, value in self.context.items())
        return f"{type(self).__name__}({self.message!r}, kind={self.kind!r}{facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {name: _portable(value) for name, value in self.context.items()}
        notes = tuple(getattr(self, "__notes__", ()))
        return _rebuild, (type(self), self.message, self.kind, facts, notes)


def _portable(value: object) -> object:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001  a value's own __reduce__ may raise anything; the error must travel
        return repr(value)
    return value


def _rebuild(
    cls: type[LakehouseError], message: str, kind: str, context: dict[str, Any], notes: tuple[str, ...]
) -> LakehouseError:
    error = cls(message, **context)
    error.kind = kind  # not checked: the sender may be a newer release
    for note in notes:
        error.add_note(note)
    return error


class ConflictError(LakehouseError):
    """Another writer was first: reload what you read and try again."""

    default_kind = "conflict"


class FencedError(ConflictError):
    """Another writer has taken this table over: stop, do not try again."""

    default_kind = "fenced"


class CommitUnknownError(LakehouseError):
    """A write may or may not have been applied: read back before you decide anything."""

    default_kind = "commit-unknown"


class NotFoundError(LakehouseError, FileNotFoundError):
    """The named object, table, database or snapshot does not exist."""

    default_kind = "not-found"


class AlreadyExistsError(LakehouseError, FileExistsError):
    """An object, table or database of that name exists already."""

    default_kind = "already-exists"


class InvalidInputError(LakehouseError, ValueError):
    """The call itself is wrong: fix the argument the message names."""

    default_kind = "invalid-input"


class UnavailableError(LakehouseError):
    """The store does not answer now: try again later if the operation is idempotent."""

    default_kind = "unavailable"


class FormatError(LakehouseError):
    """Stored bytes are not what they should be: trying again will not help."""

    default_kind = "format"


class CorruptionError(FormatError):
    """Stored bytes are damaged; the context has key, offset, expected and got."""

    default_kind = "corruption"


class UnsupportedVersionError(FormatError):
    """Written by a newer release of lakehouse: upgrade this one to read it."""

    default_kind = "unsupported-version"


class PermissionDeniedError(LakehouseError, PermissionError):
    """The store refuses these credentials: fix them, the clock or the policy."""

    default_kind = "permission-denied"


class InternalError(LakehouseError):
    """A bug in lakehouse: please report it with the message."""

    default_kind = "internal"
