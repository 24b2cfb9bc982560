"""No commit before the store has shown that it honours conditions.

A commit is a conditional put, and there are services that take the condition and ignore it: two writers
then both hear that they were first, and the rows of one are gone. So a store that may do this is asked
before the first conditional put of a process: a create of a key that is taken, and a replace of a version
that never was, must both be refused. What was found out is kept in the warehouse for seven days, where the
next process learns it with one read. A store that fails is read-only.

This shows that conditions are honoured one after the other. Whether two at once have one winner is found
out by races (:func:`lakehouse.io.proofs.check.check_store`).

Invariant: no conditional put passes :class:`ProvingStore` before the proof, and none after a refusal. A put
that asks the store carries the failure: a store that ignores its condition has thereby written down that it
does, and nobody ever reads that a proof holds which was not finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from lakehouse.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
    UnsupportedVersionError,
)
from lakehouse.format.metadata import PROOF_MS, Binding, ProofState, StoreProof, decode_proof, encode_proof
from lakehouse.ids import new_token
from lakehouse.io.decorators import StoreDecorator, find_layer
from lakehouse.io.protocols import Buffer, Fetched, Stored
from lakehouse.io.retry import Backoff, RetryPolicy
from lakehouse.io.retrying import RetryingStore
from lakehouse.io.store import ObjectStore
from lakehouse.io.work.absence import or_none
from lakehouse.log import get_logger

__all__ = ["ProvingStore", "gated", "lift_refusal", "ungated"]

_log = get_logger(__name__)

_NO_VERSION = '"00000000000000000000000000000000"'
"""A version that no object has."""
_NOT_IMPLEMENTED = 501
_ANOTHERS_CREATE = "a create (If-None-Match: *) of a key that was taken was accepted"
_ANOTHERS_REPLACE = "a replace (If-Match) of a version that never was, was accepted"


class ProvingStore(StoreDecorator):
    """Lets conditional puts pass once the store has shown that it honours conditions; outermost of the stack.

    Args:
        inner: the store; what is asked of it goes below its retries.
        policy: when to ask again a store that is away.
    """

    def __init__(self, inner: ObjectStore, policy: RetryPolicy | None = None) -> None:
        super().__init__(inner)
        self._policy = policy or RetryPolicy.of(inner.settings)
        retrying = find_layer(inner, RetryingStore)
        self._single = retrying.inner if retrying is not None else inner
        """Makes one attempt: an answer that is settled by reading back would hide what was ignored."""
        self._holds_until = float("-inf")
        """By the steady clock."""
        self._refusal: str | None = None
        self._turn = asyncio.Lock()
        self._has_begun = False

    # --- the gate -----------------------------------------------------------------

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        await self.prove()
        return await super().put_if_absent(key, data, token=token, timed=timed)

    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        await self.prove()
        return await super().put_if_match(key, data, version=version, token=token)

    def expect_commit(self, spawn: Callable[..., bool] | None = None) -> None:
        self._check()
        if spawn is not None and not self._has_begun and not self._holds():
            self._has_begun = spawn(self._prove_ahead, optional=True)

    async def _prove_ahead(self) -> None:
        """Proves beside other work; whoever commits is told what went wrong."""
        try:
            await self.prove()
        except LakehouseError as error:
            _log.debug("no proof yet", url=self.url, kind=error.kind)
        finally:
            self._has_begun = False

    async def prove(self) -> None:
        """Returns once conditional puts are known to be honoured.

        Raises:
            InvalidInputError: of kind ``unsafe-store``: they are not.
            UnavailableError: the store is away.
        """
        self._check()
        if self._holds():
            return
        async with self._turn:
            self._check()
            if not self._holds():
                await self._prove()

    async def withdraw(self, reason: str) -> None:
        """Ends the proof, here and for every process that begins later: a condition was ignored."""
        self._refusal = reason
        binding = await self._binding()
        proof = _proof(ProofState.FAILED, binding, self._policy.clock.now_ms(), reason)
        try:
            await self.inner.put(binding.key, encode_proof(proof))
        except LakehouseError as error:
            _log.warning("the proof could not be withdrawn for others", key=binding.key, error=str(error))

    async def lift(self) -> None:
        """Takes a refusal back, for a store that was mended: the next commit asks anew."""
        binding = await self._binding()
        kept = await self._kept(binding.key)
        proof = None if kept is None else _decoded(kept)
        if proof is not None and proof.state is ProofState.FAILED:
            await self.inner.delete(binding.key)
        self._refusal = None

    def _holds(self) -> bool:
        return self._policy.clock.steady() < self._holds_until

    def _check(self) -> None:
        can = self.capabilities
        can.check_writable(self.url)
        if not (can.put_if_absent and can.put_if_match):
            raise InvalidInputError(
                f"the store at {self.url} can be read, but not committed to: it has no conditional puts, so "
                "two writers could overwrite each other's commits. Keep tables at s3:// or file://.",
                kind="unsafe-store",
                url=self.url,
            )
        if self._refusal is not None:
            raise InvalidInputError(
                f"the store at {self.url} can be read, but not committed to: {self._refusal}. It ignores "
                "conditions, so two writers could overwrite each other's commits. Use a store, or a way to "
                "it, that honours them; `lakehouse check-store`, once it passes, lifts this refusal.",
                kind="unsafe-store",
                url=self.url,
            )

    # --- the proof ----------------------------------------------------------------

    async def _prove(self) -> None:
        binding = await self._binding()
        clock = self._policy.clock
        began = clock.steady()
        kept = await self._kept(binding.key)
        proof = None if kept is None else _decoded(kept)
        now_ms = _time_of(kept, clock.now_ms())
        if proof is not None and proof.state is ProofState.FAILED:
            self._refusal = f"{proof.reason} (says {binding.key})"
            self._check()
        left_ms = 0 if proof is None else proof.holds_for_ms(binding, now_ms)
        if not left_ms:
            version = kept.version if kept is not None else None
            if kept is None:
                begun = await self._asked(self._create(_proof(ProofState.BEGUN, binding, now_ms)))
                now_ms = _time_of(begun, now_ms)
                version = begun.version if begun is not None else None
            await self._ask(binding, now_ms)
            await self._keep(_proof(ProofState.HOLDS, binding, now_ms), version)
            left_ms = PROOF_MS
        self._holds_until = began + left_ms / 1000

    async def _ask(self, binding: Binding, now_ms: int) -> None:
        """Makes both puts that must be refused; an error when one was not."""
        create = _proof(ProofState.FAILED, binding, now_ms, _ANOTHERS_CREATE)
        replace = _proof(ProofState.FAILED, binding, now_ms, _ANOTHERS_REPLACE)
        if await self._asked(self._create(create, timed=False)) is not None:
            self._refusal = create.reason
        elif await self._asked(self._replace(replace, _NO_VERSION)) is not None:
            self._refusal = replace.reason
        self._check()

    async def _keep(self, proof: StoreProof, version: str | None) -> None:
        """Tells later processes; without a version somebody else is about to."""
        if version is None:
            return
        try:
            await self._replace(proof, version)()
        except LakehouseError as error:
            _log.info("the proof is not kept", key=proof.binding.key, kind=error.kind)

    def _create(self, proof: StoreProof, *, timed: bool = True) -> Callable[[], Awaitable[Stored]]:
        data, store = encode_proof(proof), self._single
        return lambda: store.put_if_absent(proof.binding.key, data, token=proof.token, timed=timed)

    def _replace(self, proof: StoreProof, version: str) -> Callable[[], Awaitable[Stored]]:
        data, store = encode_proof(proof), self._single
        return lambda: store.put_if_match(proof.binding.key, data, version=version, token=proof.token)

    async def _asked(self, put: Callable[[], Awaitable[Stored]]) -> Stored | None:
        """The receipt of a put; None when its condition was honoured.

        It is made again while the store is away: what one of these puts would do twice, it does once.
        """
        backoff: Backoff | None = None
        while True:
            try:
                return await put()
            except ConflictError:
                return None
            except NotFoundError as missing:
                if missing.kind == "missing-bucket":
                    raise
                return None
            except UnavailableError as error:
                if error.context.get("status") == _NOT_IMPLEMENTED:
                    self._refusal = "it does not know conditional puts (501 Not Implemented)"
                    self._check()
                backoff = backoff or Backoff(self._policy)
                if not await backoff.wait(error):
                    backoff.give_up(error)
                    raise

    async def _kept(self, key: str) -> Fetched | None:
        return await or_none(self.inner.get(key))

    async def _binding(self) -> Binding:
        return Binding(backend=self.url.partition("://")[0], endpoint=await self.endpoint(), root=self.url)

    async def aclose(self) -> None:
        await super().aclose()
        # It belongs to the loop it was first waited for on.
        self._turn = asyncio.Lock()
        self._has_begun = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Not what was found out: the process it travels to asks with one read.
        return type(self), (self.inner, self._policy)


def gated(store: ObjectStore, policy: RetryPolicy | None = None) -> ObjectStore:
    """The store, with a gate before its conditional puts unless it has one or is safe as it is built."""
    if store.capabilities.commit_proven or find_layer(store, ProvingStore) is not None:
        return store
    return ProvingStore(store, policy)


def ungated(store: ObjectStore) -> ObjectStore:
    """The store below its gate, for those who find out whether conditional puts are safe."""
    gate = find_layer(store, ProvingStore)
    return store if gate is None else gate.inner


async def lift_refusal(store: ObjectStore) -> None:
    """Lets commits ask a store anew that was refused; called when it has passed a check."""
    gate = find_layer(store, ProvingStore)
    if gate is not None:
        await gate.lift()


def _proof(state: ProofState, binding: Binding, now_ms: int, reason: str | None = None) -> StoreProof:
    return StoreProof(state=state, binding=binding, token=new_token(), time_ms=now_ms, reason=reason)


def _decoded(kept: Fetched) -> StoreProof | None:
    """The proof that was kept; None for a damaged one, which shows nothing."""
    try:
        return decode_proof(kept.data, key=kept.key)
    except UnsupportedVersionError:
        raise
    except FormatError as damaged:
        _log.warning("a damaged proof is made anew", key=kept.key, error=str(damaged))
        return None


def _time_of(answer: Fetched | Stored | None, now_ms: int) -> int:
    """When the store answered; this machine's time where it does not say."""
    return now_ms if answer is None or answer.store_time_ms is None else answer.store_time_ms
