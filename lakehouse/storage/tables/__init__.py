"""Tables as a process has them open: found by name, made, dropped, brought back, pinned, described.

Words: *environment* (a warehouse in this process) → *name* → *open table* → *view* (one snapshot and its
schema). A *pin* is a name that keeps a snapshot; a *commit result* says what a commit did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.tables.arguments import check_count
    from lakehouse.storage.tables.commit_result import CommitResult
    from lakehouse.storage.tables.create import create_table, open_table
    from lakehouse.storage.tables.drop import DatabaseDropResult, DropResult, drop_database, drop_named
    from lakehouse.storage.tables.index_files import SnapshotIndexSource, TableIndexSource
    from lakehouse.storage.tables.long_reads import PIN_S, grace_s_of, holding, reading, until_pinned_s
    from lakehouse.storage.tables.moments import time_ms_of
    from lakehouse.storage.tables.names import Names
    from lakehouse.storage.tables.open_tables import (
        CommitListener,
        Environment,
        OpenedTables,
        OpenTable,
        is_dropped,
        shared_table,
    )
    from lakehouse.storage.tables.pins import drop_pin, make_pin
    from lakehouse.storage.tables.publishing import Publisher, PublishingLag, PublishReport
    from lakehouse.storage.tables.relations import (
        files_relation,
        indexes_relation,
        manifests_relation,
        partitions_relation,
        schemas_relation,
        snapshots_relation,
        tags_relation,
    )
    from lakehouse.storage.tables.undrop import DatabaseUndropResult, undrop_database, undrop_table
    from lakehouse.storage.tables.view import View
    from lakehouse.storage.tables.views import (
        ViewDefinition,
        ViewDraft,
        create_view,
        drop_view,
        read_view,
        rename_view,
        undrop_view,
        view_versions,
    )

__all__ = [
    "PIN_S", "CommitListener", "CommitResult", "DatabaseDropResult", "DatabaseUndropResult",
    "DropResult", "Environment", "Names", "OpenTable", "OpenedTables", "PublishReport", "Publisher",
    "PublishingLag", "SnapshotIndexSource", "TableIndexSource", "View", "ViewDefinition", "ViewDraft",
    "check_count", "create_table", "create_view", "drop_database", "drop_named", "drop_pin", "drop_view",
    "files_relation", "grace_s_of", "holding", "indexes_relation", "is_dropped", "make_pin",
    "manifests_relation", "open_table", "partitions_relation", "read_view", "reading", "rename_view",
    "schemas_relation", "shared_table", "snapshots_relation", "tags_relation", "time_ms_of",
    "undrop_database", "undrop_table", "undrop_view", "until_pinned_s", "view_versions",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "arguments": "check_count",
        "commit_result": "CommitResult",
        "create": "create_table open_table",
        "drop": "DatabaseDropResult DropResult drop_database drop_named",
        "index_files": "SnapshotIndexSource TableIndexSource",
        "long_reads": "PIN_S grace_s_of holding reading until_pinned_s",
        "moments": "time_ms_of",
        "names": "Names",
        "open_tables": "CommitListener Environment OpenTable OpenedTables is_dropped shared_table",
        "pins": "drop_pin make_pin",
        "publishing": "PublishReport Publisher PublishingLag",
        "relations": (
            "files_relation indexes_relation manifests_relation partitions_relation schemas_relation "
            "snapshots_relation tags_relation"
        ),
        "undrop": "DatabaseUndropResult undrop_database undrop_table",
        "view": "View",
        "views": (
            "ViewDefinition ViewDraft create_view drop_view read_view rename_view undrop_view view_versions"
        ),
    },
)
