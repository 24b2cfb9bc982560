"""Decoders of payloads, registered for a payload type or a family of types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakehouse.catalog.engines.payload_types import PayloadType
from lakehouse.catalog.nodes import EngineHint
from lakehouse.errors import AlreadyExistsError, CorruptionError, NotFoundError

__all__ = ["HintDecoders"]

_Decoder = Callable[[bytes], Any]


class HintDecoders:
    """Decoders by family; the closest family of a payload's type reads it."""

    def __init__(self) -> None:
        self._decoders: dict[PayloadType, _Decoder] = {}

    @property
    def families(self) -> tuple[str, ...]:
        """Families that have a decoder, in order."""
        return tuple(sorted(map(str, self._decoders)))

    def register(self, family: str, decode: _Decoder, *, replace: bool = False) -> None:
        """Registers a decoder.

        Args:
            family: a payload type such as ``lakehouse.type+json``, or a beginning of types with their
                encoding: ``lakehouse+json`` is for all of ``lakehouse.….+json``.
            decode: makes a value of a payload; raises ValueError for one that is damaged.
            replace: whether it may take the place of another.
        """
        parsed = PayloadType.family(family)
        if parsed in self._decoders and not replace:
            raise AlreadyExistsError(
                f"payloads {family} have a decoder already: pass replace=True to put another in its place",
                family=family,
            )
        self._decoders[parsed] = decode

    def decode(self, hint: EngineHint) -> Any:
        """Returns what a hint's payload says."""
        for family in PayloadType.parse(hint.payload_type).families():
            decode = self._decoders.get(family)
            if decode is not None:
                return _decoded(decode, hint)
        known = f"there are decoders of {', '.join(self.families)}" if self._decoders else "there is none"
        raise NotFoundError(
            f"no decoder reads payloads {hint.payload_type}: register one; {known}",
            payload_type=hint.payload_type,
        )


def _decoded(decode: _Decoder, hint: EngineHint) -> Any:
    try:
        return decode(hint.payload)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CorruptionError(
            f"a payload {hint.payload_type} of {len(hint.payload):,} bytes cannot be read: {error!r}",
            key=hint.payload_type,
        ) from error
