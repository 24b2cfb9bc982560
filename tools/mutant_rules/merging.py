"""Rules of compaction and merge engines."""

from __future__ import annotations

from tools.mutant_rules.model import Mutant

__all__ = ["MERGING"]

_COMPACTION = "tests/storage/compact/test_executor.py"
_ENGINES = "tests/storage/merge/test_engines.py"
_FOLDING = "tests/models/test_folding_reads.py"

MERGING = (
    # --- compaction -------------------------------------------------------------------
    Mutant(
        rule="interval hull: compaction stands at its commit",
        path="lakehouse/storage/compact/run_merger.py",
        old="dataclasses.replace(entry, lo=lo, hi=hi)",
        new="entry",
        tests=(f"{_COMPACTION}::test_what_others_commit_meanwhile_stays_on_top",),
    ),
    Mutant(
        rule="gives way: compaction commits although its inputs are gone",
        path="lakehouse/storage/compact/executor.py",
        old="    if len(mine) != len(inputs):\n        return False\n",
        new="",
        tests=(f"{_COMPACTION}::test_a_compaction_gives_way_when_an_input_is_gone",),
    ),
    Mutant(
        rule="adjacency check: compaction is put around a run",
        path="lakehouse/storage/compact/executor.py",
        old="    if any(low <= hi and high >= lo for low, high in around):\n        return False\n",
        new="",
        tests=(f"{_COMPACTION}::test_a_compaction_gives_way_to_a_run_between_its_inputs",),
    ),
    Mutant(
        rule="deletions dropped too early: older rows have come back below",
        path="lakehouse/storage/compact/executor.py",
        old="    return not (task.bottom and any(high < lo for _, high in around))",
        new="    return True",
        tests=(f"{_COMPACTION}::test_a_compaction_gives_way_to_older_rows_of_keys_it_forgot",),
    ),
    Mutant(
        rule="deletions dropped too early: above older runs",
        path="lakehouse/storage/compact/plan.py",
        old="bottom=bottom and count == len(stretch)",
        new="bottom=True",
        tests=(f"{_COMPACTION}::test_deleted_keys_are_remembered_above_older_runs",),
    ),
    Mutant(
        rule="barriers: runs on both sides of a covered segment are merged",
        path="lakehouse/storage/compact/plan.py",
        old="        here = bisect.bisect_left(lows, interval(run[0])[0])\n",
        new="        here = 0\n",
        tests=("tests/storage/compact/test_plan.py::test_a_covered_segment_is_a_barrier",),
    ),
    # --- merge engines ----------------------------------------------------------------
    Mutant(
        rule="D∘U: operands behind a deletion are merged onto what is older",
        path="lakehouse/storage/merge/engines.py",
        old="    bases[of_rows == RowKind.DELETE] += 1\n",
        new="    bases[of_rows == RowKind.DELETE] = -1\n",
        tests=(f"{_ENGINES}::test_any_bracketing_gives_the_same_fold",),
    ),
    Mutant(
        rule="D∘U: a deletion below operands is forgotten when they are folded",
        path="lakehouse/storage/merge/engines.py",
        old="key_kinds = np.where(bases >= 0, RowKind.INSERT",
        new="key_kinds = np.where(of_rows[first] == RowKind.INSERT, RowKind.INSERT",
        tests=(f"{_ENGINES}::test_any_bracketing_gives_the_same_fold",),
    ),
    Mutant(
        rule="pruning: files that are folded with others are left out by their own rows",
        path="lakehouse/storage/scan/file_plan.py",
        old="verdict is not Verdict.SOME and any(other_run.overlap(entry) for other_run in others)",
        new="False",
        tests=(f"{_FOLDING}::test_scans_are_the_model",),
    ),
    Mutant(
        rule="lookups: an operand is taken for the row of its key",
        path="lakehouse/storage/scan/lookup.py",
        old="return hits.at if kinds is None else hits.at[kinds != RowKind.UPDATE]",
        new="return hits.at",
        tests=(f"{_FOLDING}::test_lookups_are_the_model",),
    ),
    Mutant(
        rule="writes: of several rows of a key in one input the last stays instead of their fold",
        path="lakehouse/storage/merge/engines.py",
        old="    if not engine.is_mergeable:\n        return rows\n    (keys,)",
        new="    return rows\n    (keys,)",
        tests=(f"{_ENGINES}::test_rows_of_one_input_are_folded_in_its_order",),
    ),
)
