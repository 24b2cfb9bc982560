"""Sessions: a conversation in SQL, with the database, the settings and the query that it has.

Invariant: a text is parsed whole before any statement of it runs. What a statement sets is there for the next
ones, and for no other session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from lakehouse.catalog import NodeKind, Query
from lakehouse.catalog.graph import parse_name, show_name
from lakehouse.catalog.nodes import RelationPath
from lakehouse.errors import InvalidInputError, LakehouseError, NotFoundError
from lakehouse.io.work import in_thread
from lakehouse.sql.engine import SqlParameters
from lakehouse.sql.engine.database import CONFIGURABLE
from lakehouse.sql.relations import NOW, travel_of
from lakehouse.sql.session.host import SqlHost
from lakehouse.sql.session.parameters import asked_names, named_values, refuse_unasked
from lakehouse.sql.session.result import SqlResult
from lakehouse.sql.session.running import QueryRun
from lakehouse.sql.session.shows import shown_query
from lakehouse.sql.text import (
    BeginQuery,
    DescribeTable,
    EndQuery,
    ExplainQuery,
    QueryTree,
    ResetSetting,
    RunQuery,
    SetSetting,
    ShowNames,
    SqlCommand,
    SqlText,
    StatementText,
    UseDatabase,
    command_in,
    references_in,
    statements_in,
)
from lakehouse.suggest import suggestion

__all__ = ["SqlSession", "run_text"]

_SETTINGS = {name.casefold(): name for name in CONFIGURABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A statement that was read."""

    statement: StatementText
    command: SqlCommand
    tree: QueryTree | None = None
    """Names in its query, if it has one."""


class SqlSession:
    """A conversation in SQL, with a database, settings and a query. Made by ``lake.sql_session``.

    Args:
        host: the lake.
        database: where names without one are looked for; ``catalog.namespace`` too.
        query: pins what is read; None = each statement has a query of its own, unless ``BEGIN QUERY`` says
            otherwise.

    Example::

        async with lake.sql_session("sales") as session:
            await session.sql("BEGIN QUERY; SET TimeZone = 'Europe/Berlin'")
            total = await session.sql("SELECT sum(amount) AS total FROM orders")
            print(await total.to_pylist())
    """

    def __init__(self, host: SqlHost, *, database: str | None = None, query: Query | None = None) -> None:
        self._host = host
        self._path: RelationPath = () if database is None else parse_name(database)
        self._configured: dict[str, str] = {}
        self._given = query
        self._own: Query | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<SqlSession in {'.'.join(self._path) or 'no database'}>"

    @property
    def database(self) -> str | None:
        """Database, or catalog and namespace, in which names without one are looked for."""
        return show_name(self._path) if self._path else None

    @property
    def query(self) -> Query | None:
        """Query whose state of every table is read; None = each statement has one of its own."""
        return self._given or self._own

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the session, and the query that it began."""
        self._is_closed = True
        await self._end_query()

    async def sql(
        self, text: str, parameters: SqlParameters = None, *, database: str | None = None
    ) -> SqlResult:
        """Runs the statements of a text, one after another, and returns the rows of the last one.

        Args:
            text: one or more statements.
            parameters: values for ``?`` and ``$1`` as a list, for ``$name`` as a dict.
            database: where names without one are looked for in this text; None = as ``USE`` said.

        Raises:
            InvalidInputError: a statement cannot be read; nothing was run. Or DuckDB refuses one.
            NotFoundError: nothing has a name; the message shows where it stands, and names like it.
        """
        if self._is_closed:
            raise InvalidInputError(
                "this session is closed: lake.sql_session() begins another", kind="closed"
            )
        steps = await in_thread(_read, text, self._host.settings.sql.text_max_bytes)
        return await self._run(steps, parameters, database)

    async def _run(
        self, steps: Sequence[_Step], parameters: SqlParameters, database: str | None
    ) -> SqlResult:
        given = named_values(parameters)
        trees = [step.tree for step in steps if step.tree is not None]
        asked = asked_names(trees) | {name for step in steps for name in _moments(step)}
        refuse_unasked(asked, given)
        before, result = self._path, SqlResult.nothing()
        if database is not None:
            self._path = parse_name(database)
        try:
            for step in steps:
                await result.aclose()
                result = await self._step(step, given)
        finally:
            if database is not None:
                self._path = before
        return result

    async def _step(self, step: _Step, given: Mapping[str, Any]) -> SqlResult:
        if step.tree is not None:
            if isinstance(step.command, ExplainQuery):
                return await self._runner.explained(step.tree, given, analyze=step.command.analyze)
            return await self._runner.rows(step.tree, given)
        match step.command:
            case ShowNames() as show:
                return await self._show(step.statement, show)
            case UseDatabase() as use:
                await self._use(step.statement, use)
            case SetSetting() | ResetSetting() as setting:
                await self._set(step.statement, setting)
            case BeginQuery() as begin:
                await self._begin(step.statement, begin, given)
            case EndQuery():
                await self._end(step.statement)
        return SqlResult.nothing()

    @property
    def _runner(self) -> QueryRun:
        paths = (self._path,) if self._path else ()
        return QueryRun(host=self._host, query=self.query, paths=paths, configured=dict(self._configured))

    async def _show(self, statement: StatementText, show: ShowNames) -> SqlResult:
        try:
            tree, values = await in_thread(shown_query, show, self._path)
            return await self._runner.rows(tree, values)
        except (NotFoundError, InvalidInputError) as error:
            # Its place is in a query that the user never saw.
            start, end = (0, 4) if show.name is None else (show.name.start, show.name.end)
            raise _placed(error, error.message.partition("\nline ")[0], statement, start, end) from error

    async def _use(self, statement: StatementText, use: UseDatabase) -> None:
        """Looks for a database, so that a wrong name is an error here and not at every statement."""
        name = use.name
        try:
            await self._host.graph.resolve_name(name.parts, NodeKind.NAMESPACE)
        except NotFoundError as error:
            raise _placed(error, error.message, statement, name.start, name.end) from error
        self._path = name.parts

    async def _set(self, statement: StatementText, setting: SetSetting | ResetSetting) -> None:
        """Sets or resets a setting of DuckDB; a value that it refuses is an error here."""
        if setting.name is None:
            self._configured.clear()
            return
        name = _SETTINGS.get(setting.name.casefold())
        if name is None:
            raise statement.error(
                f"{setting.name} is no setting of a session; {suggestion(setting.name, CONFIGURABLE)}. "
                "Bounds are settings of the lake: lakehouse.connect(url, settings={…})",
                setting.start,
                setting.end,
            )
        if isinstance(setting, ResetSetting):
            self._configured.pop(name, None)
            return
        value = str(setting.value)
        async with self._host.sql_instance.statement() as one:
            await one.configure(name, value)
        self._configured[name] = value

    async def _begin(self, statement: StatementText, begin: BeginQuery, given: Mapping[str, Any]) -> None:
        if self.query is not None:
            raise statement.error("a query is open already: END QUERY ends it", 0)
        travel = NOW if begin.at is None else travel_of(begin.at, given)
        query = self._host.graph.queries.begin(as_of=travel.as_of)
        self._own = await query.__aenter__()

    async def _end(self, statement: StatementText) -> None:
        if self._own is None:
            raise statement.error("no query is open: BEGIN QUERY begins one", 0)
        await self._end_query()

    async def _end_query(self) -> None:
        query, self._own = self._own, None
        if query is not None:
            await query.aclose()


async def run_text(
    host: SqlHost,
    text: str,
    parameters: SqlParameters,
    *,
    database: str | None = None,
    query: Query | None = None,
) -> SqlResult:
    """Runs a text in a session for it alone; what it leaves behind for later statements is refused.

    Args:
        host: the lake.
        text: one or more statements.
        parameters: values, by place or by name.
        database: where names without one are looked for.
        query: pins what is read.
    """
    steps = await in_thread(_read, text, host.settings.sql.text_max_bytes)
    _refuse_leftovers(steps)
    async with SqlSession(host, database=database, query=query) as session:
        return await session._run(steps, parameters, None)


def _read(text: str, max_bytes: int) -> list[_Step]:
    """Reads all statements of a text; in a thread, since DuckDB cuts and parses it."""
    script = SqlText.of(text, max_bytes=max_bytes)
    statements = statements_in(script)
    if not statements:
        raise InvalidInputError("there is no statement in the text of SQL")
    return [_step(statement) for statement in statements]


def _step(statement: StatementText) -> _Step:
    command = command_in(statement)
    match command:
        case RunQuery(query=query) | ExplainQuery(query=query):
            return _Step(statement=statement, command=command, tree=references_in(query))
        case DescribeTable():
            return _Step(statement=statement, command=command, tree=references_in(statement))
    return _Step(statement=statement, command=command)


def _placed(
    error: LakehouseError, message: str, statement: StatementText, start: int, end: int
) -> LakehouseError:
    """Returns an error that shows a place of a statement."""
    told = statement.error(message, start, end)
    return type(error)(told.message, kind=error.kind, **{**error.context, **told.context})


def _moments(step: _Step) -> Sequence[str]:
    """Returns the parameter of ``BEGIN QUERY AS OF $moment``."""
    at = step.command.at if isinstance(step.command, BeginQuery) else None
    return () if at is None or at.parameter is None else (at.parameter,)


def _refuse_leftovers(steps: Sequence[_Step]) -> None:
    """Raises InvalidInputError for a text whose last word is to a later statement that it does not have."""
    begun: _Step | None = None
    for step in steps:
        if isinstance(step.command, BeginQuery):
            begun = step
        elif isinstance(step.command, EndQuery):
            begun = None
    last = steps[-1]
    left = begun or (last if isinstance(last.command, UseDatabase | SetSetting | ResetSetting) else None)
    if left is not None:
        raise left.statement.error(
            f"{left.statement.kind.value} is for later statements, and this text has an end: use a session "
            "(lake.sql_session()), database= for a database, or lake.query(as_of=…) for a moment",
            0,
        )
