"""Rules of the proof that a store honours conditions."""

from __future__ import annotations

from tools.mutant_rules.model import Mutant

__all__ = ["PROOFS"]

_PROOF = "tests/io/proofs/test_proof.py"
_RECHECK = "tests/storage/tables/test_recheck.py"
_GATE = "lakehouse/io/proofs/proof.py"

PROOFS = (
    Mutant(
        rule="proof: creates are sent before the store has shown that it honours conditions",
        path=_GATE,
        old="        await self.prove()\n        return await super().put_if_absent(",
        new="        return await super().put_if_absent(",
        tests=(f"{_PROOF}::test_a_store_that_ignores_a_condition_is_read_only",),
    ),
    Mutant(
        rule="proof: replaces are sent before the store has shown that it honours conditions",
        path=_GATE,
        old="        await self.prove()\n        return await super().put_if_match(",
        new="        return await super().put_if_match(",
        tests=(f"{_PROOF}::test_a_store_that_ignores_a_condition_is_read_only",),
    ),
    Mutant(
        rule="proof: nobody asks whether a replace of another version is refused",
        path=_GATE,
        old="        elif await self._asked(self._replace(replace, _NO_VERSION)) is not None:",
        new="        elif False:",
        tests=(f"{_PROOF}::test_a_store_that_ignores_a_condition_is_read_only",),
    ),
    Mutant(
        rule="proof: a proof that was only begun says that it holds",
        path=_GATE,
        old="self._create(_proof(ProofState.BEGUN, binding, now_ms))",
        new="self._create(_proof(ProofState.HOLDS, binding, now_ms))",
        tests=(f"{_PROOF}::test_no_process_believes_a_proof_that_is_not_finished",),
    ),
    Mutant(
        rule="proof: a question that is accepted leaves no mark for others",
        path=_GATE,
        old="        create = _proof(ProofState.FAILED,",
        new="        create = _proof(ProofState.BEGUN,",
        tests=(f"{_PROOF}::test_a_failure_is_kept_for_the_next_process",),
    ),
    Mutant(
        rule="proof: a failure that was kept is asked about again",
        path=_GATE,
        old="        if proof is not None and proof.state is ProofState.FAILED:\n            self._refusal",
        new="        if False:\n            self._refusal",
        tests=(f"{_PROOF}::test_a_withdrawn_proof_stops_this_process_and_later_ones",),
    ),
    Mutant(
        rule="proof: one way to a place is believed for what another has shown",
        path="lakehouse/format/metadata/store_proof.py",
        old="if self.state is not ProofState.HOLDS or self.binding != binding:",
        new="if self.state is not ProofState.HOLDS:",
        tests=(f"{_PROOF}::test_what_does_not_count_is_made_anew",),
    ),
    Mutant(
        rule="proof: a proof has no end",
        path="lakehouse/format/metadata/store_proof.py",
        old="        return max(0, min(PROOF_MS, self.time_ms + PROOF_MS - now_ms))",
        new="        return PROOF_MS",
        tests=(f"{_PROOF}::test_what_does_not_count_is_made_anew",),
    ),
    Mutant(
        rule="proof: a store that is away is taken for one that refused",
        path=_GATE,
        old="                if not await backoff.wait(error):\n                    backoff.give_up(error)\n",
        new="                if not await backoff.wait(error):\n                    return None\n",
        tests=(f"{_PROOF}::test_a_store_that_stays_away_is_unavailable_not_unsafe",),
    ),
    # --- what was acknowledged and is lost ------------------------------------------
    Mutant(
        rule="acknowledged: another's object under an own number is taken for one's own",
        path="lakehouse/storage/metadata/acknowledged.py",
        old="        if mine is not None and mine.version != version and mine.token != token:\n",
        new="        if False:\n",
        tests=(f"{_RECHECK}::test_an_overwritten_snapshot_is_reported_at_the_end",),
    ),
    Mutant(
        rule="acknowledged: a snapshot that builds on another's in the place of one's own says nothing",
        path="lakehouse/storage/metadata/acknowledged.py",
        old="        self._is_torn |= before != parent\n",
        new="",
        tests=(f"{_RECHECK}::test_who_is_not_built_upon_reports_its_own_loss",),
    ),
    Mutant(
        rule="acknowledged: a snapshot that stands, and that no later one descends from, counts as kept",
        path="lakehouse/storage/metadata/acknowledged.py",
        old="        return last in heirs\n",
        new="        return True\n",
        tests=(f"{_RECHECK}::test_who_stands_and_is_not_descended_from_reports_its_loss",),
    ),
    Mutant(
        rule="acknowledged: an own object that is gone is missed by nobody",
        path="lakehouse/storage/tables/recheck.py",
        old="                ours.saw_nothing(number)",
        new="                pass",
        tests=(f"{_RECHECK}::test_a_snapshot_that_is_gone_is_reported",),
    ),
    Mutant(
        rule="acknowledged: what expired is missed",
        path="lakehouse/storage/tables/recheck.py",
        old="    return number < head.earliest",
        new="    return False",
        tests=(f"{_RECHECK}::test_what_expired_or_was_flushed_or_purged_is_not_lost",),
    ),
    Mutant(
        rule="acknowledged: nobody looks when the connection is closed",
        path="lakehouse/lake/lake.py",
        old="            stack.push_async_callback(self._state.env.recheck)\n",
        new="",
        tests=(f"{_RECHECK}::test_an_overwritten_snapshot_is_reported_at_the_end",),
    ),
    Mutant(
        rule="acknowledged: who found a loss goes on writing",
        path="lakehouse/storage/tables/recheck.py",
        old="        if self._error is not None:\n            raise self._error\n",
        new="        return\n",
        tests=(f"{_RECHECK}::test_nothing_more_is_written_and_the_proof_is_withdrawn",),
    ),
    Mutant(
        rule="acknowledged: who found a loss keeps the proof for others",
        path="lakehouse/storage/tables/recheck.py",
        old="        await self._store.withdraw(reason)\n",
        new="",
        tests=(f"{_RECHECK}::test_nothing_more_is_written_and_the_proof_is_withdrawn",),
    ),
)
