"""Positions of streams, as checkpoints hold them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.spark.streaming.offsets import StreamOffset

_COUNT = st.one_of(st.none(), st.integers(0, 1 << 40))
_PLACES = st.builds(StreamOffset, at=st.text(min_size=1), state=_COUNT, step=_COUNT)


@given(place=_PLACES, begun=st.one_of(st.none(), _PLACES))
def test_round_trip(place: StreamOffset, begun: StreamOffset | None) -> None:
    """What a checkpoint holds is read back as the same position; the same text stands for the same one."""
    offset = StreamOffset(at=place.at, state=place.state, step=place.step, begun=begun)
    text = json.dumps(offset.to_json())
    assert StreamOffset.from_json(json.loads(text)) == offset
    assert json.dumps(StreamOffset.from_json(json.loads(text)).to_json()) == text
    assert offset.place == place


def test_before_the_beginning() -> None:
    """A stream that has not begun has a position too."""
    assert StreamOffset.from_json(StreamOffset().to_json()) == StreamOffset()


@pytest.mark.parametrize(
    "found", [{}, {"at": "x", "state": "many"}, {"at": "x", "begun": [1]}, {"offset": 3}]
)
def test_foreign_positions(found: dict[str, Any]) -> None:
    """The position of another source is refused."""
    with pytest.raises(InvalidInputError, match="another source"):
        StreamOffset.from_json(found)
