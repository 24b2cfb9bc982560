"""Views: SQL under a name, in versions; made, replaced, dropped, brought back and renamed.

The name's pointer holds the newest version, so one read resolves a view and one replace makes a version.
Before that the version that is replaced is kept as an object of its own, whose key has the view's uuid and
the version's number.

Invariant: every version that was acknowledged can be read, by its number, until the view is purged; and every
name of a live view has a marker, so that a listing of views need not read the pointers of tables.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InternalError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
)
from lakehouse.format.metadata import (
    NameKind,
    NamePointer,
    NameState,
    ViewVersion,
    decode_view_version,
    encode_view_version,
)
from lakehouse.ids import new_token, new_uuid
from lakehouse.io.work import map_bounded, or_none
from lakehouse.storage.metadata.paths import (
    join,
    view_directory,
    view_marker_key,
    view_version_path,
)
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.create import holder_of
from lakehouse.storage.tables.names import Names, name_taken_error, other_kind_error
from lakehouse.storage.tables.open_tables import Environment

__all__ = [
    "ViewDefinition",
    "ViewDraft",
    "create_view",
    "drop_view",
    "read_view",
    "rename_view",
    "undrop_view",
    "view_versions",
]

_LOOKS = 5
"""Attempts to replace a pointer that others change meanwhile."""
_BYTES_MAX = 1 << 20
"""Maximum bytes of a version: whoever looks at the name reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDraft:
    """A view as it is asked for."""

    texts: Mapping[str, str] = field(hash=False)
    """SQL by dialect."""
    columns: tuple[str, ...] = ()
    depends_on: tuple[str, ...] | None = None
    search_path: tuple[str, ...] = ()
    owner: str | None = None
    comment: str | None = None

    def version(self, view: uuid.UUID, number: int, *, time_ms: int) -> ViewVersion:
        """Returns the version of a view that says this."""
        return ViewVersion(
            view=view,
            number=number,
            time_ms=time_ms,
            texts=dict(self.texts),
            columns=self.columns,
            depends_on=self.depends_on,
            search_path=self.search_path,
            owner=self.owner,
            comment=self.comment,
        )

    def is_said_by(self, version: ViewVersion) -> bool:
        """Returns whether a version says this already."""
        return self.version(version.view, version.number, time_ms=version.time_ms) == version


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDefinition:
    """A version of a view."""

    name: str
    """Full name, ``database.view``."""
    uuid: uuid.UUID
    """Identity of the view, which a rename keeps and a drop ends."""
    version: int
    """Number of the version, from 1."""
    created: dt.datetime
    """Time at which the version was made."""
    texts: Mapping[str, str] = field(hash=False)
    """SQL by dialect, in the order in which it was given."""
    columns: tuple[str, ...] = ()
    """Names of the output columns; empty = those of the SQL."""
    depends_on: tuple[str, ...] | None = None
    """Full names of the relations that it reads; None = not known."""
    search_path: tuple[str, ...] = ()
    """Namespaces in which names without one are looked for."""
    owner: str | None = None
    comment: str | None = None

    @property
    def dialect(self) -> str:
        """First dialect that the view is written in."""
        return next(iter(self.texts))

    @property
    def sql(self) -> str:
        """SQL in the first dialect."""
        return self.texts[self.dialect]


def _definition(name: str, version: ViewVersion) -> ViewDefinition:
    return ViewDefinition(
        name=name,
        uuid=version.view,
        version=version.number,
        created=dt.datetime.fromtimestamp(version.time_ms / 1000, dt.UTC),
        texts=dict(version.texts),
        columns=version.columns,
        depends_on=version.depends_on,
        search_path=version.search_path,
        owner=version.owner,
        comment=version.comment,
    )


# --- reading ----------------------------------------------------------------------


async def read_view(
    env: Environment, names: Names, name: TableName, *, version: int | None = None
) -> ViewDefinition:
    """Reads a version of a view; see ``Lake.view``."""
    pointer = await _resolve(names, name)
    newest = _version_in(pointer)
    if version is None or version == newest.number:
        return _definition(str(name), newest)
    found = await _kept(env, pointer, version) if 0 < version < newest.number else None
    if found is None:
        raise NotFoundError(
            f"view {str(name)!r} has no version {version}; it has 1 to {newest.number}", table=str(name)
        )
    return _definition(str(name), found)


async def view_versions(env: Environment, names: Names, name: TableName) -> list[ViewDefinition]:
    """Reads all versions of a view, oldest first; see ``Lake.view_versions``."""
    pointer = await _resolve(names, name)
    newest = _version_in(pointer)

    async def read(number: int) -> ViewDefinition:
        found = await _kept(env, pointer, number)
        if found is None:
            key = join(pointer.path, view_version_path(number))
            raise CorruptionError(f"{key} is missing: version {number} of view {name} is lost", key=key)
        return _definition(str(name), found)

    older = map_bounded(read, range(1, newest.number), env.settings.table.read_concurrency)
    return [*[one async for one in older], _definition(str(name), newest)]


async def _resolve(names: Names, name: TableName) -> NamePointer:
    """Returns the pointer of a live view."""
    return _view_pointer(name, await names.relation(name, NameKind.VIEW))


def _view_pointer(name: TableName, pointer: NamePointer) -> NamePointer:
    if pointer.kind is not NameKind.VIEW:
        raise other_kind_error(name, pointer.kind, NameKind.VIEW)
    return pointer


def _version_in(pointer: NamePointer) -> ViewVersion:
    if pointer.view is None:  # only a purged view has none, and that is not live
        raise InternalError(f"the pointer of view {pointer.name} has no version")
    return pointer.view


async def _kept(env: Environment, pointer: NamePointer, number: int) -> ViewVersion | None:
    key = join(pointer.path, view_version_path(number))
    fetched = await or_none(env.store.get(key))
    if fetched is None:
        return None
    found = decode_view_version(fetched.data, key=key)
    if (found.view, found.number) != (pointer.table, number):
        raise CorruptionError(
            f"{key} is not version {number} of view {pointer.table}: another object stands in its place",
            key=key,
        )
    return found


# --- making and replacing -----------------------------------------------------------


async def create_view(
    env: Environment,
    names: Names,
    name: TableName,
    draft: ViewDraft,
    *,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> ViewDefinition:
    """Makes a view, or its next version; see ``Lake.create_view``."""
    env.expect_commit()
    # Before anything is written: what cannot be stored is refused.
    _check_size(draft.version(new_uuid(), 1, time_ms=env.time.now_ms()))
    problem: LakehouseError = _restless_error(name)
    for _ in range(_LOOKS):
        holder = await _holder(env, names, name)
        if holder is not None and (holder.kind is not NameKind.VIEW or not (if_not_exists or or_replace)):
            raise name_taken_error(name, holder.kind)
        if holder is not None and not or_replace:
            return _definition(str(name), _version_in(await _resolve(names, name)))
        make = _create if holder is None else _replace
        try:
            return _definition(str(name), await make(env, names, name, draft))
        except (AlreadyExistsError, ConflictError, NotFoundError) as error:
            problem = error  # others were quicker: decide anew
    raise problem


async def _holder(env: Environment, names: Names, name: TableName) -> NamePointer | None:
    """Returns the pointer of what has a name; None when it is free."""
    holder = await holder_of(env, names, name)
    if holder is None or holder.moved_from is None:
        return holder
    try:
        return (await _settled(env, names, name))[0]
    except NotFoundError:
        return None


async def _create(env: Environment, names: Names, name: TableName, draft: ViewDraft) -> ViewVersion:
    view, now_ms = new_uuid(), env.time.now_ms()
    version = draft.version(view, 1, time_ms=now_ms)
    pointer = NamePointer(
        name=str(name),
        kind=NameKind.VIEW,
        table=view,
        path=view_directory(name.database, name.table, view.hex),
        token=new_token(),
        time_ms=now_ms,
        view=version,
    )
    await _mark(env, name)
    await names.claim(name, pointer, first=True)
    return version


async def _mark(env: Environment, name: TableName) -> None:
    """Notes that a view may have a name, before one has: a listing never misses one."""
    key = view_marker_key(name.database, name.table)
    with contextlib.suppress(ConflictError):
        await env.store.put_if_absent(key, f"{name}\n".encode(), token=new_token())


async def _replace(env: Environment, names: Names, name: TableName, draft: ViewDraft) -> ViewVersion:
    pointer, version = await _settled(env, names, name)
    newest = _version_in(pointer)
    if draft.is_said_by(newest):
        return newest
    await _keep(env, pointer)
    # Later than the one before, whatever the clocks say.
    now_ms = max(env.time.now_ms(), newest.time_ms + 1)
    following = draft.version(pointer.table, newest.number + 1, time_ms=now_ms)
    await names.replace(dataclasses.replace(pointer, view=following, token=new_token()), version=version)
    return following


async def _keep(env: Environment, pointer: NamePointer) -> None:
    """Makes the newest version an object of its own; whoever does so writes the same bytes."""
    newest = _version_in(pointer)
    key, data = join(pointer.path, view_version_path(newest.number)), encode_view_version(newest)
    try:
        await env.store.put_if_absent(key, data, token=new_token())
    except ConflictError as lost:
        if bytes(lost.context["winner"].data) != data:
            raise CorruptionError(
                f"{key} is not version {newest.number} of view {pointer.name} as its name has it: restore "
                "it, or drop the view and make it again",
                key=key,
            ) from lost


def _check_size(version: ViewVersion) -> None:
    size = len(encode_view_version(version))
    if size > _BYTES_MAX:
        raise InvalidInputError(
            f"the view takes {size:,} bytes with its SQL, and at most {_BYTES_MAX:,} are stored: make "
            "several views of it, or give fewer dialects"
        )


# --- dropping -----------------------------------------------------------------------


async def drop_view(
    env: Environment, names: Names, name: TableName, *, cascade: str | None = None
) -> ViewDefinition:
    """Drops a view; see ``Lake.drop_view``.

    Args:
        env: environment of the connection.
        names: names of the warehouse.
        name: name of the view.
        cascade: token of the drop of its database that this belongs to; see ``NamePointer``.
    """
    env.expect_commit()
    for _ in range(_LOOKS):
        pointer, version = await _settled(env, names, name)
        # Kept like an older version: a purge finds dropped views by what they have left.
        await _keep(env, pointer)
        dropped = dataclasses.replace(
            pointer,
            state=NameState.DROPPED,
            token=new_token(),
            time_ms=env.time.now_ms(),
            cascade=cascade,
        )
        with contextlib.suppress(ConflictError):
            await names.replace(dropped, version=version)
            return _definition(str(name), _version_in(pointer))
    raise _restless_error(name)


async def undrop_view(env: Environment, names: Names, name: TableName) -> ViewDefinition:
    """Brings a dropped view back under its name; see ``Lake.undrop_view``.

    The database is not looked at: an undrop of one brings its views back first.
    """
    env.expect_commit()
    for _ in range(_LOOKS):
        known = await or_none(names.look(name))
        if known is None or known[0].kind is not NameKind.VIEW:
            raise NotFoundError(f"there is no dropped view {str(name)!r}", table=str(name))
        pointer, version = known
        if pointer.state is NameState.LIVE:
            raise AlreadyExistsError(f"view {str(name)!r} is there: it is not dropped", table=str(name))
        if pointer.state is not NameState.DROPPED:
            raise _gone_error(name, pointer)
        back = dataclasses.replace(
            pointer, state=NameState.LIVE, token=new_token(), time_ms=env.time.now_ms(), cascade=None
        )
        with contextlib.suppress(ConflictError):
            await names.replace(back, version=version)
            return _definition(str(name), _version_in(back))
    raise _restless_error(name)


# --- renaming -----------------------------------------------------------------------


async def rename_view(env: Environment, names: Names, old: TableName, new: TableName) -> ViewDefinition:
    """Gives a view another name; repeated after a failure, it completes the renaming.

    The new name refers to the old one until that is given up, so that no version made meanwhile is lost.
    """
    env.expect_commit()
    if old == new:
        raise name_taken_error(new, NameKind.VIEW)
    await names.expect_database(new.database)
    known = await or_none(names.look(old))
    if known is not None and known[0].kind is NameKind.VIEW and known[0].moved_to == str(new):
        pointer = known[0]
    else:
        pointer, _ = await _settled(env, names, old)
        moved = dataclasses.replace(
            pointer,
            name=str(new),
            token=new_token(),
            time_ms=env.time.now_ms(),
            moved_from=str(old),
            renaming=new_token(),
            before=(),
        )
        await _mark(env, new)
        await names.claim(new, moved)
    try:
        settled, _ = await _settled(env, names, new)
    except (NotFoundError, ConflictError) as error:
        raise ConflictError(
            f"view {str(old)!r} was dropped or renamed by others while it was renamed to {str(new)!r}",
            table=str(old),
        ) from error
    except LakehouseError as error:
        raise CommitUnknownError(
            f"view {str(old)!r} is called {str(new)!r} too now, and it is not known whether it has lost its "
            f"old name: {error} Rename it again.",
            table=str(old),
        ) from error
    if settled.table != pointer.table:
        raise name_taken_error(new, NameKind.VIEW)
    return _definition(str(new), _version_in(settled))


async def _settled(
    env: Environment, names: Names, name: TableName, *, above: tuple[str, ...] = ()
) -> tuple[NamePointer, str]:
    """Returns the pointer of a live view and its version, after completing a renaming that ended early.

    Args:
        env: environment of the connection.
        names: names of the warehouse.
        name: name of the view.
        above: names whose renamings wait for this one.
    """
    for _ in range(_LOOKS if len(above) < _LOOKS else 0):
        known = await or_none(names.look(name))
        if known is None or known[0].state is not NameState.LIVE:
            await names.relation(name, NameKind.VIEW)  # says why there is none
            continue
        pointer, version = _view_pointer(name, known[0]), known[1]
        if pointer.moved_from is None:
            return pointer, version
        with contextlib.suppress(ConflictError):
            await _complete(env, names, name, pointer, version, above)
    raise _restless_error(name)


async def _complete(
    env: Environment,
    names: Names,
    name: TableName,
    pointer: NamePointer,
    version: str,
    above: tuple[str, ...],
) -> None:
    """Goes one step towards the end of a renaming; ConflictError when others have changed either name."""
    old = TableName.parse(pointer.moved_from)
    known = await or_none(names.look(old))
    if known is None or known[0].has_left_for(pointer):
        await names.replace(pointer.renamed(token=new_token()), version=version)
        return
    left, left_version = known
    changed: Any = {"token": new_token(), "time_ms": env.time.now_ms()}
    is_there = left.table == pointer.table and left.state is NameState.LIVE
    if not is_there or left.moved_from in (str(name), *above):
        # The view was dropped under the old name, or others have renamed it.
        elsewhere = left.moved_to or pointer.moved_from
        ended = dataclasses.replace(
            pointer, state=NameState.MOVED, moved_to=elsewhere, moved_from=None, renaming=None, **changed
        )
        await names.replace(ended, version=version)
        raise _gone_error(name)
    if left.moved_from is not None:
        # The old name is the new one of another renaming: whether it has the view is decided there.
        with contextlib.suppress(NotFoundError):
            await _settled(env, names, old, above=(*above, str(name)))
        return
    if left.view != pointer.view:
        # A version was made under the old name: it has to be under the new one before that is all there is.
        await names.replace(dataclasses.replace(pointer, view=left.view, token=new_token()), version=version)
        return
    # While the old name is as it was read, the new one keeps its renaming; it was read before, so once more.
    if (await names.look(name))[1] != version:
        return
    moved = dataclasses.replace(
        left, state=NameState.MOVED, moved_to=str(name), renaming=pointer.renaming, **changed
    )
    await names.replace(moved, version=left_version)


def _gone_error(name: TableName, pointer: NamePointer | None = None) -> NotFoundError:
    if pointer is not None and pointer.state is NameState.PURGING:
        return NotFoundError(
            f"view {str(name)!r} cannot come back: it is purged", kind="purged", table=str(name)
        )
    if pointer is not None and pointer.moved_to is not None:
        return NotFoundError(f"view {str(name)!r} is called {pointer.moved_to!r} now", table=str(name))
    return NotFoundError(
        f"there is no view {str(name)!r}: it was dropped while it was renamed", table=str(name)
    )


def _restless_error(name: TableName) -> ConflictError:
    return ConflictError(f"the pointer of {name} is replaced by others again and again", table=str(name))
