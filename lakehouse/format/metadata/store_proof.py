"""Proof of conditional puts: an object that records whether a store honours them.

The specification is ``docs/spec/v1/store-proof.md``.

Invariant: a proof counts for one way to one place only: the kind of backend, the endpoint and the root that
it names. It lies under a key made of these three, so that a copy of a warehouse elsewhere finds none.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import Any

from lakehouse.format.limits.json_object import JsonObject, moment, optional, text
from lakehouse.format.metadata.sealed_json import SealedFormat

__all__ = [
    "PROOF_MS",
    "PROOF_PREFIX",
    "Binding",
    "ProofState",
    "StoreProof",
    "decode_proof",
    "encode_proof",
]

PROOF_PREFIX = "_lakehouse/proof-"
"""Prefix of the keys of proofs, relative to the warehouse's root."""
PROOF_MS = 7 * 24 * 3600 * 1000
"""Milliseconds for which a proof counts, by the store's clock."""

_DIGITS = 16


class ProofState(enum.StrEnum):
    """Result of the test of a store."""

    BEGUN = "begun"
    """No result yet: a process has begun the test."""
    HOLDS = "holds"
    """A create of a key that was taken and a replace of another version were both refused."""
    FAILED = "failed"
    """A condition was ignored: commits are refused until somebody lifts this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The way to a warehouse for which a proof counts."""

    backend: str
    """Scheme of the warehouse's URL, such as ``s3``."""
    endpoint: str
    """URL of the service, without credentials."""
    root: str
    """URL of the warehouse."""

    @property
    def key(self) -> str:
        """Key of its proof, relative to the warehouse's root."""
        text = "\n".join((self.backend, self.endpoint, self.root))
        return PROOF_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProof:
    """Result of one process's test of the store."""

    state: ProofState
    binding: Binding
    token: str
    """Token of the write that made this version."""
    time_ms: int
    """Time of the test in milliseconds since 1970, by the store's clock if that was known."""
    reason: str | None = None
    """The condition that was ignored, for people; None unless the test failed."""

    def holds_for_ms(self, binding: Binding, now_ms: int) -> int:
        """Returns the milliseconds for which this way to the warehouse is still proven safe, or 0."""
        if self.state is not ProofState.HOLDS or self.binding != binding:
            return 0
        # A time ahead of the clock must not make it count for longer.
        return max(0, min(PROOF_MS, self.time_ms + PROOF_MS - now_ms))


def encode_proof(proof: StoreProof) -> bytes:
    """Encodes the object."""
    return _PROOF.encode(proof)


def decode_proof(data: bytes, *, key: str) -> StoreProof:
    """Decodes the object; ``key`` is named in errors."""
    return _PROOF.decode(data, key=key)


def _to_members(proof: StoreProof) -> dict[str, Any]:
    return {
        "state": proof.state.value,
        "backend": proof.binding.backend,
        "endpoint": proof.binding.endpoint,
        "root": proof.binding.root,
        "token": proof.token,
        "time_ms": proof.time_ms,
        "reason": proof.reason,
    }


def _from_members(members: JsonObject) -> StoreProof:
    return StoreProof(
        state=members.read("state", ProofState),
        binding=Binding(
            backend=members.read("backend", text),
            endpoint=members.read("endpoint", text),
            root=members.read("root", text),
        ),
        token=members.read("token", text),
        time_ms=members.read("time_ms", moment),
        reason=members.read("reason", optional(text)),
    )


_PROOF = SealedFormat(what="proof of conditional puts", to_json=_to_members, from_json=_from_members)
