"""Shell for SQL at a terminal: statements over several lines, history, completion, and commands of its own.

Invariant: Ctrl-C ends the statement under way and never the shell; an error is said, and the shell goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse._version import install_command
from lakehouse.cli.output import complain, print_error, say
from lakehouse.cli.sql.forms import Form, shown
from lakehouse.cli.sql.scripts import statements_of
from lakehouse.errors import InvalidInputError, LakehouseError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from lakehouse.lake import Lake
    from lakehouse.sql.session import SqlSession

__all__ = ["Shell", "is_whole"]

_HELP = """\\d [name]  columns of a table; without a name, the tables
\\dt        tables of the database
\\l         databases
\\x         rows as a table, or as lines of JSON
\\timing    seconds of each statement, or not
\\q         leave (also Ctrl-D)
\\?         this
Statements end with a semicolon, and may have several lines. Ctrl-C ends the statement under way."""
_NAMES_MAX = 5_000
"""Names of tables that are completed."""
_KEYWORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "LIMIT",
    "JOIN",
    "LEFT",
    "ON",
    "USING",
    "HAVING",
    "WITH",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS",
    "NULL",
    "BETWEEN",
    "LIKE",
    "DISTINCT",
    "UNION",
    "ALL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "EXPLAIN",
    "ANALYZE",
    "DESCRIBE",
    "SHOW",
    "TABLES",
    "DATABASES",
    "USE",
    "SET",
    "BEGIN",
    "QUERY",
    "FOR",
    "VERSION",
    "TIMESTAMP",
    "OF",
    "count",
    "sum",
    "avg",
    "min",
    "max",
]


def is_whole(text: str) -> bool:
    """Returns whether what was typed is to be run: a command, nothing, or statements with an end."""
    stripped = text.strip()
    return not stripped or stripped.startswith("\\") or stripped.endswith(";")


class Shell:
    """Conversation in SQL.

    Args:
        lake: whose names are completed.
        session: runs statements.
        form: how rows are written.
        ask: returns what was typed, EOFError at the end; None = a terminal.
    """

    def __init__(
        self,
        lake: Lake,
        session: SqlSession,
        *,
        form: Form = Form.TABLE,
        ask: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._lake, self._session = lake, session
        self._form, self._is_timed = form, True
        self._is_over = False
        self._words = [*_KEYWORDS]
        self._terminal: PromptSession[str] | None = None
        self._ask = ask or self._prompt

    async def run(self) -> None:
        """Reads and runs statements until the end."""
        names = asyncio.create_task(self._complete_names())
        try:
            while not self._is_over:
                try:
                    text = (await self._ask()).strip()
                except KeyboardInterrupt:
                    continue
                except EOFError:
                    return
                if text:
                    await self._answer(text)
        finally:
            names.cancel()
            await asyncio.wait([names])

    async def _answer(self, text: str) -> None:
        """Runs what was typed; Ctrl-C ends that alone."""
        task = asyncio.create_task(self._command(text) if text.startswith("\\") else self._statements(text))
        with _interrupts(task):
            await asyncio.wait([task])
        if task.cancelled():
            complain("cancelled")
            return
        error = task.exception()
        if isinstance(error, LakehouseError):
            print_error(error.kind, error.message, as_json=False)
        elif error is not None:
            raise error

    async def _statements(self, text: str) -> None:
        for statement in await statements_of(text, self._lake.settings.sql.text_max_bytes):
            began = time.perf_counter()
            async with await self._session.sql(statement) as result:
                rows = await shown(result, self._form)
                if self._is_timed:
                    count = f"{rows:,} rows, " if result.schema.names else ""
                    say(f"{count}{time.perf_counter() - began:.3f} s", style="dim")

    async def _command(self, text: str) -> None:
        name, _, rest = text.rstrip(";").partition(" ")
        rest = rest.strip()
        match name:
            case "\\q":
                self._is_over = True
            case "\\?":
                say(_HELP)
            case "\\x":
                self._form = Form.NDJSON if self._form is Form.TABLE else Form.TABLE
                say(f"rows are written as {self._form.value}")
            case "\\timing":
                self._is_timed = not self._is_timed
                say(f"timing is {'on' if self._is_timed else 'off'}")
            case "\\d" if rest:
                await self._statements(f"DESCRIBE {rest}")
            case "\\d" | "\\dt":
                await self._statements(f"SHOW TABLES FROM {rest}" if rest else "SHOW TABLES")
            case "\\l":
                await self._statements("SHOW DATABASES")
            case _:
                complain(f"there is no command {name}; \\? lists them")

    # --- terminal ---------------------------------------------------------------------

    async def _prompt(self) -> str:
        if self._terminal is None:
            self._terminal = _terminal(self._words)
        return await self._terminal.prompt_async(f"{self._session.database or 'lakehouse'}> ")

    async def _complete_names(self) -> None:
        """Learns names of databases and tables beside what is typed."""
        with contextlib.suppress(LakehouseError):
            for database in await self._lake.databases():
                self._words.append(database)
                async for name in self._lake.tables(database):
                    if len(self._words) > _NAMES_MAX:
                        return
                    self._words.append(name)


@contextlib.contextmanager
def _interrupts(task: asyncio.Task[None]) -> Iterator[None]:
    """Has Ctrl-C cancel a task while the block runs."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _terminal(words: list[str]) -> PromptSession[str]:
    """Opens the terminal; ``words`` are completed, those that are added later too."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.lexers import PygmentsLexer
        from pygments.lexers.sql import SqlLexer
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"a shell needs more packages: {install_command('sql')}; or give statements with -c",
            kind="missing-extra",
        ) from error
    return PromptSession(
        history=_history(),
        completer=WordCompleter(words, ignore_case=True, WORD=True),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        prompt_continuation=lambda width, *_: "." * (width - 1) + " ",
        key_bindings=_keys(),
    )


def _history() -> History:
    """Returns the history of earlier shells, or none where it cannot be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    directory = Path(state) / "lakehouse"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)  # io-ok: of the person at the terminal
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(directory / "sql-history"))


def _keys() -> KeyBindings:
    """Returns bindings by which Enter runs what has an end, and begins a line elsewhere."""
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def ends() -> bool:
        return is_whole(get_app().current_buffer.text)

    @keys.add("enter", filter=Condition(ends))
    def _run(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys
