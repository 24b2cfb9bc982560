"""Lists the fixture modules; fixtures themselves live beside their subject in tests/plugins/."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.plugins.fix_servers"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The whole suite runs on asyncio: s3fs knows no other loop."""
    return "asyncio"
