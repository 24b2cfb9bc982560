"""A worker that repeats what it is told: ``python -m tests.benchmarks.echo_worker``."""

from __future__ import annotations

import asyncio

from benchmarks.worker import serve


async def repeat(text: str) -> str:
    """The text again; it is printed besides."""
    print(text)
    return text


def fail(text: str) -> None:
    """Raises the text."""
    raise ValueError(text)


if __name__ == "__main__":
    asyncio.run(serve({"repeat": repeat, "fail": fail}))
