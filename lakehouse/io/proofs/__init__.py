"""Proof that a store honours conditions: tried out, recorded in the store, asked for before a commit.

Words: *check* (all questions about a store) → *race* (many writers for one key) → *tally* (who won, and
whether the winner's object stands). A *proof* is the record that a check was passed; the *gate* lets no
commit through without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.io.proofs.check import CheckResult, StoreReport, check_store
    from lakehouse.io.proofs.proof import gated
    from lakehouse.io.proofs.races import RaceTally, TallyCount

__all__ = [
    "CheckResult", "RaceTally", "StoreReport", "TallyCount", "check_store", "gated",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "check": "CheckResult StoreReport check_store",
        "proof": "gated",
        "races": "RaceTally TallyCount",
    },
)
