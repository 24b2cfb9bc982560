"""Proofs of conditional puts: bytes and values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, UnsupportedVersionError
from lakehouse.format.metadata.sealed_json import seal
from lakehouse.format.metadata.store_proof import Binding, ProofState, StoreProof, decode_proof, encode_proof
from tests.kit.blob_samples import flipped, spec_bytes

BINDING = Binding(backend="s3", endpoint="https://s3.eu-west-1.amazonaws.com", root="s3://bucket/warehouse")
PROOF = StoreProof(
    state=ProofState.HOLDS,
    binding=BINDING,
    token="0123456789abcdef0123456789abcdef",
    time_ms=1_760_000_000_000,
)


def test_the_example_of_the_specification_is_what_is_written() -> None:
    """The page shows the bytes of a proof, and its place follows from what it is bound to."""
    data = spec_bytes("store-proof.md", "proof")
    assert encode_proof(PROOF) == data
    assert decode_proof(data, key="p") == PROOF
    assert BINDING.key == "_lakehouse/proof-acbcc695205e41e7"


@given(
    st.sampled_from(ProofState),
    st.text(),
    st.text(),
    st.text(),
    st.integers(0, 253_402_300_799_999),
    st.none() | st.text(min_size=1),
)
def test_what_is_encoded_is_decoded(
    state: ProofState, backend: str, endpoint: str, root: str, time_ms: int, reason: str | None
) -> None:
    """Every proof survives its bytes."""
    binding = Binding(backend=backend, endpoint=endpoint, root=root)
    proof = StoreProof(state=state, binding=binding, token="t", time_ms=time_ms, reason=reason)
    assert decode_proof(encode_proof(proof), key="p") == proof


@given(st.integers(0, 8 * len(encode_proof(PROOF)) - 1))
def test_a_flipped_bit_is_damage(bit: int) -> None:
    """No damaged proof is taken for a sound one."""
    with pytest.raises(CorruptionError):
        decode_proof(flipped(encode_proof(PROOF), bit), key="p")


@pytest.mark.parametrize(
    "change",
    [
        {"state": "fine"},
        {"time_ms": "soon"},
        {"time_ms": True},
        {"endpoint": None},
        {"token": 7},
        {"reason": 1},
    ],
    ids=str,
)
def test_a_sound_checksum_over_other_members_is_damage(change: dict[str, object]) -> None:
    """Members of another kind are refused, whatever the checksum says."""
    members = json.loads(encode_proof(PROOF))
    del members["crc32c"]
    with pytest.raises(CorruptionError, match=f"^p: {next(iter(change))} "):
        decode_proof(seal({**members, **change}), key="p")


def test_a_newer_format_asks_for_an_upgrade() -> None:
    """A proof of a later release is not guessed at."""
    members = json.loads(encode_proof(PROOF))
    del members["crc32c"]
    with pytest.raises(UnsupportedVersionError):
        decode_proof(seal({**members, "format": 2}), key="p")
