"""Scripts: texts cut into statements, so that the rows of each are shown."""

from __future__ import annotations

from lakehouse.io.work import in_thread
from lakehouse.sql.text import SqlText, statements_in

__all__ = ["statements_of"]


async def statements_of(text: str, max_bytes: int) -> list[str]:
    """Cuts a text into its statements; DuckDB does it, in a thread."""

    def cut() -> list[str]:
        return [one.text for one in statements_in(SqlText.of(text, max_bytes=max_bytes))]

    return await in_thread(cut)
