"""The shell: statements with an end, commands of its own, and errors that end nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest

from lakehouse.cli.sql.forms import Form
from lakehouse.cli.sql.shell import Shell, is_whole
from lakehouse.lake import Lake
from lakehouse.testing import memory_store


def _typing(*texts: str | type[BaseException]) -> Callable[[], Awaitable[str]]:
    """Somebody who types these, and then leaves."""
    waiting = iter(texts)

    async def ask() -> str:
        text = next(waiting, EOFError)
        if isinstance(text, str):
            return text
        raise text

    return ask


async def _said(capsys: pytest.CaptureFixture[str], *texts: str | type[BaseException]) -> tuple[str, str]:
    """Standard output and errors of a conversation over a lake with a table."""
    async with Lake(memory_store()) as lake:
        await lake.create_database("shop")
        await (await lake.create_table("shop.items", pa.schema({"id": pa.int64()}))).append([{"id": 5}])
        async with lake.sql_session() as session:
            await Shell(lake, session, form=Form.TABLE, ask=_typing(*texts)).run()
    return capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", False),
        ("select 1;", True),
        ("select\n1; ", True),
        ("\\dt", True),
        ("", True),
        ("a;b", False),
    ],
)
def test_enter_runs_what_has_an_end(text: str, expected: bool) -> None:
    """A statement ends with a semicolon, a command of the shell with its line."""
    assert is_whole(text) is expected


async def test_a_conversation_has_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    """``USE`` holds for what is typed later; each statement says its rows and its time."""
    out, _ = await _said(capsys, "use shop;", "select id from items; select 2 as b;")
    assert "id\n5\n" in out
    assert "b\n2\n" in out
    assert out.count(" s\n") == 3


async def test_commands_ask_what_they_stand_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, columns and databases are shown; rows change their form, and time is told no more."""
    out, err = await _said(
        capsys, "\\timing", "\\l", "\\dt shop", "\\d shop.items", "\\x", "select 1 as a;", "\\?", "\\nope"
    )
    assert "items" in out
    assert "bigint" in out.lower()
    assert '{"a": 1}' in out
    assert "\\timing" in out
    assert "\\nope" in err
    assert " s\n" not in out


async def test_errors_end_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A statement that fails is said, Ctrl-C at the prompt begins anew, and ``\\q`` leaves."""
    out, err = await _said(
        capsys, "select * from nope;", KeyboardInterrupt, "select 3 as c;", "\\q", "select 4 as never;"
    )
    assert "error" in err
    assert "c\n3\n" in out
    assert "never" not in out


async def test_ctrl_c_ends_the_statement_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A signal while a statement runs cancels it; the shell goes on with the next."""
    async with Lake(memory_store()) as lake, lake.sql_session() as session:
        began = asyncio.Event()

        class Slow:
            database = None

            async def sql(self, text: str) -> object:
                if "slow" not in text:
                    return await session.sql(text)
                began.set()
                return await asyncio.Event().wait()

        async def interrupt() -> None:
            await began.wait()
            os.kill(os.getpid(), signal.SIGINT)

        waiting = asyncio.create_task(interrupt())
        ask = _typing("select 'slow';", "select 6 as d;")
        await Shell(lake, Slow(), ask=ask).run()  # type: ignore[arg-type]
        await waiting
    out, err = capsys.readouterr()
    assert "cancelled" in err
    assert "d\n6\n" in out
