"""Decoders of payloads by family."""

from __future__ import annotations

import json

import pytest

from lakehouse.catalog.hints import HintDecoders
from lakehouse.catalog.nodes import EngineHint
from lakehouse.errors import AlreadyExistsError, CorruptionError, InvalidInputError, NotFoundError


def _hint(payload_type: str, payload: bytes = b'{"a": 1}') -> EngineHint:
    return EngineHint(payload_type=payload_type, payload=payload)


def test_the_closest_family_decodes() -> None:
    """A payload is read by the decoder of its type, or else of the closest family with its encoding."""
    decoders = HintDecoders()
    decoders.register("lakehouse+json", lambda data: "family")
    decoders.register("lakehouse.type+json", json.loads)
    assert decoders.decode(_hint("lakehouse.type+json")) == {"a": 1}
    assert decoders.decode(_hint("lakehouse.other.thing+json")) == "family"
    assert decoders.families == ("lakehouse+json", "lakehouse.type+json")


@pytest.mark.parametrize("payload_type", ["lakehouse.type+proto", "lakehouse.type", "floe.type+json"])
def test_an_unknown_family_is_a_clear_error(payload_type: str) -> None:
    """A payload that no decoder is registered for is not guessed at; the error names those that are there."""
    decoders = HintDecoders()
    decoders.register("lakehouse+json", json.loads)
    with pytest.raises(NotFoundError, match=r"no decoder reads .* there are decoders of lakehouse\+json"):
        decoders.decode(_hint(payload_type))


def test_a_damaged_payload_is_corruption() -> None:
    """What a decoder cannot read is damage that names the payload type, whatever the decoder raised."""
    decoders = HintDecoders()
    decoders.register("x.y+json", lambda data: json.loads(data)["missing"])
    for payload in (b"{}", b"[1]", b"\xff", b"[" * 100_000):
        with pytest.raises(CorruptionError, match=r"x\.y\+json"):
            decoders.decode(_hint("x.y+json", payload))


def test_a_decoder_is_not_replaced_by_accident() -> None:
    """A family has one decoder; another takes its place only on request."""
    decoders = HintDecoders()
    decoders.register("x.y+json", json.loads)
    with pytest.raises(AlreadyExistsError, match="replace=True"):
        decoders.register("x.y+json", json.loads)
    decoders.register("x.y+json", lambda data: "new", replace=True)
    assert decoders.decode(_hint("x.y+json")) == "new"


def test_a_family_needs_a_namespace() -> None:
    """An encoding alone is no family: it would read everybody's payloads."""
    with pytest.raises(InvalidInputError, match="family"):
        HintDecoders().register("+json", json.loads)
