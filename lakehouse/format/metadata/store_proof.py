"""The object that says whether a store has honoured conditional puts; see ``docs/spec/v1/store-proof.md``.

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
"""Beginning of the keys of proofs, from the warehouse's root."""
PROOF_MS = 7 * 24 * 3600 * 1000
"""How long a proof counts, by the store's clock."""

_DIGITS = 16


class ProofState(enum.StrEnum):
    """Knowledge about the store."""

    BEGUN = "begun"
    """Nothing: somebody has begun to find out."""
    HOLDS = "holds"
    """A create of a key that was taken and a replace of another version were both refused."""
    FAILED = "failed"
    """A condition was ignored: nobody commits until somebody lifts this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The way to a warehouse that a proof is of."""

    backend: str
    """Scheme of the warehouse's URL, such as ``s3``."""
    endpoint: str
    """URL of the service, without credentials."""
    root: str
    """URL of the warehouse."""

    @property
    def key(self) -> str:
        """Where its proof lies, from the warehouse's root."""
        text = "\n".join((self.backend, self.endpoint, self.root))
        return PROOF_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProof:
    """Findings of one process about the store."""

    state: ProofState
    binding: Binding
    token: str
    """Token of the write that made this version."""
    time_ms: int
    """When it was found out, by the store's clock as far as it was known."""
    reason: str | None = None
    """Which condition was ignored, for people; None unless it failed."""

    def holds_for_ms(self, binding: Binding, now_ms: int) -> int:
        """For how much longer it shows that this way to the warehouse is safe; 0 = it does not."""
        if self.state is not ProofState.HOLDS or self.binding != binding:
            return 0
        # A time ahead of the clock must not make it count for longer.
        return max(0, min(PROOF_MS, self.time_ms + PROOF_MS - now_ms))


def encode_proof(proof: StoreProof) -> bytes:
    """The bytes of the object."""
    return _PROOF.encode(proof)


def decode_proof(data: bytes, *, key: str) -> StoreProof:
    """The proof in an object; ``key`` is named in errors."""
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


def _from_members(found: JsonObject) -> StoreProof:
    return StoreProof(
        state=found.read("state", ProofState),
        binding=Binding(
            backend=found.read("backend", text),
            endpoint=found.read("endpoint", text),
            root=found.read("root", text),
        ),
        token=found.read("token", text),
        time_ms=found.read("time_ms", moment),
        reason=found.read("reason", optional(text)),
    )


_PROOF = SealedFormat(what="proof of conditional puts", to_json=_to_members, from_json=_from_members)
