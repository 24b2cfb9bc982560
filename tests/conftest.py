"""Lists the fixture modules; fixtures themselves live beside their subject in tests/plugins/."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A change is judged by the change: the same examples every time. `make fuzz` looks for new ones.
# Nor by the clock: a machine that is busy makes no example wrong (pytest-timeout bounds a test).
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", _UNHURRIED, derandomize=True, database=None)
settings.register_profile("fuzz", _UNHURRIED, max_examples=1000, print_blob=True)
settings.load_profile("repeatable")

pytest_plugins = ["tests.plugins.fix_servers", "tests.plugins.fix_spark"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The whole suite runs on asyncio: s3fs knows no other loop."""
    return "asyncio"
