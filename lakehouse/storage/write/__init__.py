"""Writes: blind, conditional, from several processes, streaming; and the flush of the log.

Words: *blind* (reads nothing) · *conditional* (reads what it decides by) · *distributed* (files of other
processes, one commit) · *streaming*: *put* → *segment* → *memtable* → *flush* → files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.write.add_if_unchanged import AddIfUnchanged, KeySpan
    from lakehouse.storage.write.conditional_writes import (
        matching_rows,
        overwriting_change,
        refuse_ignored_deletes,
    )
    from lakehouse.storage.write.conflicting_keys import refuse_shared_keys
    from lakehouse.storage.write.distributed_writes import commit_uploaded, in_runs
    from lakehouse.storage.write.flush import flush_table
    from lakehouse.storage.write.streaming_writer import TableWriter
    from lakehouse.storage.write.table_write import WriterId, check_message, check_writer, recorded_snapshot
    from lakehouse.storage.write.writer_session import Ack, WriterReport

__all__ = [
    "Ack", "AddIfUnchanged", "KeySpan", "TableWriter", "WriterId", "WriterReport", "check_message",
    "check_writer", "commit_uploaded", "flush_table", "in_runs", "matching_rows", "overwriting_change",
    "recorded_snapshot", "refuse_ignored_deletes", "refuse_shared_keys",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "add_if_unchanged": "AddIfUnchanged KeySpan",
        "conditional_writes": "matching_rows overwriting_change refuse_ignored_deletes",
        "conflicting_keys": "refuse_shared_keys",
        "distributed_writes": "commit_uploaded in_runs",
        "flush": "flush_table",
        "streaming_writer": "TableWriter",
        "table_write": "WriterId check_message check_writer recorded_snapshot",
        "writer_session": "Ack WriterReport",
    },
)
