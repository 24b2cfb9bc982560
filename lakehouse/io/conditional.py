"""Conditional puts whose outcome is known: the lost-acknowledgement rule.

A conditional put is not idempotent: when the answer to an applied put is lost, sending it
again fails its own precondition and looks like another's success. So every logical write
carries a token, and **every answer but success is read back** before anything is said or
done, whatever the answer was (412, 409, 403, 503, time-out, reset):

=========================  ==========================================================
the object now is          then
=========================  ==========================================================
ours (by token or bytes)   the write succeeded
another's                  ConflictError ``lost-race``; carries ``winner``
not there / unchanged      not applied: the same bytes again, same key and token
unreadable                 CommitUnknownError (the refusal itself, where it was certain)
=========================  ==========================================================

A refusal is certain when the store decided (409, 403, 404: nothing was applied) or no
connection was made. A 412 is not: it may be our own first copy that stands in the way.

"Unchanged" and "another's" need one more thought for replacing puts: when an attempt may
have been applied, and the object is now neither what we expected nor ours, somebody may
have replaced *our* version. That is CommitUnknownError ``overwritten``, because saying
"conflict" would make a counter count twice. A create has no such case as long as nobody
replaces what was created, as in a commit log. Where a created key is replaced later (a
name pointer), whoever loses a create looks into ``winner`` for what it wrote itself.

A put that timed out may still land later. Hence the same key and token on every attempt,
and when attempts end while the object is absent and some attempt was never answered, the
outcome is unknown, not failed.

The decision is :func:`judge`, a pure function; :func:`put_decisively` does what it says.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Protocol, Self

from lakehouse.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io.protocols import Buffer, Fetched, Gets, PutsIf, Stored
from lakehouse.io.retry import Backoff, Contact, RetryPolicy

__all__ = ["Attempt", "PutFate", "PutsAndGets", "judge", "put_decisively"]

_CONFLICTING_OPERATION = 409
"""S3 met another operation on the key under way, did nothing, and asks to try again."""
_GATEWAY_GAVE_UP = (502, 504)
"""Said by something in between, while the store itself may still be at it."""


class PutFate(enum.Enum):
    """Verdict on our write, from the object as it is now."""

    OURS = "ours"
    LOST = "lost"
    NOT_APPLIED = "not applied"
    OVERWRITTEN = "overwritten"
    GONE = "gone"
    ALIKE = "alike"
    """The bytes that we would create are there, and nothing says who wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One logical write and what is known of its attempts so far."""

    key: str
    data: Buffer
    token: str
    expected: str | None
    """Version to replace; None = create."""
    maybe_applied: bool = False
    """Some attempt got no answer, or one that leaves it open (5xx)."""
    may_land: bool = False
    """Some attempt got no answer: the store may apply it even later."""

    def after(self, error: LakehouseError) -> Self:
        """Returns what is known of the write once an attempt ended with this error."""
        if isinstance(error, ConflictError) or _is_certain(error):
            return self
        answered = error.context.get("status") not in (None, *_GATEWAY_GAVE_UP)
        return dataclasses.replace(self, maybe_applied=True, may_land=self.may_land or not answered)


def judge(attempt: Attempt, seen: Fetched | None) -> PutFate:
    """Judges our write by the object that was read back; None = it is not there."""
    if seen is not None and _is_ours(attempt, seen):
        return PutFate.OURS
    if attempt.expected is None:
        if seen is None:
            return PutFate.NOT_APPLIED
        alike = seen.token is None and seen.data == attempt.data
        return PutFate.ALIKE if alike and attempt.maybe_applied else PutFate.LOST
    if seen is not None and seen.version == attempt.expected:
        return PutFate.NOT_APPLIED
    if attempt.maybe_applied:
        return PutFate.OVERWRITTEN
    return PutFate.GONE if seen is None else PutFate.LOST


def _is_ours(attempt: Attempt, seen: Fetched) -> bool:
    if seen.token is not None:
        return seen.token == attempt.token
    # The store keeps no tokens. Objects of a commit protocol carry one in their bytes.
    return seen.data == attempt.data and attempt.token.encode() in seen.data


def _is_certain(error: LakehouseError) -> bool:
    """Whether the error says that this attempt was not applied and never will be."""
    if error.kind == "unreachable" or error.context.get("status") == _CONFLICTING_OPERATION:
        return True
    return isinstance(error, InvalidInputError | NotFoundError | PermissionDeniedError)


class PutsAndGets(PutsIf, Gets, Protocol):
    """Store with the verbs that a decisive put needs."""


async def put_decisively(
    store: PutsAndGets,
    key: str,
    data: Buffer,
    *,
    token: str,
    expected: str | None,
    policy: RetryPolicy,
    contact: Contact | None = None,
    timed: bool = True,
) -> Stored:
    """Creates (``expected`` None) or replaces the object; the answer is final.

    ``timed`` is for creates: whether the receipt has to say when the store answered. ``contact`` says whether
    the store has ever answered; None = it has.

    Raises:
        ConflictError: another's object stands there; ``context["winner"]`` is what was read.
        CommitUnknownError: whether our write was applied could not be found out.
        UnavailableError: it was not applied, and the store would not take it in time.
        PermissionDeniedError, InvalidInputError, NotFoundError: it was refused.
    """
    attempt = Attempt(key=key, data=data, token=token, expected=expected)
    backoff: Backoff | None = None
    contact = contact or Contact(has_answered=True)
    while True:
        try:
            if expected is None:
                stored = await store.put_if_absent(key, data, token=token, timed=timed)
            else:
                stored = await store.put_if_match(key, data, version=expected, token=token)
        except LakehouseError as refusal:
            error = refusal
        else:
            contact.hear(None)
            return stored
        contact.hear(error)
        backoff = backoff or Backoff(policy, contact)
        attempt = attempt.after(error)
        if isinstance(error, InvalidInputError) and not attempt.maybe_applied:
            raise error
        verdict, seen = PutFate.NOT_APPLIED, None
        if attempt.maybe_applied or error.kind != "unreachable":  # else nothing was ever sent
            seen = await _read_back(store, attempt, error, Backoff(policy, contact))
            verdict = judge(attempt, seen)
        if verdict is PutFate.OURS:
            assert seen is not None
            return Stored(key=key, size=seen.size, version=seen.version, store_time_ms=seen.store_time_ms)
        if verdict is not PutFate.NOT_APPLIED:
            raise _failure(verdict, attempt, seen) from error
        # Not applied. Worth another attempt when the store may take it now: it was away, or
        # refused for something that is no longer there (409, or a 412 for an object since deleted).
        if not isinstance(error, UnavailableError | ConflictError) or not await backoff.wait(error):
            backoff.give_up(error)
            if attempt.may_land:
                raise _unknown(
                    attempt, "attempts ended without an answer, and it may still be applied"
                ) from error
            raise error


async def _read_back(
    store: PutsAndGets, attempt: Attempt, error: LakehouseError, backoff: Backoff
) -> Fetched | None:
    """The object as it is now; None when there is none. Waits begin anew: what is known depends on it."""
    while True:
        try:
            return await store.get(attempt.key)
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            return None
        except LakehouseError as unreadable:
            if isinstance(unreadable, UnavailableError) and await backoff.wait(unreadable):
                continue
            backoff.give_up(unreadable)
            if _is_certain(error) and not attempt.maybe_applied:
                raise error from unreadable
            raise _unknown(attempt, f"reading it back failed: {unreadable}") from unreadable


def _unknown(attempt: Attempt, why: str, kind: str = "commit-unknown") -> CommitUnknownError:
    return CommitUnknownError(
        f"it is not known whether the write of {attempt.key!r} was applied: {why}. "
        f"Read the object and look for token {attempt.token} before you decide anything.",
        kind=kind,
        key=attempt.key,
        token=attempt.token,
    )


def _failure(verdict: PutFate, attempt: Attempt, seen: Fetched | None) -> LakehouseError:
    if verdict is PutFate.OVERWRITTEN:
        why = "an attempt got no answer, and the object is now neither what was expected nor ours"
        return _unknown(attempt, why, kind="overwritten")
    if verdict is PutFate.ALIKE:
        return _unknown(attempt, "the same bytes stand there, and the store does not say who wrote them")
    if verdict is PutFate.GONE:
        return NotFoundError(
            f"{attempt.key!r} is gone, so its version {attempt.expected} cannot be replaced", key=attempt.key
        )
    what = "exists already" if attempt.expected is None else f"is no longer version {attempt.expected}"
    return ConflictError(
        f"{attempt.key!r} {what}: another writer was first. Read it, then decide again.",
        kind="lost-race",
        key=attempt.key,
        winner=seen,
    )
