"""Where a connected store may be used: the process and the event loop it connected in.

Connections do not survive a fork, and belong to the loop that made them; used elsewhere
they hang or mix up answers. A backend asks its anchor before every request and gets a
clear error instead.
"""

from __future__ import annotations

import asyncio
import os

from lakehouse.errors import InvalidInputError

__all__ = ["Anchor"]


class Anchor:
    """Remembers the process and loop of the first use; refuses all others."""

    __slots__ = ("_loop", "_pid", "_url")

    def __init__(self, url: str) -> None:
        self._url = url
        self._pid: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Drops anchor at first use; afterwards an error anywhere else."""
        loop = asyncio.get_running_loop()
        if self._loop is loop and self._pid == os.getpid():
            return
        if self._pid is None:
            self._pid, self._loop = os.getpid(), loop
            return
        if self._pid != os.getpid():
            raise InvalidInputError(
                f"the store at {self._url} was connected in process {self._pid} and is used in its child "
                f"{os.getpid()}: pickle it, or open it again in the child, before the first use",
                kind="wrong-process",
                url=self._url,
            )
        raise InvalidInputError(
            f"the store at {self._url} belongs to another event loop: open one store per loop, "
            "or close it (aclose) before it is used on the next",
            kind="wrong-loop",
            url=self._url,
        )

    def weigh(self) -> None:
        """Forgets where it was: the next use may be anywhere."""
        self._pid = self._loop = None
