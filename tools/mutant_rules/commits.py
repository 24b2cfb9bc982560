"""Rules of commits: one winner, deadlines, horizons, exactly once, conflicts, identity."""

from __future__ import annotations

from tools.mutant_rules.model import Mutant

__all__ = ["COMMITS"]

_COMMIT = "tests/storage/commit/test_committer.py"
_CUTS = "tests/cut_points/test_table_cut_points.py"
_DAMAGE = "tests/damage/test_table_damage.py"
_EVOLVING = "tests/storage/schema/test_evolution_of_tables.py"
_EXPIRE = "tests/storage/maintenance/test_expire.py"
_HISTORY = "tests/storage/metadata/test_snapshots.py"
_KEEPING = "tests/storage/write/test_keeping_writes.py"
_LOOKS = "tests/storage/metadata/test_shared_look.py"
_LONG = "tests/storage/tables/test_long_reads.py"
_MAINTENANCE_CUTS = "tests/cut_points/test_maintenance_cut_points.py"
_ORPHANS = "tests/storage/maintenance/test_orphans.py"
_RESCALE = "tests/storage/compact/test_rescaling.py"
_NAMES = "tests/storage/tables/test_names.py"
_OVERWRITE = "tests/storage/write/test_conditional_writes.py"
_RETAINED = "tests/storage/metadata/test_expiry_guard.py"
_SERIAL = "tests/processes/test_serial_commits.py"
_TIME = "tests/storage/metadata/test_store_clock.py"
_UNDROP = "tests/storage/tables/test_undrop.py"
_STALE = "tests/storage/test_table_staleness.py"
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
        old="            seen = await _read_back(store, attempt, error, Backoff(policy, contact))\n",
        new="            raise error\n",
        tests=(
            f"{_COMMIT}::test_every_cut_point_of_a_commit",
            f"{_CUTS}::test_every_cut_point_of_a_call[append-contended]",
        ),
    ),
    Mutant(
        rule="read-back on anything but 412: only a conflict is read back",
        path="lakehouse/io/conditional.py",
        old="            seen = await _read_back(store, attempt, error, Backoff(policy, contact))\n",
        new="            if not isinstance(error, ConflictError):\n                raise error\n"
        "            seen = await _read_back(store, attempt, error, Backoff(policy, contact))\n",
        tests=(
            f"{_COMMIT}::test_every_cut_point_of_a_commit",
            f"{_CUTS}::test_every_cut_point_of_a_call[append-contended]",
        ),
    ),
    Mutant(
        rule="names: whoever comes last has the name",
        path="lakehouse/storage/tables/names.py",
        old="            await self._store.put_if_absent(key, data, token=pointer.token)\n",
        new="            await self._store.put(key, data)\n",
        tests=(f"{_CUTS}::test_two_tables_raced_into_one_name", f"{_NAMES}::test_one_of_many_gets_a_name"),
    ),
    # --- deadline ---------------------------------------------------------------------
    Mutant(
        rule="deadline: a commit is sent on old knowledge",
        path="lakehouse/storage/commit/committer.py",
        old="        if self._clock.steady() - head.seen_at > self._snapshots.deadline_s:\n"
        "            # Nothing",
        new="        if False:\n            # Nothing",
        tests=(f"{_COMMIT}::test_no_commit_is_sent_on_old_knowledge",),
    ),
    Mutant(
        rule="deadline: a late answer is believed",
        path="lakehouse/storage/commit/committer.py",
        old="        if self._clock.steady() - head.seen_at > self._snapshots.deadline_s:\n"
        "            self._snapshots.forget()\n            return await self._settle_late",
        new="        if False:\n"
        "            self._snapshots.forget()\n            return await self._settle_late",
        tests=(
            f"{_COMMIT}::test_a_late_answer_is_not_believed",
            f"{_CUTS}::test_a_call_that_wakes_up_after_expiry_tells_the_truth",
        ),
    ),
    Mutant(
        rule="deadline: a lost race makes knowledge younger",
        path="lakehouse/storage/commit/committer.py",
        old="            return self._snapshots.note(self._snapshots.decoded(winner), head.seen_at)",
        new="            return self._snapshots.note(self._snapshots.decoded(winner), began)",
        tests=(f"{_COMMIT}::test_the_deadline_counts_from_the_head_and_not_from_a_lost_race",),
    ),
    Mutant(
        rule="deadline: 'there is no next one' is believed however late it is said (the clock after a 404)",
        path="lakehouse/storage/metadata/snapshots.py",
        old="            if not self.is_late(known.seen_at):\n                return self.note(known",
        new="            if True:\n                return self.note(known",
        tests=(f"{_HISTORY}::test_a_late_answer_that_nothing_is_newer_is_not_believed",),
    ),
    Mutant(
        rule="deadline: what was listed and is not found never was, however long ago it was listed",
        path="lakehouse/storage/metadata/snapshots.py",
        old="                if self.is_late(began):\n",
        new="                if False:\n",
        tests=(
            f"{_HISTORY}::test_a_snapshot_that_expired_since_it_was_listed_is_not_taken_for_one_that_never_was",
        ),
    ),
    Mutant(
        rule="long reads: none is pinned before the grace is over",
        path="lakehouse/storage/tables/long_reads.py",
        old="        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)",
        new="        pass",
        tests=(f"{_LONG}::test_a_long_read_is_pinned_until_it_ends[count]",),
    ),
    # --- looks at the head ------------------------------------------------------------
    Mutant(
        rule="looks: who comes while a look is under way is given its answer",
        path="lakehouse/storage/metadata/shared_look.py",
        old="        if last is None or last.loop is not loop or last.has_begun:\n",
        new="        if last is None or last.loop is not loop or not last.is_under_way:\n",
        tests=(
            f"{_LOOKS}::test_no_call_is_given_a_look_that_began_before_it",
            f"{_STALE}::test_a_get_sees_what_was_acknowledged_before_it_though_a_look_is_under_way",
        ),
    ),
    Mutant(
        rule="pinned reads: a look vouches for a snapshot for ever",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        if age_s > bound_s:\n            return None\n",
        new="",
        tests=(f"{_STALE}::test_an_expired_snapshot_is_answered_for_a_quarter_of_the_grace_and_no_longer",),
    ),
    Mutant(
        rule="staleness: a bound may be longer than what a look vouches for",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        known, bound_s = self._head, min(bound_s, KEPT_S)\n",
        new="        known = self._head\n",
        tests=(f"{_STALE}::test_no_bound_is_longer_than_what_a_look_vouches_for",),
    ),
    # --- a snapshot that LATEST names -------------------------------------------------
    Mutant(
        rule="hint above the head: the newest snapshot there is is the head, whatever LATEST proves",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        if newest.id >= hint.snapshot or hint.token is None:",
        new="        if True:",
        tests=(f"{_HISTORY}::test_a_lost_snapshot_that_the_hint_names_is_damage",),
    ),
    Mutant(
        rule="hint above the head: it is damage without a second look",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        found = await self._second_look(hint)\n",
        new="        found = None\n",
        tests=(f"{_HISTORY}::test_a_snapshot_that_listings_do_not_show_yet_is_looked_at_again",),
    ),
    Mutant(
        rule="hint above the head: a damaged one, or another table's, is believed",
        path="lakehouse/format/metadata/hint.py",
        old=" if sealed.table == table else None)",
        new=")",
        tests=(f"{_HISTORY}::test_a_hint_without_proof_blocks_nobody",),
    ),
    Mutant(
        rule="hint above the head: repair leaves the ids of lost snapshots free",
        path="lakehouse/storage/maintenance/repair.py",
        old="        for _ in range(head.id, newest):\n",
        new="        head = dataclasses.replace(head.with_positions(), id=newest)\n        for _ in ():\n",
        tests=(f"{_HISTORY}::test_a_writer_that_knows_of_nothing_newer_is_not_overlooked_after_a_repair",),
    ),
    # --- guard of stalled readers -----------------------------------------------------
    Mutant(
        rule="guard of a stalled reader: a gap below an old head is damage",
        path="lakehouse/storage/metadata/expiry_guard.py",
        old="            newer = await snapshots.newer_than(head.id)\n",
        new="            newer = None\n",
        tests=(
            f"{_RETAINED}::test_whoever_lists_the_log_late_begins_anew",
            f"{_RETAINED}::test_a_drop_that_lists_the_log_late_drops",
        ),
    ),
    Mutant(
        rule="guard of a stalled reader: what a commit finds missing of an old head is damage",
        path="lakehouse/storage/commit/committer.py",
        old="await self._snapshots.newer_than(base.id) if call.expired <= _EXPIRED_MAX else None",
        new="None",
        tests=(
            f"{_RETAINED}::test_whoever_lists_the_log_late_begins_anew[tag]",
            f"{_RETAINED}::test_a_write_that_reads_begins_anew",
        ),
    ),
    Mutant(
        rule="guard of a stalled reader: a flushed segment above a kept snapshot is damage",
        path="lakehouse/storage/metadata/snapshots.py",
        old=" and newest.wal.upto >= segment\n",
        new=" and False\n",
        tests=(f"{_RETAINED}::test_a_fresh_reader_is_told_that_the_log_was_flushed",),
    ),
    # --- deletion ---------------------------------------------------------------------
    Mutant(
        rule="horizon check: old uploads are committed",
        path="lakehouse/storage/commit/committer.py",
        old="        _check_horizon(base, call.uploaded_ms)\n",
        new="",
        tests=(f"{_COMMIT}::test_old_uploads_are_refused",),
    ),
    Mutant(
        rule="horizon check: files uploaded by a draft are committed however old they are",
        path="lakehouse/storage/commit/committer.py",
        old="        _check_horizon(base, draft.uploaded_ms)\n",
        new="",
        tests=(f"{_EXPIRE}::test_old_uploads_of_a_reading_write_are_refused",),
    ),
    Mutant(
        rule="horizon check: manifests folded long ago are committed",
        path="lakehouse/storage/commit/committer.py",
        old=" and now < self._fold_ends:",
        new=":",
        tests=(f"{_ORPHANS}::test_folded_manifests_of_a_failed_commit_are_not_used_late",),
    ),
    Mutant(
        rule="horizon: orphans are deleted without a commit that says so",
        path="lakehouse/storage/maintenance/orphans.py",
        old="    if not dry_run:\n        head = (await table.commit(",
        new="    if False:\n        head = (await table.commit(",
        tests=(f"{_ORPHANS}::test_uploads_from_before_the_horizon_are_refused",),
    ),
    Mutant(
        rule="delete_grace: objects are deleted as soon as they are unreachable",
        path="lakehouse/storage/maintenance/expire.py",
        old=" if grace_s else self._head",
        new=" if False else self._head",
        tests=(
            f"{_EXPIRE}::test_objects_go_when_the_grace_is_over",
            f"{_EXPIRE}::test_stalled_readers_and_writers_have_the_grace",
        ),
    ),
    Mutant(
        rule="delete_grace: a machine's clock tells when it is over",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        return told if told is not None else self.time.now_ms()",
        new="        return self._clock.now_ms()",
        tests=(f"{_EXPIRE}::test_clocks_of_machines_delete_nothing_early",),
    ),
    Mutant(
        rule="the store's Date: snapshots are stamped by a machine's clock where reads do not tell the time",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        if not self.time.is_known:",
        new="        if False:",
        tests=(
            f"{_TIME}::test_snapshots_are_stamped_with_the_stores_time",
            f"{_TIME}::test_a_commit_by_a_clock_that_is_ahead_ends_no_pin",
        ),
    ),
    Mutant(
        rule="the store's Date: a pin ends by a machine's clock",
        path="lakehouse/storage/tables/pins.py",
        old="await table.snapshots.store_now_ms(view.snapshot)",
        new="table.snapshots.time.now_ms()",
        tests=(f"{_TIME}::test_a_pin_lasts_as_long_as_it_says",),
    ),
    Mutant(
        rule="the store's Date: a pin ends by the times of snapshots",
        path="lakehouse/storage/commit/draft.py",
        old="refs=_refs(head, draft, now_ms),",
        new="refs=_refs(head, draft, time_ms),",
        tests=(f"{_TIME}::test_snapshots_of_the_future_end_no_pin",),
    ),
    Mutant(
        rule="the store's Date: where answers do not tell the time, a machine's clock deletes",
        path="lakehouse/storage/metadata/store_clock.py",
        old="    if answered is not None:\n        return answered\n    probe",
        new="    return answered\n    probe",
        tests=(
            f"{_TIME}::test_a_store_without_a_clock_tells_the_time_by_what_is_written",
            f"{_TIME}::test_files_of_a_directory_tell_the_time",
        ),
    ),
    Mutant(
        rule="horizon check: uploads whose receipts have no time are committed however old they are",
        path="lakehouse/storage/files/file_writer.py",
        old="            if answered is None and self.first_answer_ms is None:",
        new="            if False:",
        tests=(f"{_TIME}::test_an_upload_is_dated_where_receipts_are_not",),
    ),
    Mutant(
        rule="tags in the log: expiry does not look at them",
        path="lakehouse/storage/maintenance/expire.py",
        old="number < limit and number not in tagged]",
        new="number < limit]",
        tests=(
            f"{_EXPIRE}::test_tagged_and_pinned_snapshots_stay",
            f"{_EXPIRE}::test_a_tag_and_an_expiry_race_for_the_log",
        ),
    ),
    Mutant(
        rule="expiry: files that a rollback brought back are deleted with the snapshots that lost them",
        path="lakehouse/storage/maintenance/expire.py",
        old="        garbage = self._done.others(known.others(list(paths)))",
        new="        garbage = self._done.others(list(paths))",
        tests=(f"{_EXPIRE}::test_files_that_a_rollback_brought_back_stay",),
    ),
    Mutant(
        rule="expiry: snapshots are deleted before their objects",
        path="lakehouse/storage/maintenance/expire.py",
        old="            batch = doomed[begin : begin + _BATCH]\n",
        new="            batch = doomed[begin : begin + _BATCH]\n"
        "            await self._deletions.delete((snapshot_path(listed.ids[at]), 0) for at in batch)\n",
        tests=(f"{_MAINTENANCE_CUTS}::test_every_cut_point_of_maintenance[expire]",),
    ),
    Mutant(
        rule="foreign objects: whatever lies in a table's directory is deleted",
        path="lakehouse/storage/maintenance/orphans.py",
        old="            if kind is None:\n",
        new="            if False:\n",
        tests=(f"{_ORPHANS}::test_foreign_objects_stay",),
    ),
    Mutant(
        rule="rescale: files of another number of buckets are committed as they are",
        path="lakehouse/storage/commit/committer.py",
        old="added=await call.resplit.fitting(draft.added, schema)",
        new="added=draft.added",
        tests=(f"{_RESCALE}::test_a_write_that_finds_another_number_of_buckets",),
    ),
    Mutant(
        rule="rescale: intervals of runs that come together may overlap",
        path="lakehouse/storage/compact/rescaling.py",
        old="        alone = buckets % entry.total_buckets == 0\n",
        new="        alone = True\n",
        tests=(f"{_RESCALE}::test_writes_and_compactions_go_on",),
    ),
    Mutant(
        rule="unknown outcome: files of a commit that may be there are deleted",
        path="lakehouse/storage/tables/commit_result.py",
        old="    except CommitUnknownError:\n        raise\n    except LakehouseError:",
        new="    except LakehouseError:",
        tests=(f"{_CUTS}::test_every_cut_point_of_a_call[append-alone]",),
    ),
    Mutant(
        rule="tags in the log: making one does not look at the head",
        path="lakehouse/storage/commit/changes.py",
        old="            if not is_kept and not base.snapshot.earliest <= ref.snapshot <= base.snapshot.id:",
        new="            if False:",
        tests=("tests/storage/commit/test_changes.py::test_tags_are_made_once_and_dropped",),
    ),
    # --- what others commit -----------------------------------------------------------
    Mutant(
        rule="exactly once: sequences are not looked up",
        path="lakehouse/storage/commit/committer.py",
        old="            recorded = await self._recorded(base, writer)",
        new="            recorded = None",
        tests=(
            f"{_COMMIT}::test_a_sequence_is_committed_once",
            f"{_CUTS}::test_a_write_with_a_sequence_can_be_repeated_until_it_is_done",
        ),
    ),
    Mutant(
        rule="overwrite at the head: it removes what was there before the last commit",
        path="lakehouse/storage/commit/changes.py",
        old="        for one in await base.entries():",
        new="        for one in [one for one in await base.entries() if one.at != base.snapshot.id]:",
        tests=(f"{_OVERWRITE}::test_an_overwrite_of_a_partition_removes_what_is_there_when_it_commits",),
    ),
    Mutant(
        rule="reading writes: what others commit is not looked at",
        path="lakehouse/storage/write/conditional_writes.py",
        old="        if self._base is None or not await self._still_right(self._base, base):",
        new="        if self._base is None:",
        tests=(f"{_OVERWRITE}::test_a_delete_sees_rows_that_begin_to_match",),
    ),
    Mutant(
        rule="reading writes: files that others removed do not matter",
        path="lakehouse/storage/write/conditional_writes.py",
        old="        if not known <= {entry.path for entry in entries}:",
        new="        if False:",
        tests=(f"{_SERIAL}::test_a_rollback_in_the_middle_brings_rows_back_for_everybody",),
    ),
    Mutant(
        rule="reading writes: keys of its own that others write do not matter",
        path="lakehouse/storage/write/conditional_writes.py",
        old=" or _overlaps(entry, self.written.entries)\n",
        new="\n",
        tests=(f"{_OVERWRITE}::test_a_delete_sees_rows_that_match_no_more",),
    ),
    Mutant(
        rule="on_conflict=error: keys are looked for once",
        path="lakehouse/storage/write/conditional_writes.py",
        old="        if paths == self._checked:",
        new="        if self._checked:",
        tests=(f"{_OVERWRITE}::test_one_of_two_inserts_of_a_key_wins",),
    ),
    Mutant(
        rule="pruning above the bottom: files without a match are left out although they hide older rows",
        path="lakehouse/storage/scan/file_plan.py",
        old="            elif any(ranges.overlap(entry) for ranges in older):",
        new="            elif False:",
        tests=("tests/storage/scan/test_scan.py",),
    ),
    # --- identity ---------------------------------------------------------------------
    Mutant(
        rule="table uuid: a snapshot of another table is taken",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        if found.table != self._table:",
        new="        if False:",
        tests=(f"{_DAMAGE}::test_damage_is_noticed_by_those_who_need_the_object",),
    ),
    Mutant(
        rule="table uuid: a schema of another table is taken",
        path="lakehouse/storage/metadata/schemas.py",
        old="        if (stored_schema.schema.id, stored_schema.table) != (ref.id, self.table):",
        new="        if stored_schema.schema.id != ref.id:",
        tests=(f"{_DAMAGE}::test_damage_is_noticed_by_those_who_need_the_object",),
    ),
    Mutant(
        rule="names: a pointer of another table is taken",
        path="lakehouse/storage/tables/names.py",
        old="        if pointer.name != str(name):",
        new="        if False:",
        tests=(f"{_NAMES}::test_objects_in_anothers_place_are_noticed",),
    ),
    Mutant(
        rule="schema lineage: rows written with an undone schema are committed",
        path="lakehouse/storage/commit/committer.py",
        old="        if used - known:\n",
        new="        if False:\n",
        tests=(_EVOLVING,),
    ),
    Mutant(
        rule="field ids: a rollback gives ids out again",
        path="lakehouse/storage/commit/alter.py",
        old="        highest_field_id=before.schema.highest_field_id,\n",
        new="",
        tests=(f"{_EVOLVING}::test_a_column_after_a_rollback_is_a_new_one",),
    ),
    # --- drop, undrop, purge ----------------------------------------------------------
    Mutant(
        rule="purge: objects are deleted without turning the pointer first",
        path="lakehouse/storage/maintenance/purge.py",
        old="        if state is not NameState.PURGING:\n",
        new="        if False:\n",
        tests=(f"{_UNDROP}::test_of_undrop_and_purge_one_wins",),
    ),
    Mutant(
        rule="purge: the log is looked at before the pointer",
        path="lakehouse/storage/maintenance/purge.py",
        old="if state is NameState.LIVE and not (is_drop and await is_dropped(table)):",
        new="if state is NameState.LIVE and not is_drop:",
        tests=(f"{_UNDROP}::test_of_undrop_and_purge_one_wins",),
    ),
    Mutant(
        rule="keep: rows that were filled up stay as they are, whatever others commit meanwhile",
        path="lakehouse/storage/write/keeping_writes.py",
        old="        if self._base is None or not await self._still_right(self._base, base):\n",
        new="        if self._base is None:\n",
        tests=(
            f"{_KEEPING}::test_keeping_is_reading_changing_and_writing_at_once",
            f"{_KEEPING}::test_many_processes_add_to_one_row_and_lose_nothing",
        ),
    ),
    Mutant(
        rule="keep: files that went away are passed over",
        path="lakehouse/storage/write/keeping_writes.py",
        old="        if not known <= {one.path for one in entries}:\n            return False\n",
        new="",
        tests=(f"{_KEEPING}::test_rows_that_others_took_away_are_new_rows",),
    ),
    Mutant(
        rule="changes: rows that a repair left out are passed over",
        path="lakehouse/storage/commit/kinds.py",
        old="        CommitKind.REPAIR: _REMOVES,\n",
        new="        CommitKind.REPAIR: _KEEPS,\n",
        tests=("tests/storage/cdc/test_appended_rows.py::test_changes_across_a_repair_are_refused",),
    ),
    Mutant(
        rule="undrop: it follows whatever drop there is, not the one it is to undo",
        path="lakehouse/storage/commit/changes.py",
        old="if base.snapshot.token == self.drop.token else None",
        new="if base.snapshot.kind is CommitKind.DROP else None",
        tests=(f"{_UNDROP}::test_a_drop_that_came_later_is_not_undone",),
    ),
    Mutant(
        rule="undrop: the pointer is replaced whatever version stands there",
        path="lakehouse/storage/tables/undrop.py",
        old="            await self._names.replace(live, version=version)\n",
        new="            await self._names.replace(live, version=(await self._look())[1])\n",
        tests=(f"{_UNDROP}::test_of_undrop_and_create_one_has_the_name",),
    ),
    Mutant(
        rule="drop: the name of a table that came back is given away",
        path="lakehouse/storage/tables/names.py",
        old="        if token is not None and current.token != token:\n",
        new="        if False:\n",
        tests=(f"{_UNDROP}::test_a_drop_does_not_take_the_name_of_a_table_that_came_back",),
    ),
    Mutant(
        rule="drop: a table that came back is taken for dropped by those that have it open",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        if known is not None and not is_dropped and not",
        new="        if known is not None and not",
        tests=(f"{_UNDROP}::test_tables_open_since_before_the_drop_go_on",),
    ),
)
