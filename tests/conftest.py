"""Lists the fixture modules; fixtures themselves live beside their subject in tests/plugins/."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A change is judged by the change: the same examples every time. `make fuzz` looks for new ones.
settings.register_profile("repeatable", derandomize=True, database=None)
settings.register_profile("fuzz", max_examples=1000, print_blob=True)
settings.load_profile("repeatable")

pytest_plugins = ["tests.plugins.fix_servers", "tests.plugins.fix_spark"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The whole suite runs on asyncio: s3fs knows no other loop."""
    return "asyncio"
