"""The guides' and the README's examples of Spark run as they stand, a page being one program.

They run in the session of all tests, against a real store, with credentials in the environment as a reader
has them. ``tests/docs`` runs the blocks without Spark.
"""

from __future__ import annotations

import pytest

from tests.docs.test_code_blocks import blocks

PAGES: dict[str, list[tuple[str, str]]] = {}
for _where, _code in blocks(spark=True):
    PAGES.setdefault(_where.rpartition(":")[0], []).append((_where, _code))


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page: str, bucket_url: str) -> None:
    """Every block of the page runs, one after the other, without an error."""
    namespace: dict[str, object] = {"__name__": "page"}
    for where, code in PAGES[page]:
        exec(compile(code.replace("s3://bucket", bucket_url), where, "exec"), namespace)
