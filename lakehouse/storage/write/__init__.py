"""Writes: blind, conditional, from several processes, streaming; and the flush of the log.

Words: *blind* (reads nothing) · *conditional* (reads what it decides by) · *distributed* (files of other
processes, one commit) · *streaming*: *put* → *segment* → *memtable* → *flush* → files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.write.add_if_unchanged import KeySpan
    from lakehouse.storage.write.blind_writes import WriterId, check_message, check_writer, recorded_snapshot
    from lakehouse.storage.write.conditional_writes import matching_rows, refuse_ignored_deletes
    from lakehouse.storage.write.conflicting_keys import refuse_shared_keys
    from lakehouse.storage.write.distributed_writes import (
        commit_decided,
        commit_uploaded,
        in_runs,
        overwrite_uploaded,
        replace_uploaded,
    )
    from lakehouse.storage.write.flush import flush_table
    from lakehouse.storage.write.streaming_writer import TableWriter
    from lakehouse.storage.write.writer_session import Ack, WriterReport

__all__ = [
    "Ack", "KeySpan", "TableWriter", "WriterId", "WriterReport", "check_message", "check_writer",
    "commit_decided", "commit_uploaded", "flush_table", "in_runs", "matching_rows", "overwrite_uploaded",
    "recorded_snapshot", "refuse_ignored_deletes", "refuse_shared_keys", "replace_uploaded",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "add_if_unchanged": "KeySpan",
        "blind_writes": "WriterId check_message check_writer recorded_snapshot",
        "conditional_writes": "matching_rows refuse_ignored_deletes",
        "conflicting_keys": "refuse_shared_keys",
        "distributed_writes": "commit_decided commit_uploaded in_runs overwrite_uploaded replace_uploaded",
        "flush": "flush_table",
        "streaming_writer": "TableWriter",
        "writer_session": "Ack WriterReport",
    },
)
