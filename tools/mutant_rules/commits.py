"""Rules of commits: one winner, deadlines, horizons, exactly once, conflicts, identity."""

from __future__ import annotations

from tools.mutant_rules.model import Mutant

__all__ = ["COMMITS"]

_COMMIT = "tests/storage/test_commit.py"
_CUTS = "tests/storage/test_table_cut_points.py"
_DAMAGE = "tests/storage/test_table_damage.py"
_EVOLVING = "tests/storage/test_evolving_tables.py"
_EXPIRE = "tests/storage/test_expire.py"
_MAINTENANCE_CUTS = "tests/storage/test_maintenance_cut_points.py"
_ORPHANS = "tests/storage/test_orphans.py"
_RESCALE = "tests/storage/test_rescale.py"
_NAMES = "tests/storage/test_names.py"
_OVERWRITE = "tests/storage/test_overwrite.py"
_SERIAL = "tests/storage/test_serial_commits.py"
_STORES = "tests/conformance/test_s3.py::TestMinio"

COMMITS = (
    # --- one winner -------------------------------------------------------------------
    Mutant(
        rule="If-None-Match: creates replace what is there",
        path="lakehouse/io/backends/s3.py",
        old='return await self._put("put_if_absent", key, data, token, IfNoneMatch="*")',
        new='return await self._put("put_if_absent", key, data, token)',
        tests=(
            f"{_STORES}::test_create_refuses_a_taken_key",
            f"{_STORES}::test_racing_creates_have_one_winner",
        ),
    ),
    Mutant(
        rule="read-back: the answer to a create is believed",
        path="lakehouse/io/conditional.py",
        old="            seen = await _read_back(store, attempt, error, policy)\n",
        new="            raise error\n",
        tests=(
            f"{_COMMIT}::test_every_cut_point_of_a_commit",
            f"{_CUTS}::test_every_cut_point_of_a_call[append-contended]",
        ),
    ),
    Mutant(
        rule="read-back on anything but 412: only a conflict is read back",
        path="lakehouse/io/conditional.py",
        old="            seen = await _read_back(store, attempt, error, policy)\n",
        new="            if not isinstance(error, ConflictError):\n                raise error\n"
        "            seen = await _read_back(store, attempt, error, policy)\n",
        tests=(
            f"{_COMMIT}::test_every_cut_point_of_a_commit",
            f"{_CUTS}::test_every_cut_point_of_a_call[append-contended]",
        ),
    ),
    Mutant(
        rule="names: whoever comes last has the name",
        path="lakehouse/storage/names.py",
        old="            await self._store.put_if_absent(key, data, token=pointer.token)\n",
        new="            await self._store.put(key, data)\n",
        tests=(f"{_CUTS}::test_two_tables_raced_into_one_name", f"{_NAMES}::test_one_of_many_gets_a_name"),
    ),
    # --- deadline ---------------------------------------------------------------------
    Mutant(
        rule="deadline: a commit is sent on old knowledge",
        path="lakehouse/storage/commit.py",
        old="        if self._clock.steady() - head.seen_at > self._history.deadline_s:\n"
        "            # Nothing",
        new="        if False:\n            # Nothing",
        tests=(f"{_COMMIT}::test_no_commit_is_sent_on_old_knowledge",),
    ),
    Mutant(
        rule="deadline: a late answer is believed",
        path="lakehouse/storage/commit.py",
        old="        if self._clock.steady() - head.seen_at > self._history.deadline_s:\n"
        "            self._history.forget()\n            return await self._settle_late",
        new="        if False:\n"
        "            self._history.forget()\n            return await self._settle_late",
        tests=(
            f"{_COMMIT}::test_a_late_answer_is_not_believed",
            f"{_CUTS}::test_a_call_that_wakes_up_after_expiry_tells_the_truth",
        ),
    ),
    Mutant(
        rule="deadline: a lost race makes knowledge younger",
        path="lakehouse/storage/commit.py",
        old="            return self._history.note(self._history.decoded(winner), head.seen_at)",
        new="            return self._history.note(self._history.decoded(winner), began)",
        tests=(f"{_COMMIT}::test_the_deadline_counts_from_the_head_and_not_from_a_lost_race",),
    ),
    Mutant(
        rule="deadline: 'there is no next one' is believed whatever the age of what is known",
        path="lakehouse/storage/history.py",
        old="        if known is None or began - known.seen_at >= self.deadline_s:",
        new="        if known is None:",
        tests=(f"{_CUTS}::test_a_call_that_wakes_up_after_expiry_tells_the_truth",),
    ),
    # --- deletion ---------------------------------------------------------------------
    Mutant(
        rule="horizon check: old uploads are committed",
        path="lakehouse/storage/commit.py",
        old="        _check_horizon(base, call.uploaded_ms)\n",
        new="",
        tests=(f"{_COMMIT}::test_old_uploads_are_refused",),
    ),
    Mutant(
        rule="horizon check: files uploaded by a draft are committed however old they are",
        path="lakehouse/storage/commit.py",
        old="        _check_horizon(base, draft.uploaded_ms)\n",
        new="",
        tests=(f"{_EXPIRE}::test_old_uploads_of_a_reading_write_are_refused",),
    ),
    Mutant(
        rule="horizon check: manifests folded long ago are committed",
        path="lakehouse/storage/commit.py",
        old=" and now < self._fold_ends:",
        new=":",
        tests=(f"{_ORPHANS}::test_folded_manifests_of_a_failed_commit_are_not_used_late",),
    ),
    Mutant(
        rule="horizon: orphans are deleted without a commit that says so",
        path="lakehouse/storage/orphans.py",
        old="    if not dry_run:\n        head = (await core.commit(",
        new="    if False:\n        head = (await core.commit(",
        tests=(f"{_ORPHANS}::test_uploads_from_before_the_horizon_are_refused",),
    ),
    Mutant(
        rule="delete_grace: objects are deleted as soon as they are unreachable",
        path="lakehouse/storage/expire.py",
        old=" if grace_s else self._head",
        new=" if False else self._head",
        tests=(
            f"{_EXPIRE}::test_objects_go_when_the_grace_is_over",
            f"{_EXPIRE}::test_stalled_readers_and_writers_have_the_grace",
        ),
    ),
    Mutant(
        rule="delete_grace: a machine's clock tells when it is over",
        path="lakehouse/storage/maintenance.py",
        old="    return told if told is not None else history.time.now_ms()",
        new="    return history._clock.now_ms()",
        tests=(f"{_EXPIRE}::test_clocks_of_machines_delete_nothing_early",),
    ),
    Mutant(
        rule="tags in the log: expiry does not look at them",
        path="lakehouse/storage/expire.py",
        old="number < limit and number not in tagged]",
        new="number < limit]",
        tests=(
            f"{_EXPIRE}::test_tagged_and_pinned_snapshots_stay",
            f"{_EXPIRE}::test_a_tag_and_an_expiry_race_for_the_log",
        ),
    ),
    Mutant(
        rule="expiry: files that a rollback brought back are deleted with the snapshots that lost them",
        path="lakehouse/storage/expire.py",
        old="        garbage = self._done.others(known.others(list(paths)))",
        new="        garbage = self._done.others(list(paths))",
        tests=(f"{_EXPIRE}::test_files_that_a_rollback_brought_back_stay",),
    ),
    Mutant(
        rule="expiry: snapshots are deleted before their objects",
        path="lakehouse/storage/expire.py",
        old="            batch = doomed[begin : begin + _BATCH]\n",
        new="            batch = doomed[begin : begin + _BATCH]\n"
        "            await self._deletions.delete((snapshot_path(listed.ids[at]), 0) for at in batch)\n",
        tests=(f"{_MAINTENANCE_CUTS}::test_every_cut_point_of_maintenance[expire]",),
    ),
    Mutant(
        rule="foreign objects: whatever lies in a table's directory is deleted",
        path="lakehouse/storage/orphans.py",
        old="            if kind is None:\n",
        new="            if False:\n",
        tests=(f"{_ORPHANS}::test_foreign_objects_stay",),
    ),
    Mutant(
        rule="rescale: files of another number of buckets are committed as they are",
        path="lakehouse/storage/commit.py",
        old="        added = await call.resplit.fitting(draft.added, schema)",
        new="        added = draft.added",
        tests=(f"{_RESCALE}::test_a_write_that_finds_another_number_of_buckets",),
    ),
    Mutant(
        rule="rescale: intervals of runs that come together may overlap",
        path="lakehouse/storage/rescale.py",
        old="        alone = buckets % one.total_buckets == 0\n",
        new="        alone = True\n",
        tests=(f"{_RESCALE}::test_writes_and_compactions_go_on",),
    ),
    Mutant(
        rule="unknown outcome: files of a commit that may be there are deleted",
        path="lakehouse/storage/commit_result.py",
        old="    except CommitUnknownError:\n        raise\n    except LakehouseError:",
        new="    except LakehouseError:",
        tests=(f"{_CUTS}::test_every_cut_point_of_a_call[append-alone]",),
    ),
    Mutant(
        rule="tags in the log: making one does not look at the head",
        path="lakehouse/storage/intents.py",
        old="            if not base.snapshot.earliest <= ref.snapshot <= base.snapshot.id:",
        new="            if False:",
        tests=(f"{_COMMIT}::test_tags_are_made_once_and_dropped",),
    ),
    # --- what others commit -----------------------------------------------------------
    Mutant(
        rule="exactly once: sequences are not looked up",
        path="lakehouse/storage/commit.py",
        old="            recorded = await self._recorded(base, writer)",
        new="            recorded = None",
        tests=(
            f"{_COMMIT}::test_a_sequence_is_committed_once",
            f"{_CUTS}::test_a_write_with_a_sequence_can_be_repeated_until_it_is_done",
        ),
    ),
    Mutant(
        rule="overwrite at the head: it removes what was there before the last commit",
        path="lakehouse/storage/intents.py",
        old="        for one in await base.entries():",
        new="        for one in [one for one in await base.entries() if one.at != base.snapshot.id]:",
        tests=(f"{_OVERWRITE}::test_an_overwrite_of_a_partition_removes_what_is_there_when_it_commits",),
    ),
    Mutant(
        rule="reading writes: what others commit is not looked at",
        path="lakehouse/storage/reading_writes.py",
        old="        if self._base is None or not await self._still_right(self._base, base):",
        new="        if self._base is None:",
        tests=(f"{_OVERWRITE}::test_a_delete_sees_rows_that_begin_to_match",),
    ),
    Mutant(
        rule="reading writes: files that others removed do not matter",
        path="lakehouse/storage/reading_writes.py",
        old="        if not known <= {one.path for one in entries}:",
        new="        if False:",
        tests=(f"{_SERIAL}::test_a_rollback_in_the_middle_brings_rows_back_for_everybody",),
    ),
    Mutant(
        rule="reading writes: keys of its own that others write do not matter",
        path="lakehouse/storage/reading_writes.py",
        old=" or _overlaps(one, self.written.entries)\n",
        new="\n",
        tests=(f"{_OVERWRITE}::test_a_delete_sees_rows_that_match_no_more",),
    ),
    Mutant(
        rule="on_conflict=error: keys are looked for once",
        path="lakehouse/storage/reading_writes.py",
        old="        if paths == self._checked:",
        new="        if self._checked:",
        tests=(f"{_OVERWRITE}::test_one_of_two_inserts_of_a_key_wins",),
    ),
    Mutant(
        rule="pruning above the bottom: files without a match are left out although they hide older rows",
        path="lakehouse/storage/plan.py",
        old="            elif any(ranges.overlap(entry) for ranges in older):",
        new="            elif False:",
        tests=("tests/storage/test_scan.py",),
    ),
    # --- identity ---------------------------------------------------------------------
    Mutant(
        rule="table uuid: a snapshot of another table is taken",
        path="lakehouse/storage/history.py",
        old="        if found.table != self._table:",
        new="        if False:",
        tests=(f"{_DAMAGE}::test_damage_is_noticed_by_those_who_need_the_object",),
    ),
    Mutant(
        rule="table uuid: a schema of another table is taken",
        path="lakehouse/storage/schemas.py",
        old="        if (found.schema.id, found.table) != (ref.id, self.table):",
        new="        if found.schema.id != ref.id:",
        tests=(f"{_DAMAGE}::test_damage_is_noticed_by_those_who_need_the_object",),
    ),
    Mutant(
        rule="names: a pointer of another table is taken",
        path="lakehouse/storage/names.py",
        old="        if pointer.name != str(name):",
        new="        if False:",
        tests=(f"{_NAMES}::test_objects_in_anothers_place_are_noticed",),
    ),
    Mutant(
        rule="schema lineage: rows written with an undone schema are committed",
        path="lakehouse/storage/commit.py",
        old="        if used - known:\n",
        new="        if False:\n",
        tests=(_EVOLVING,),
    ),
    Mutant(
        rule="field ids: a rollback gives ids out again",
        path="lakehouse/storage/alter.py",
        old="        highest_field_id=before.schema.highest_field_id,\n",
        new="",
        tests=(f"{_EVOLVING}::test_a_column_after_a_rollback_is_a_new_one",),
    ),
)
