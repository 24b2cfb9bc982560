"""Takes one rule at a time out of the table protocol and sees that a named test fails.

A rule whose test cannot fail is no rule. Each mutant is a change of a line or two in a copy of the
repository; the tests named with it must pass before the change and fail after it. ``make mutants`` runs
all of them; a text after the command (``python tools/mutants.py deadline``) those whose rule contains it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("lakehouse", "tests", "tools", "benchmarks", "examples", "docs", "pyproject.toml")
TIMEOUT_S = 900
COMMIT = "tests/storage/test_commit.py"
COMPACTION = "tests/storage/test_compaction.py"
CUTS = "tests/storage/test_table_cut_points.py"
DAMAGE = "tests/storage/test_table_damage.py"
EVOLVING = "tests/storage/test_evolving_tables.py"
ENGINES = "tests/storage/test_merge_engines.py"
EXPIRE = "tests/storage/test_expire.py"
FOLDING = "tests/storage/test_folding_reads.py"
MAINTENANCE_CUTS = "tests/storage/test_maintenance_cut_points.py"
ORPHANS = "tests/storage/test_orphans.py"
RESCALE = "tests/storage/test_rescale.py"
NAMES = "tests/storage/test_names.py"
OVERWRITE = "tests/storage/test_overwrite.py"
SERIAL = "tests/storage/test_serial_commits.py"
APPEND = "tests/storage/test_wal_append.py"
ENDS = "tests/storage/test_writer_ends.py"
FLUSH = "tests/storage/test_flush.py"
INDEXES = "tests/storage/test_table_indexes.py"
INDEX_READS = "tests/storage/test_index_reads.py"
LOG = "tests/storage/test_wal.py"
REAL_TIME = "tests/storage/test_real_time_order.py"
REBUILD = "tests/storage/test_index_rebuild.py"
WRITER = "tests/storage/test_writer.py"
STORES = "tests/conformance/test_s3.py::TestMinio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule left out."""

    rule: str
    """The rule, and what happens instead."""
    path: str
    """File that is changed."""
    old: str
    """Text that stands there once."""
    new: str
    """Text in its place."""
    tests: tuple[str, ...]
    """Node ids, of which at least one must fail."""


MUTANTS = (
    # --- one winner -------------------------------------------------------------------
    Mutant(
        rule="If-None-Match: creates replace what is there",
        path="lakehouse/io/backends/s3.py",
        old='return await self._put("put_if_absent", key, data, token, IfNoneMatch="*")',
        new='return await self._put("put_if_absent", key, data, token)',
        tests=(
            f"{STORES}::test_create_refuses_a_taken_key",
            f"{STORES}::test_racing_creates_have_one_winner",
        ),
    ),
    Mutant(
        rule="read-back: the answer to a create is believed",
        path="lakehouse/io/conditional.py",
        old="            seen = await _read_back(store, attempt, error, policy)\n",
        new="            raise error\n",
        tests=(
            f"{COMMIT}::test_every_cut_point_of_a_commit",
            f"{CUTS}::test_every_cut_point_of_a_call[append-contended]",
        ),
    ),
    Mutant(
        rule="read-back on anything but 412: only a conflict is read back",
        path="lakehouse/io/conditional.py",
        old="            seen = await _read_back(store, attempt, error, policy)\n",
        new="            if not isinstance(error, ConflictError):\n                raise error\n"
        "            seen = await _read_back(store, attempt, error, policy)\n",
        tests=(
            f"{COMMIT}::test_every_cut_point_of_a_commit",
            f"{CUTS}::test_every_cut_point_of_a_call[append-contended]",
        ),
    ),
    Mutant(
        rule="names: whoever comes last has the name",
        path="lakehouse/storage/names.py",
        old="            await self._store.put_if_absent(key, data, token=pointer.token)\n",
        new="            await self._store.put(key, data)\n",
        tests=(f"{CUTS}::test_two_tables_raced_into_one_name", f"{NAMES}::test_one_of_many_gets_a_name"),
    ),
    # --- deadline ---------------------------------------------------------------------
    Mutant(
        rule="deadline: a commit is sent on old knowledge",
        path="lakehouse/storage/commit.py",
        old="        if self._clock.steady() - head.seen_at > self._history.deadline_s:\n"
        "            # Nothing",
        new="        if False:\n            # Nothing",
        tests=(f"{COMMIT}::test_no_commit_is_sent_on_old_knowledge",),
    ),
    Mutant(
        rule="deadline: a late answer is believed",
        path="lakehouse/storage/commit.py",
        old="        if self._clock.steady() - head.seen_at > self._history.deadline_s:\n"
        "            self._history.forget()\n            return await self._settle_late",
        new="        if False:\n"
        "            self._history.forget()\n            return await self._settle_late",
        tests=(
            f"{COMMIT}::test_a_late_answer_is_not_believed",
            f"{CUTS}::test_a_call_that_wakes_up_after_expiry_tells_the_truth",
        ),
    ),
    Mutant(
        rule="deadline: a lost race makes knowledge younger",
        path="lakehouse/storage/commit.py",
        old="            return self._history.note(self._history.decoded(winner), head.seen_at)",
        new="            return self._history.note(self._history.decoded(winner), began)",
        tests=(f"{COMMIT}::test_the_deadline_counts_from_the_head_and_not_from_a_lost_race",),
    ),
    Mutant(
        rule="deadline: 'there is no next one' is believed whatever the age of what is known",
        path="lakehouse/storage/history.py",
        old="        if known is None or began - known.seen_at >= self.deadline_s:",
        new="        if known is None:",
        tests=(f"{CUTS}::test_a_call_that_wakes_up_after_expiry_tells_the_truth",),
    ),
    # --- deletion ---------------------------------------------------------------------
    Mutant(
        rule="horizon check: old uploads are committed",
        path="lakehouse/storage/commit.py",
        old="        _check_horizon(base, call.uploaded_ms)\n",
        new="",
        tests=(f"{COMMIT}::test_old_uploads_are_refused",),
    ),
    Mutant(
        rule="horizon check: files uploaded by a draft are committed however old they are",
        path="lakehouse/storage/commit.py",
        old="        _check_horizon(base, draft.uploaded_ms)\n",
        new="",
        tests=(f"{EXPIRE}::test_old_uploads_of_a_reading_write_are_refused",),
    ),
    Mutant(
        rule="horizon check: manifests folded long ago are committed",
        path="lakehouse/storage/commit.py",
        old=" and now < self._fold_ends:",
        new=":",
        tests=(f"{ORPHANS}::test_folded_manifests_of_a_failed_commit_are_not_used_late",),
    ),
    Mutant(
        rule="horizon: orphans are deleted without a commit that says so",
        path="lakehouse/storage/orphans.py",
        old="    if not dry_run:\n        head = (await core.commit(",
        new="    if False:\n        head = (await core.commit(",
        tests=(f"{ORPHANS}::test_uploads_from_before_the_horizon_are_refused",),
    ),
    Mutant(
        rule="delete_grace: objects are deleted as soon as they are unreachable",
        path="lakehouse/storage/expire.py",
        old=" if grace_s else self._head",
        new=" if False else self._head",
        tests=(
            f"{EXPIRE}::test_objects_go_when_the_grace_is_over",
            f"{EXPIRE}::test_stalled_readers_and_writers_have_the_grace",
        ),
    ),
    Mutant(
        rule="delete_grace: a machine's clock tells when it is over",
        path="lakehouse/storage/maintenance.py",
        old="    return told if told is not None else history.time.now_ms()",
        new="    return history._clock.now_ms()",
        tests=(f"{EXPIRE}::test_clocks_of_machines_delete_nothing_early",),
    ),
    Mutant(
        rule="tags in the log: expiry does not look at them",
        path="lakehouse/storage/expire.py",
        old="number < limit and number not in tagged]",
        new="number < limit]",
        tests=(
            f"{EXPIRE}::test_tagged_and_pinned_snapshots_stay",
            f"{EXPIRE}::test_a_tag_and_an_expiry_race_for_the_log",
        ),
    ),
    Mutant(
        rule="expiry: files that a rollback brought back are deleted with the snapshots that lost them",
        path="lakehouse/storage/expire.py",
        old="        garbage = self._done.others(known.others(list(paths)))",
        new="        garbage = self._done.others(list(paths))",
        tests=(f"{EXPIRE}::test_files_that_a_rollback_brought_back_stay",),
    ),
    Mutant(
        rule="expiry: snapshots are deleted before their objects",
        path="lakehouse/storage/expire.py",
        old="            batch = doomed[begin : begin + _BATCH]\n",
        new="            batch = doomed[begin : begin + _BATCH]\n"
        "            await self._deletions.delete((snapshot_path(listed.ids[at]), 0) for at in batch)\n",
        tests=(f"{MAINTENANCE_CUTS}::test_every_cut_point_of_maintenance[expire]",),
    ),
    Mutant(
        rule="foreign objects: whatever lies in a table's directory is deleted",
        path="lakehouse/storage/orphans.py",
        old="            if kind is None:\n",
        new="            if False:\n",
        tests=(f"{ORPHANS}::test_foreign_objects_stay",),
    ),
    Mutant(
        rule="rescale: files of another number of buckets are committed as they are",
        path="lakehouse/storage/commit.py",
        old="        added = await call.resplit.fitting(draft.added, schema)",
        new="        added = draft.added",
        tests=(f"{RESCALE}::test_a_write_that_finds_another_number_of_buckets",),
    ),
    Mutant(
        rule="rescale: intervals of runs that come together may overlap",
        path="lakehouse/storage/rescale.py",
        old="        alone = buckets % one.total_buckets == 0\n",
        new="        alone = True\n",
        tests=(f"{RESCALE}::test_writes_and_compactions_go_on",),
    ),
    Mutant(
        rule="unknown outcome: files of a commit that may be there are deleted",
        path="lakehouse/storage/commit_result.py",
        old="    except CommitUnknownError:\n        raise\n    except LakehouseError:",
        new="    except LakehouseError:",
        tests=(f"{CUTS}::test_every_cut_point_of_a_call[append-alone]",),
    ),
    Mutant(
        rule="tags in the log: making one does not look at the head",
        path="lakehouse/storage/intents.py",
        old="            if not base.snapshot.earliest <= ref.snapshot <= base.snapshot.id:",
        new="            if False:",
        tests=(f"{COMMIT}::test_tags_are_made_once_and_dropped",),
    ),
    # --- what others commit -----------------------------------------------------------
    Mutant(
        rule="exactly once: sequences are not looked up",
        path="lakehouse/storage/commit.py",
        old="            recorded = await self._recorded(base, writer)",
        new="            recorded = None",
        tests=(
            f"{COMMIT}::test_a_sequence_is_committed_once",
            f"{CUTS}::test_a_write_with_a_sequence_can_be_repeated_until_it_is_done",
        ),
    ),
    Mutant(
        rule="overwrite at the head: it removes what was there before the last commit",
        path="lakehouse/storage/intents.py",
        old="        for one in await base.entries():",
        new="        for one in [one for one in await base.entries() if one.at != base.snapshot.id]:",
        tests=(f"{OVERWRITE}::test_an_overwrite_of_a_partition_removes_what_is_there_when_it_commits",),
    ),
    Mutant(
        rule="reading writes: what others commit is not looked at",
        path="lakehouse/storage/reading_writes.py",
        old="        if self._base is None or not await self._still_right(self._base, base):",
        new="        if self._base is None:",
        tests=(f"{OVERWRITE}::test_a_delete_sees_rows_that_begin_to_match",),
    ),
    Mutant(
        rule="reading writes: files that others removed do not matter",
        path="lakehouse/storage/reading_writes.py",
        old="        if not known <= {one.path for one in entries}:",
        new="        if False:",
        tests=(f"{SERIAL}::test_a_rollback_in_the_middle_brings_rows_back_for_everybody",),
    ),
    Mutant(
        rule="reading writes: keys of its own that others write do not matter",
        path="lakehouse/storage/reading_writes.py",
        old=" or _overlaps(one, self.written.entries)\n",
        new="\n",
        tests=(f"{OVERWRITE}::test_a_delete_sees_rows_that_match_no_more",),
    ),
    Mutant(
        rule="on_conflict=error: keys are looked for once",
        path="lakehouse/storage/reading_writes.py",
        old="        if paths == self._checked:",
        new="        if self._checked:",
        tests=(f"{OVERWRITE}::test_one_of_two_inserts_of_a_key_wins",),
    ),
    Mutant(
        rule="pruning above the bottom: files without a match are left out although they hide older rows",
        path="lakehouse/storage/plan.py",
        old="            elif any(ranges.overlap(entry) for ranges in older):",
        new="            elif False:",
        tests=("tests/storage/test_scan.py",),
    ),
    # --- compaction -------------------------------------------------------------------
    Mutant(
        rule="interval hull: compaction stands at its commit",
        path="lakehouse/storage/merge_runs.py",
        old="dataclasses.replace(entries[at], lo=lo, hi=hi)",
        new="entries[at]",
        tests=(f"{COMPACTION}::test_what_others_commit_meanwhile_stays_on_top",),
    ),
    Mutant(
        rule="gives way: compaction commits although its inputs are gone",
        path="lakehouse/storage/compaction.py",
        old="    if len(mine) != len(inputs):\n        return False\n",
        new="",
        tests=(f"{COMPACTION}::test_a_compaction_gives_way_when_an_input_is_gone",),
    ),
    Mutant(
        rule="adjacency check: compaction is put around a run",
        path="lakehouse/storage/compaction.py",
        old="    if any(low <= hi and high >= lo for low, high in around):\n        return False\n",
        new="",
        tests=(f"{COMPACTION}::test_a_compaction_gives_way_to_a_run_between_its_inputs",),
    ),
    Mutant(
        rule="deletions dropped too early: older rows have come back below",
        path="lakehouse/storage/compaction.py",
        old="    return not (task.bottom and any(high < lo for _, high in around))",
        new="    return True",
        tests=(f"{COMPACTION}::test_a_compaction_gives_way_to_older_rows_of_keys_it_forgot",),
    ),
    Mutant(
        rule="deletions dropped too early: above older runs",
        path="lakehouse/storage/compact_plan.py",
        old="bottom=bottom and count == len(stretch)",
        new="bottom=True",
        tests=(f"{COMPACTION}::test_deleted_keys_are_remembered_above_older_runs",),
    ),
    Mutant(
        rule="barriers: runs on both sides of a covered segment are merged",
        path="lakehouse/storage/compact_plan.py",
        old="        here = bisect.bisect_left(lows, interval(run[0])[0])\n",
        new="        here = 0\n",
        tests=("tests/storage/test_compact_plan.py::test_a_covered_segment_is_a_barrier",),
    ),
    # --- merge engines ----------------------------------------------------------------
    Mutant(
        rule="D∘U: operands behind a deletion are merged onto what is older",
        path="lakehouse/storage/merge_engines.py",
        old="    bases[of_rows == RowKind.DELETE] += 1\n",
        new="    bases[of_rows == RowKind.DELETE] = -1\n",
        tests=(f"{ENGINES}::test_any_bracketing_gives_the_same_fold",),
    ),
    Mutant(
        rule="D∘U: a deletion below operands is forgotten when they are folded",
        path="lakehouse/storage/merge_engines.py",
        old="found = np.where(bases >= 0, RowKind.INSERT",
        new="found = np.where(of_rows[first] == RowKind.INSERT, RowKind.INSERT",
        tests=(f"{ENGINES}::test_any_bracketing_gives_the_same_fold",),
    ),
    Mutant(
        rule="pruning: files that are folded with others are left out by their own rows",
        path="lakehouse/storage/plan.py",
        old="verdict is not Verdict.SOME and any(one.overlap(entry) for one in others)",
        new="False",
        tests=(f"{FOLDING}::test_scans_are_the_model",),
    ),
    Mutant(
        rule="lookups: an operand is taken for the row of its key",
        path="lakehouse/storage/lookup.py",
        old="return hits.at if kinds is None else hits.at[kinds != RowKind.UPDATE]",
        new="return hits.at",
        tests=(f"{FOLDING}::test_lookups_are_the_model",),
    ),
    Mutant(
        rule="writes: of several rows of a key in one input the last stays instead of their fold",
        path="lakehouse/storage/merge_engines.py",
        old="    if not engine.folds:\n        return rows\n    (keys,)",
        new="    return rows\n    (keys,)",
        tests=(f"{ENGINES}::test_rows_of_one_input_are_folded_in_its_order",),
    ),
    # --- identity ---------------------------------------------------------------------
    Mutant(
        rule="table uuid: a snapshot of another table is taken",
        path="lakehouse/storage/history.py",
        old="        if found.table != self._table:",
        new="        if False:",
        tests=(f"{DAMAGE}::test_damage_is_noticed_by_those_who_need_the_object",),
    ),
    Mutant(
        rule="table uuid: a schema of another table is taken",
        path="lakehouse/storage/schemas.py",
        old="        if (found.schema.id, found.table) != (ref.id, self.table):",
        new="        if found.schema.id != ref.id:",
        tests=(f"{DAMAGE}::test_damage_is_noticed_by_those_who_need_the_object",),
    ),
    Mutant(
        rule="names: a pointer of another table is taken",
        path="lakehouse/storage/names.py",
        old="        if pointer.name != str(name):",
        new="        if False:",
        tests=(f"{NAMES}::test_objects_in_anothers_place_are_noticed",),
    ),
    Mutant(
        rule="schema lineage: rows written with an undone schema are committed",
        path="lakehouse/storage/commit.py",
        old="        if used - known:\n",
        new="        if False:\n",
        tests=(EVOLVING,),
    ),
    Mutant(
        rule="field ids: a rollback gives ids out again",
        path="lakehouse/storage/alter.py",
        old="        highest_field_id=before.schema.highest_field_id,\n",
        new="",
        tests=(f"{EVOLVING}::test_a_column_after_a_rollback_is_a_new_one",),
    ),
    # --- the write-ahead log ----------------------------------------------------------
    Mutant(
        rule="cover: commits say nothing of the log",
        path="lakehouse/storage/commit.py",
        old="            tail=call.tail,\n        )\n        if self._clock",
        new="            tail=None,\n        )\n        if self._clock",
        tests=(f"{WRITER}::test_commits_stand_above_what_was_acknowledged_before",),
    ),
    Mutant(
        rule="tail read after the call began: a commit covers what was known of the log before",
        path="lakehouse/storage/opened.py",
        old="        return None if view.snapshot.wal is None else await self.wal.tail(view.snapshot)",
        new="        return None if view.snapshot.wal is None else Tail(after=view.snapshot.wal.upto)",
        tests=(f"{WRITER}::test_commits_stand_above_what_was_acknowledged_before",),
    ),
    Mutant(
        rule="flush: segments planned together are flushed together although a commit stands between them",
        path="lakehouse/storage/flush.py",
        old="                if not _parted(starts, lo, hi):",
        new="                if True:",
        tests=(f"{FLUSH}::test_a_group_that_a_commit_parts_is_flushed_in_two",),
    ),
    Mutant(
        rule="flush: groups are planned across commits",
        path="lakehouse/storage/flush.py",
        old="            parted = bisect.bisect(starts, place) != bisect.bisect(starts, last)",
        new="            parted = False",
        tests=(f"{FLUSH}::test_groups_hold_every_segment_once_and_no_run_stands_in_one",),
    ),
    Mutant(
        rule="D in D∘U for the log: of the rows of a segment the last one counts, whatever came before",
        path="lakehouse/storage/segment_runs.py",
        old="    rows = folded_input(segment_rows(segments, schema), schema)",
        new="    rows = segment_rows(segments, schema)",
        tests=(f"{FLUSH}::test_a_deletion_between_operands_counts",),
    ),
    Mutant(
        rule="D in D∘U for flushes: of the rows of a key the last one counts, whatever came before",
        path="lakehouse/storage/flush.py",
        old="    rows = folded_input(rows, schema)\n",
        new="",
        tests=(f"{FLUSH}::test_a_deletion_between_operands_counts",),
    ),
    Mutant(
        rule="fence: a writer that lost a create acknowledges all the same",
        path="lakehouse/storage/wal_append.py",
        old="            raise await self._fenced(lost) from lost",
        new="            pass",
        tests=(
            f"{WRITER}::test_a_second_writer_fences_the_first",
            f"{APPEND}::test_each_writer_has_a_higher_epoch",
        ),
    ),
    Mutant(
        rule="fence: a number that is free is the next one, however long ago that was known",
        path="lakehouse/storage/wal_append.py",
        old="        if began - self._seen_at > self._deadline_s and await self._is_there(header):",
        new="        if False:",
        tests=(f"{APPEND}::test_a_writer_that_slept_finds_its_number_free_and_is_fenced",),
    ),
    Mutant(
        rule="fence: a late answer to a segment is believed",
        path="lakehouse/storage/wal_append.py",
        old="        if now - self._seen_at > self._deadline_s:",
        new="        if False:",
        tests=(f"{APPEND}::test_a_create_that_is_held_up_is_not_believed",),
    ),
    Mutant(
        rule="fence: a late fence is believed",
        path="lakehouse/storage/wal_append.py",
        old="        if clock.steady() - seen_at > deadline_s:",
        new="        if False:",
        tests=(f"{APPEND}::test_a_fence_that_is_held_up_is_looked_at_again",),
    ),
    Mutant(
        rule="fence: clients' sequences end with their writer",
        path="lakehouse/storage/wal_append.py",
        old="            writers=marks,\n",
        new="",
        tests=(f"{WRITER}::test_a_sequence_is_put_once_also_by_the_next_writer",),
    ),
    Mutant(
        rule="drop: a writer that is opened meanwhile does not look at the head again",
        path="lakehouse/storage/writer_session.py",
        old="        return cls(core, await core.newest(), appender)",
        new="        return cls(core, view, appender)",
        tests=(f"{ENDS}::test_a_drop_at_any_request_of_an_opening_leaves_no_writer",),
    ),
    Mutant(
        rule="drop: writers are fenced off before it only",
        path="lakehouse/storage/drop.py",
        old="        await _fence_off(core, done.snapshot)\n",
        new="        pass\n",
        tests=(f"{ENDS}::test_a_writer_at_any_request_of_a_drop_acknowledges_nothing_after_it",),
    ),
    Mutant(
        rule="overwrite: it takes no segments away",
        path="lakehouse/storage/next_snapshot.py",
        old="    if draft.clears:\n        return ()\n",
        new="",
        tests=(
            f"{WRITER}::test_overwrites_take_acknowledged_rows_away",
            f"{ENDS}::test_an_overwrite_by_nothing_empties_the_log",
        ),
    ),
    Mutant(
        rule="overwrite: rows of a partition that are in segments only stay",
        path="lakehouse/storage/intents.py",
        old="        check_flushed(removed)\n        if not removed",
        new="        removed = [one for one in removed if '#' not in one.path]\n        if not removed",
        tests=(f"{WRITER}::test_overwrites_take_acknowledged_rows_away",),
    ),
    Mutant(
        rule="compaction: covered segments are no barrier",
        path="lakehouse/storage/compact_plan.py",
        old="        ((at, 0, one.first), (at, 0, one.last))\n        for one in snapshot.segments\n",
        new="        ((at, 0, one.first), (at, 0, one.last))\n        for one in ()\n",
        tests=(f"{FLUSH}::test_a_compaction_does_not_merge_around_segments",),
    ),
    Mutant(
        rule="fresh reads: the head is read before the log is listed",
        path="lakehouse/storage/opened.py",
        old="        listed = await self.wal.listed(after=view.snapshot.wal.upto)\n"
        "        view = await self.newest()\n",
        new="        view = await self.newest()\n        assert view.snapshot.wal is not None\n"
        "        listed = await self.wal.listed(after=view.snapshot.wal.upto)\n",
        tests=(f"{REAL_TIME}::test_a_fresh_read_shows_no_put_without_the_commit_before_it",),
    ),
    Mutant(
        rule="a gap in the log is passed over",
        path="lakehouse/storage/wal.py",
        old="            if found > expected:",
        new="            if False:",
        tests=(f"{LOG}::test_a_gap_is_damage",),
    ),
    Mutant(
        rule="exactly once: a repeated put is acknowledged before the first one is durable",
        path="lakehouse/storage/writer_session.py",
        old="        if pending is not None and pending[0] >= sequence:",
        new="        if False:",
        tests=(f"{ENDS}::test_a_repeated_put_is_acknowledged_with_the_first",),
    ),
    Mutant(
        rule="exactly once: the log takes a sequence it has",
        path="lakehouse/storage/writer_session.py",
        old="        if self._appender.marks.get(name, -1) < sequence:",
        new="        if True:",
        tests=(f"{WRITER}::test_a_sequence_is_put_once_also_by_the_next_writer",),
    ),
    Mutant(
        rule="expiry: the newest segment of the log is deleted too",
        path="lakehouse/storage/expire.py",
        old="            if last is not None:\n                found.append(last)\n"
        "            last = (number, size)\n",
        new="            last = (number, size)\n            found.append(last)\n",
        tests=(f"{EXPIRE}::test_segments_go_when_no_snapshot_holds_them",),
    ),
    Mutant(
        rule="expiry: segments that a snapshot holds in no file are deleted",
        path="lakehouse/storage/expire.py",
        old=" for number, size in spare if number not in needed]",
        new=" for number, size in spare]",
        tests=(f"{EXPIRE}::test_segments_that_a_tagged_snapshot_holds_stay",),
    ),
    Mutant(
        rule="orphans: what expired snapshots keep for their grace is swept",
        path="lakehouse/storage/orphans.py",
        old="    waiting = [one async for one in history.log.numbers() if one not in kept]",
        new="    waiting: list[int] = []",
        tests=(f"{ORPHANS}::test_what_any_snapshot_object_refers_to_stays",),
    ),
    Mutant(
        rule="orphans: however young, they are swept",
        path="lakehouse/storage/orphans.py",
        old="            if about.modified_ms is None or about.modified_ms >= limit:",
        new="            if about.modified_ms is None:",
        tests=(f"{ORPHANS}::test_what_nothing_refers_to_goes_after_a_day",),
    ),
    # --- indexes of tables ------------------------------------------------------------
    Mutant(
        rule="indexes: files that one excludes are left out although they hide older rows",
        path="lakehouse/storage/index_prune.py",
        old="        return self._inner.excludes_keys(entry)",
        new="        return 'index' if self._answers.excludes(entry) else self._inner.excludes_keys(entry)",
        tests=(f"{INDEXES}::test_what_hides_older_rows_is_read",),
    ),
    Mutant(
        rule="indexes: one that was altered is still the one that files have",
        path="lakehouse/storage/index_changes.py",
        old="replace(made, id=number) if one is old",
        new="replace(made, id=old.id) if one is old",
        tests=(f"{INDEXES}::test_an_index_that_tells_case_is_not_asked_without",),
    ),
    Mutant(
        rule="indexes: one that comes again is taken for the one that was dropped",
        path="lakehouse/storage/index_changes.py",
        old="        number = schema.highest_index_id + 1\n        return",
        new="        number = 1 + max((one.id for one in schema.indexes), default=0)\n        return",
        tests=(f"{INDEXES}::test_no_file_is_asked_for_an_index_that_was_dropped",),
    ),
    Mutant(
        rule="indexes: a rollback gives their ids out again",
        path="lakehouse/storage/alter.py",
        old="        highest_index_id=before.schema.highest_index_id,\n",
        new="",
        tests=(f"{INDEXES}::test_a_rollback_brings_no_index_back_that_means_something_else",),
    ),
    Mutant(
        rule="indexes: a column is asked of the index of another of its type",
        path="lakehouse/storage/index_prune.py",
        old="        renamed = by_ids(where, {name: one.id for name, one in columns.items()})",
        new="        first = {str(one.type): one.id for one in reversed(columns.values())}\n"
        "        renamed = by_ids(where, {name: first[str(one.type)] for name, one in columns.items()})",
        tests=(f"{INDEX_READS}::test_a_column_is_asked_of_its_own_index",),
    ),
    Mutant(
        rule="indexes: segments have the default number of rows, whatever the file says",
        path="lakehouse/index/lookup.py",
        old="RowSelection.of_segments(segments, metas.segment_row_count, metas.total_row_count)",
        new="RowSelection.of_segments(segments, 1024, metas.total_row_count)",
        tests=(f"{INDEX_READS}::test_rows_of_segments_are_those_the_file_was_built_with",),
    ),
    Mutant(
        rule="indexes: rows are counted from the piece and not from the file",
        path="lakehouse/storage/part_rows.py",
        old="of_file[piece.first_row : piece.first_row + piece.rows]",
        new="of_file[: piece.rows]",
        tests=(f"{INDEX_READS}::test_rows_of_segments_are_those_the_file_was_built_with",),
    ),
    Mutant(
        rule="indexes: where there is none, nothing matches",
        path="lakehouse/storage/index_prune.py",
        old="    return tree if is_inverted or is_bloom else ANY_ROW",
        new="    return tree if is_inverted or is_bloom else NO_ROW",
        tests=(f"{INDEX_READS}::test_what_no_index_tells_may_be_anywhere",),
    ),
    Mutant(
        rule="indexes: a term whose place was not read is not there",
        path="lakehouse/format/fst_parts.py",
        old="                missing.update(error.places)\n",
        new="                pass\n",
        tests=("tests/format/test_fst_parts.py::test_parts_give_the_answers_of_the_whole_map",),
    ),
    Mutant(
        rule="indexes: a damaged one excludes its file",
        path="lakehouse/storage/index_prune.py",
        old="                found = RowSelection.every(entry.rows)",
        new="                found = RowSelection.none(entry.rows)",
        tests=(f"{REBUILD}::test_a_damaged_index_changes_no_answer",),
    ),
    Mutant(
        rule="indexes: a rebuild brings files back that are gone",
        path="lakehouse/storage/index_rebuild.py",
        old="        self.replaced: tuple[FileEntry, ...] = ()\n\n"
        "    async def draft(self, base: Base) -> Draft | None:\n"
        '        """What is live, as the head has it, with other indexes."""\n'
        "        live = await base.manifests.entries(base.snapshot)\n",
        new="        self.replaced: tuple[FileEntry, ...] = ()\n        self.given = entries\n\n"
        "    async def draft(self, base: Base) -> Draft | None:\n        live = self.given\n",
        tests=(f"{REBUILD}::test_files_that_go_meanwhile_are_passed_over",),
    ),
)


class Copy:
    """A copy of the repository to try mutants in."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._passing: dict[tuple[str, ...], bool] = {}
        for name in COPIED:
            source, target = ROOT / name, directory / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def judge(self, mutant: Mutant) -> str:
        """``killed`` when the tests pass as it is and fail without the rule; else what is wrong."""
        path = self._directory / mutant.path
        text = path.read_text()
        if text.count(mutant.old) != 1:
            return f"STALE: its text stands in {mutant.path} {text.count(mutant.old)} times"
        if mutant.tests not in self._passing:
            self._passing[mutant.tests] = self._run(mutant.tests) == 0
        if not self._passing[mutant.tests]:
            return "BROKEN: its tests fail as it is"
        path.write_text(text.replace(mutant.old, mutant.new))
        try:
            return "killed" if self._run(mutant.tests) == 1 else "SURVIVED"
        finally:
            path.write_text(text)

    def _run(self, tests: tuple[str, ...]) -> int:
        """Exit code of the tests: 0 = all passed, 1 = some failed."""
        minio = ROOT / ".cache" / "bin" / "minio"
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            **({"LAKEHOUSE_TEST_MINIO": str(minio)} if minio.exists() else {}),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode


def main() -> int:
    """Judges the mutants; 1 when one is not killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only rules that contain this text")
    wanted = parser.parse_args().filter
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="lakehouse-mutants-") as directory:
        copy = Copy(Path(directory))
        for mutant in MUTANTS:
            if wanted in mutant.rule:
                started = time.monotonic()
                verdicts.append(copy.judge(mutant))
                print(f"{verdicts[-1]:<10}{time.monotonic() - started:5.0f} s  {mutant.rule}", flush=True)
    return 0 if all(verdict == "killed" for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
