"""Complaints: warnings that are bounded, and that tell no location where these are masked."""

from __future__ import annotations

from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.sql.system.complaints import Complaints


def test_no_more_than_a_thousand_are_kept() -> None:
    """However many tables cannot be read, the list of warnings has an end."""
    complaints = Complaints()
    for number in range(1_200):
        complaints.add("", ("db", f"t{number}"), "corruption", "broken")
    assert len(complaints.found) == 1_000


def test_masked_messages_say_their_kind_alone() -> None:
    """Messages may hold paths: where locations are masked, what their kind means takes their place."""
    complaints = Complaints(is_masked=True)
    complaints.add_error("", ("db", "t"), CorruptionError("secret/path: broken", key="secret/path"))
    assert "secret" not in str(complaints.found[0])
    assert complaints.found[0].kind == "corruption"


def test_a_table_that_was_dropped_meanwhile_is_no_complaint() -> None:
    """A table that is gone since it was listed is missing from nobody's rows."""
    complaints = Complaints()
    complaints.add_error("", ("db", "t"), NotFoundError("dropped", missing="table"))
    assert complaints.found == []
