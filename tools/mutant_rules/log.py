"""Rules of the write-ahead log and its writers."""

from __future__ import annotations

from tools.mutant_rules.model import Mutant

__all__ = ["LOG"]

_EXPIRE = "tests/storage/maintenance/test_expire.py"
_ORPHANS = "tests/storage/maintenance/test_orphans.py"
_APPEND = "tests/storage/wal/test_appender.py"
_ENDS = "tests/storage/write/test_writer_session_ends.py"
_FLUSH = "tests/storage/write/test_flush.py"
_LOCAL = "tests/io/backends/test_local.py"
_MEMORY = "tests/storage/wal/test_log_memory.py"
_LOG = "tests/storage/wal/test_log.py"
_TAKEN_BACK = "tests/damage/test_taken_back.py"
_REAL_TIME = "tests/processes/test_real_time_order.py"
_WRITER = "tests/storage/write/test_streaming_writer.py"

LOG = (
    # --- the write-ahead log ----------------------------------------------------------
    Mutant(
        rule="cover: commits say nothing of the log",
        path="lakehouse/storage/commit/committer.py",
        old="            tail=call.tail,\n        )\n\n    async def _fitting",
        new="            tail=None,\n        )\n\n    async def _fitting",
        tests=(f"{_WRITER}::test_commits_stand_above_what_was_acknowledged_before",),
    ),
    Mutant(
        rule="tail read after the call began: a commit covers what was known of the log before",
        path="lakehouse/storage/tables/open_tables.py",
        old="        return await from_head(self.snapshots, view.snapshot, self.wal.tail)",
        new="        return Tail(after=view.snapshot.wal.upto)",
        tests=(f"{_WRITER}::test_commits_stand_above_what_was_acknowledged_before",),
    ),
    Mutant(
        rule="listings: the last segment of one is there although no read finds it",
        path="lakehouse/storage/metadata/dense_log.py",
        old="        if numbers and numbers[-1][0] > self._known:",
        new="        if False:",
        tests=(f"{_TAKEN_BACK}::test_rows_are_as_if_the_segment_had_never_been",),
    ),
    Mutant(
        rule="listings: the last snapshot of one is the head although no read finds it",
        path="lakehouse/storage/metadata/snapshots.py",
        old="        numbers = await self.log.highest(after=after)",
        new="        numbers = (await self.log.highest(after=after))[:1]",
        tests=(f"{_TAKEN_BACK}::test_a_snapshot_that_came_to_nothing_is_none",),
    ),
    Mutant(
        rule="flush: segments planned together are flushed together although a commit stands between them",
        path="lakehouse/storage/write/flush.py",
        old="                if not _parted(starts, lo, hi):",
        new="                if True:",
        tests=(f"{_FLUSH}::test_a_group_that_a_commit_parts_is_flushed_in_two",),
    ),
    Mutant(
        rule="flush: groups are planned across commits",
        path="lakehouse/storage/write/flush.py",
        old="            parted = bisect.bisect(starts, place) != bisect.bisect(starts, last)",
        new="            parted = False",
        tests=(f"{_FLUSH}::test_groups_hold_every_segment_once_and_no_run_stands_in_one",),
    ),
    Mutant(
        rule="D in D∘U for the log: of the rows of a segment the last one counts, whatever came before",
        path="lakehouse/storage/wal/segment_runs.py",
        old="    rows = folded_input(segment_rows(segments, schema), schema)",
        new="    rows = segment_rows(segments, schema)",
        tests=(f"{_FLUSH}::test_a_deletion_between_operands_counts",),
    ),
    Mutant(
        rule="D in D∘U for flushes: of the rows of a key the last one counts, whatever came before",
        path="lakehouse/storage/write/flush.py",
        old="    rows = folded_input(rows, schema)\n",
        new="",
        tests=(f"{_FLUSH}::test_a_deletion_between_operands_counts",),
    ),
    Mutant(
        rule="fence: a writer that lost a create acknowledges all the same",
        path="lakehouse/storage/wal/appender.py",
        old="            raise await self._fenced(lost) from lost",
        new="            pass",
        tests=(
            f"{_WRITER}::test_a_second_writer_fences_the_first",
            f"{_APPEND}::test_each_writer_has_a_higher_epoch",
        ),
    ),
    Mutant(
        rule="fence: a number that is free is the next one, however long ago that was known",
        path="lakehouse/storage/wal/appender.py",
        old="        if began - self._seen_at > self._deadline_s and await self._is_there(header):",
        new="        if False:",
        tests=(f"{_APPEND}::test_a_writer_that_slept_finds_its_number_free_and_is_fenced",),
    ),
    Mutant(
        rule="fence: a late answer to a segment is believed",
        path="lakehouse/storage/wal/appender.py",
        old="        if now - self._seen_at > self._deadline_s:",
        new="        if False:",
        tests=(f"{_APPEND}::test_a_create_that_is_held_up_is_not_believed",),
    ),
    Mutant(
        rule="fence: a late fence is believed",
        path="lakehouse/storage/wal/appender.py",
        old="        if clock.steady() - seen_at > deadline_s:",
        new="        if False:",
        tests=(f"{_APPEND}::test_a_fence_that_is_held_up_is_looked_at_again",),
    ),
    Mutant(
        rule="fence: clients' sequences end with their writer",
        path="lakehouse/storage/wal/appender.py",
        old="            writers=marks,\n",
        new="",
        tests=(f"{_WRITER}::test_a_sequence_is_put_once_also_by_the_next_writer",),
    ),
    Mutant(
        rule="drop: writers are fenced off before it only",
        path="lakehouse/storage/tables/drop.py",
        old="made the drop ended before this.\n        await _fence_off(table, head)\n",
        new="made the drop ended before this.\n        pass\n",
        tests=(f"{_ENDS}::test_a_writer_at_any_request_of_a_drop_acknowledges_nothing_after_it",),
    ),
    Mutant(
        rule="overwrite: it takes no segments away",
        path="lakehouse/storage/commit/draft.py",
        old="    if draft.clears:\n        return ()\n",
        new="",
        tests=(
            f"{_WRITER}::test_overwrites_take_acknowledged_rows_away",
            f"{_ENDS}::test_an_overwrite_by_nothing_empties_the_log",
        ),
    ),
    Mutant(
        rule="overwrite: rows of a partition that are in segments only stay",
        path="lakehouse/storage/commit/changes.py",
        old="        check_flushed(removed)\n        if not removed",
        new="        removed = [one for one in removed if '#' not in one.path]\n        if not removed",
        tests=(f"{_WRITER}::test_overwrites_take_acknowledged_rows_away",),
    ),
    Mutant(
        rule="compaction: covered segments are no barrier",
        path="lakehouse/storage/metadata/run_order.py",
        old="        ((at, 0, one.first), (at, 0, one.last))\n        for one in snapshot.segments\n",
        new="        ((at, 0, one.first), (at, 0, one.last))\n        for one in ()\n",
        tests=(f"{_FLUSH}::test_a_compaction_does_not_merge_around_segments",),
    ),
    Mutant(
        rule="fresh reads: the head is read before the log is listed",
        path="lakehouse/storage/tables/open_tables.py",
        old="        listed = await self.wal.log.listed(after=_covered(known))\n"
        "        view = await self.newest()\n",
        new="        view = await self.newest()\n"
        "        listed = await self.wal.log.listed(after=_covered(view.snapshot))\n",
        tests=(f"{_REAL_TIME}::test_a_fresh_read_shows_no_put_without_the_commit_before_it",),
    ),
    Mutant(
        rule="a gap in the log is passed over",
        path="lakehouse/storage/wal/log.py",
        old="            if number > expected:",
        new="            if False:",
        tests=(f"{_LOG}::test_a_gap_is_damage",),
    ),
    Mutant(
        rule="exactly once: a repeated put is acknowledged before the first one is durable",
        path="lakehouse/storage/write/writer_session.py",
        old="        if pending is not None and pending[0] >= sequence:",
        new="        if False:",
        tests=(f"{_ENDS}::test_a_repeated_put_is_acknowledged_with_the_first",),
    ),
    Mutant(
        rule="exactly once: the log takes a sequence it has",
        path="lakehouse/storage/write/writer_session.py",
        old="        if self._appender.marks.get(name, -1) < sequence:",
        new="        if True:",
        tests=(f"{_WRITER}::test_a_sequence_is_put_once_also_by_the_next_writer",),
    ),
    Mutant(
        rule="expiry: the newest segment of the log is deleted too",
        path="lakehouse/storage/maintenance/expire.py",
        old=" or number == self._head.wal.upto:",
        new=":",
        tests=(
            f"{_EXPIRE}::test_segments_go_when_no_snapshot_holds_them",
            f"{_TAKEN_BACK}::test_the_newest_segment_stays_when_another_came_to_nothing",
        ),
    ),
    Mutant(
        rule="expiry: segments that a snapshot holds in no file are deleted",
        path="lakehouse/storage/maintenance/expire.py",
        old=" for number, size in spare if number not in needed]",
        new=" for number, size in spare]",
        tests=(f"{_EXPIRE}::test_segments_that_a_tagged_snapshot_holds_stay",),
    ),
    Mutant(
        rule="orphans: what expired snapshots keep for their grace is swept",
        path="lakehouse/storage/maintenance/orphans.py",
        old="    waiting = [number async for number, _ in snapshots.log.sizes() if number not in kept]",
        new="    waiting: list[int] = []",
        tests=(f"{_ORPHANS}::test_what_any_snapshot_object_refers_to_stays",),
    ),
    Mutant(
        rule="orphans: however young, they are swept",
        path="lakehouse/storage/maintenance/orphans.py",
        old="            if about.modified_ms is None or about.modified_ms >= limit:",
        new="            if about.modified_ms is None:",
        tests=(f"{_ORPHANS}::test_what_nothing_refers_to_goes_after_a_day",),
    ),
    Mutant(
        rule="fsync: the bytes of a file are not on the disk when it is acknowledged",
        path="lakehouse/io/backends/local.py",
        old="                    os.fsync(file.fileno())",
        new="                    pass",
        tests=(f"{_LOCAL}::test_an_answered_write_survives_a_power_cut[put_if_absent]",),
    ),
    Mutant(
        rule="fsync: the name of a file is not on the disk when it is acknowledged",
        path="lakehouse/io/backends/local.py",
        old="            _sync_directory(path.parent)\n        return Stored",
        new="            pass\n        return Stored",
        tests=(f"{_LOCAL}::test_an_answered_write_survives_a_power_cut[put_if_absent]",),
    ),
    Mutant(
        rule="fsync: a directory that was made is not on the disk when a file in it is acknowledged",
        path="lakehouse/io/backends/local.py",
        old="                _sync_directory(made.parent)",
        new="                pass",
        tests=(f"{_LOCAL}::test_an_answered_write_survives_a_power_cut[put]",),
    ),
    Mutant(
        rule="If-None-Match: log segments created through obstore replace what is there",
        path="lakehouse/io/backends/fast.py",
        old='attributes=attributes, mode="create", use_multipart=False',
        new="attributes=attributes, use_multipart=False",
        tests=("tests/io/backends/test_fast_creates.py::test_a_taken_key_is_a_conflict_with_its_winner",),
    ),
    # --- fresh reads in the writer's process ------------------------------------------
    Mutant(
        rule="announce: a writer sends rows before its epoch is in a snapshot",
        path="lakehouse/storage/write/writer_session.py",
        old="        await table.commit(_AnnounceEpoch(appender.epoch), view=view, tail=appender.before)\n",
        new="",
        tests=(
            f"{_MEMORY}::test_no_row_is_sent_before_the_epoch_is_announced",
            f"{_ENDS}::test_a_drop_at_any_request_of_an_opening_leaves_no_writer",
        ),
    ),
    Mutant(
        rule="epoch: memory is read whatever epoch the head has",
        path="lakehouse/storage/wal/log_memory.py",
        old="        return wal is not None and wal.epoch == self.memory.epoch and wal.upto >= self.after",
        new="        self.memory.is_open = True\n        return wal is not None and wal.upto >= self.after",
        tests=(
            f"{_MEMORY}::test_after_a_takeover_elsewhere_memory_is_not_read",
            "tests/models/test_fresh_reads.py",
        ),
    ),
    Mutant(
        rule="on their way: rows that others may have seen are not waited for",
        path="lakehouse/storage/wal/log_memory.py",
        old="        if on_way is not None:\n",
        new="        if False:\n",
        tests=(f"{_MEMORY}::test_rows_on_their_way_are_waited_for",),
    ),
    Mutant(
        rule="uncovered: rows in memory count although the head covers them",
        path="lakehouse/storage/wal/log_memory.py",
        old="            first=max(self.segments[0].header.number, upto + 1),",
        new="            first=self.segments[0].header.number,",
        tests=(f"{_MEMORY}::test_values_in_memory_are_folded_onto_those_in_files",),
    ),
)
