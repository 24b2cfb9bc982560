"""Purge of dropped views: their names are turned to ``purging``, then their older versions are deleted.

A drop keeps the newest version as an object of the view's directory, so every dropped view has one: the
directories are all that is listed.

Invariant: nothing of a view is deleted before its name says that the view cannot come back.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from lakehouse.errors import ConflictError
from lakehouse.format.metadata import NameState
from lakehouse.ids import new_token
from lakehouse.storage.maintenance.deletions import Deletions
from lakehouse.storage.metadata.paths import (
    HISTORY_PREFIX,
    join,
    pointer_key,
    view_of_directory,
    view_version_number,
)
from lakehouse.storage.metadata.store_clock import ask_store_ms
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.names import Names
from lakehouse.storage.tables.open_tables import Environment

__all__ = ["PurgedViews", "purge_views"]


@dataclass(slots=True, kw_only=True)
class PurgedViews:
    """Directories of dropped views."""

    purged: list[str] = field(default_factory=list)
    """Directories whose objects were deleted."""
    waiting: list[str] = field(default_factory=list)
    """Directories of views that were dropped too recently, or whose name was changed meanwhile."""
    foreign: int = 0
    """Objects in the directories that are not ours; they stay."""


async def purge_views(
    env: Environment,
    names: Names,
    databases: AsyncIterator[str],
    deletions: Deletions,
    *,
    grace_s: float,
    dry_run: bool,
) -> PurgedViews:
    """Deletes the objects of views that were dropped long enough ago.

    Args:
        env: environment of the connection.
        names: names of the warehouse.
        databases: prefixes of databases, dropped ones too.
        deletions: deletes and counts.
        grace_s: seconds since the drop.
        dry_run: whether nothing is to be changed.
    """
    found, made_as = dict[uuid.UUID, str](), dict[uuid.UUID, TableName]()
    async for database in databases:
        async for directory in env.store.directories(database + HISTORY_PREFIX):
            parts = view_of_directory(directory)
            if parts is not None:
                found[uuid.UUID(parts[1])] = directory.removesuffix("/")
                made_as[uuid.UUID(parts[1])] = TableName(database.removesuffix("/"), parts[0])
    run = PurgedViews()
    # A view that no name knows any more stays: it may be between two names while it is renamed.
    known = await names.names_of(made_as)
    for view, name in known.items():
        ends = await _turned(env, names, name, view, found[view], grace_s=grace_s, dry_run=dry_run)
        if ends is None:
            continue
        (run.purged if ends else run.waiting).append(found[view])
        if ends:
            run.foreign += await _delete(env, found[view], deletions)
    return run


async def _turned(
    env: Environment,
    names: Names,
    name: TableName,
    view: uuid.UUID,
    directory: str,
    *,
    grace_s: float,
    dry_run: bool,
) -> bool | None:
    """Sets the name to purging; returns whether the view's objects go now, None when it is not dropped."""
    pointer, version = await names.look(name)
    state = pointer.state_of(view)
    if state is NameState.PURGING:
        return True
    if state is not NameState.DROPPED:
        return None
    if grace_s > 0 and await _age_ms(env, name, directory) < grace_s * 1000:
        return False
    if not dry_run:
        try:
            await names.replace(pointer.purging(view, token=new_token()), version=version)
        except ConflictError:
            return False
    return True


async def _age_ms(env: Environment, name: TableName, directory: str) -> float:
    """Returns the milliseconds since a name was changed last, by the store's clock."""
    key = pointer_key(name.database, name.table)
    about = await env.store.head(key)
    now_ms = about.store_time_ms
    if now_ms is None:
        now_ms = await ask_store_ms(env.store, directory, key)
    return (now_ms or 0) - (about.modified_ms or 0)


async def _delete(env: Environment, directory: str, deletions: Deletions) -> int:
    """Deletes the versions of a view; returns how many objects are foreign."""
    ours, foreign = list[tuple[str, int]](), 0
    async for listed in env.store.list(join(directory, "")):
        if view_version_number(listed.key.removeprefix(join(directory, ""))) is None:
            foreign += 1
        else:
            ours.append((listed.key, listed.size))
    await deletions.delete(ours)
    return foreign
