"""Configuration of fulltext indexes: the blob property ``fulltext_config``.

::

    {"analyzer":"English","case_sensitive":false}
    {"analyzer":"English","case_sensitive":false,"granularity":10240,"false_positive_rate":0.01}

The first form is GreptimeDB's, byte for byte; both keys are mandatory there. The second is
ours: bloom indexes of our tables record how they were built, and GreptimeDB ignores the two
keys it does not know. A blob without the property, from before 2025-03-26, is English and
not case sensitive.

Invariant: ``FulltextConfig.parse(config.encode()) == config``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from lakehouse.errors import FormatError, InvalidInputError

__all__ = ["FULLTEXT_CONFIG", "GRANULARITY", "Analyzer", "FulltextConfig"]

FULLTEXT_CONFIG = "fulltext_config"
"""Blob property that holds the configuration, as JSON text."""
GRANULARITY = 10_240
"""Default number of rows of a segment of a bloom index."""
_TEXT_MAX = 1 << 16
"""Maximum characters of a property that is parsed; a real one has some hundred."""


class Analyzer(StrEnum):
    """Analyzer, which cuts text into tokens; stored by value."""

    ENGLISH = "English"
    CHINESE = "Chinese"


@dataclass(frozen=True, slots=True, kw_only=True)
class FulltextConfig:
    """Configuration with which a fulltext index was built."""

    analyzer: Analyzer = Analyzer.ENGLISH
    case_sensitive: bool = False
    """True if tokens keep their case; False = they are lower-cased before they are indexed and sought."""
    granularity: int | None = None
    """Rows of a segment of a bloom index; None = not stated here."""
    false_positive_rate: float | None = None
    """False positive rate of a bloom index, above 0 and at most 1; None = not stated here."""

    def __post_init__(self) -> None:
        """Refuses numbers that are out of range."""
        if self.granularity is not None and self.granularity < 1:
            raise InvalidInputError(f"granularity must be at least 1 row, not {self.granularity}")
        if self.false_positive_rate is not None and not 0 < self.false_positive_rate <= 1:
            raise InvalidInputError(
                f"false_positive_rate must be above 0 and at most 1, not {self.false_positive_rate}"
            )

    def encode(self) -> str:
        """Returns the property's text; keys without a value are left out."""
        fields: dict[str, object] = {
            "analyzer": self.analyzer.value,
            "case_sensitive": self.case_sensitive,
            "granularity": self.granularity,
            "false_positive_rate": self.false_positive_rate,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(given, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Parses the configuration in a property; None, a missing property, gives the default.

        The analyzer may be written in any case. Unknown keys are ignored.
        """
        if text is None:
            return cls()
        values = _json_object(text)
        analyzer, case_sensitive = values.get("analyzer"), values.get("case_sensitive")
        known = {kind.lower(): kind for kind in Analyzer}
        if not isinstance(analyzer, str) or analyzer.lower() not in known:
            raise _config_error("analyzer", "English or Chinese", analyzer)
        if not isinstance(case_sensitive, bool):
            raise _config_error("case_sensitive", "true or false", case_sensitive)
        return cls(
            analyzer=known[analyzer.lower()],
            case_sensitive=case_sensitive,
            granularity=_granularity(values.get("granularity")),
            false_positive_rate=_rate(values.get("false_positive_rate")),
        )


def _json_object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text) if len(text) <= _TEXT_MAX else None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{FULLTEXT_CONFIG} is not JSON: {text[:200]!r}", got=text[:200]) from error
    if not isinstance(values, dict):
        raise FormatError(f"{FULLTEXT_CONFIG} is not a JSON object: {text[:200]!r}", got=text[:200])
    return values


def _granularity(value: object) -> int | None:
    if value is None:
        return None
    # JSON's true and false are ints in Python.
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 63:
        raise _config_error("granularity", "a number of rows", value)
    return value


def _rate(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise _config_error("false_positive_rate", "a number above 0 and at most 1", value)
    return float(value)


def _config_error(name: str, expected: str, got: object) -> FormatError:
    shown = repr(got)[:200]
    return FormatError(
        f"{FULLTEXT_CONFIG} has {name} {shown}: expected {expected}", expected=expected, got=shown
    )
