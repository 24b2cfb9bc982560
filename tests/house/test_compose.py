"""The compose file and its image: valid, pinned, healthy before use, and closed to other machines."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from lakehouse.testing import servers

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "tests" / "data" / "compose-spec" / "compose-spec.json"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """docker-compose.yml."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


@pytest.fixture(scope="module")
def dockerfile() -> list[list[str]]:
    """Instructions of the Dockerfile, as words."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def problems(compose: dict[str, Any]) -> list[str]:
    """What the specification has against a compose file."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    return [error.message for error in validator.iter_errors(compose)]


def test_the_schema_is_the_one_its_readme_names() -> None:
    """The copy of the specification's schema is unchanged."""
    readme = SCHEMA.with_name("README.md").read_text()
    assert hashlib.sha256(SCHEMA.read_bytes()).hexdigest() in readme


def test_the_compose_file_is_valid(compose: dict[str, Any]) -> None:
    """docker-compose.yml keeps to the Compose Specification."""
    assert problems(compose) == []


def test_a_mistake_in_a_compose_file_is_noticed(compose: dict[str, Any]) -> None:
    """The schema refuses a misspelt key."""
    assert problems({**compose, "services": {"minio": {"imagee": "x"}}})


def test_minio_is_pinned_to_the_image_that_tests_use(compose: dict[str, Any]) -> None:
    """Compose and the test kit start the same release."""
    assert compose["services"]["minio"]["image"] == servers.MINIO_IMAGE
    assert re.fullmatch(r"minio/minio:RELEASE\.[0-9TZ-]+", servers.MINIO_IMAGE)


def test_ports_are_published_on_loopback_alone(compose: dict[str, Any]) -> None:
    """No service can be reached from another machine."""
    for name, service in compose["services"].items():
        assert "network_mode" not in service, name
        for port in service.get("ports", []):
            assert str(port).startswith("127.0.0.1:"), f"{name} publishes {port}"


def test_the_demo_waits_until_minio_is_healthy(compose: dict[str, Any]) -> None:
    """MinIO has a healthcheck and the demo starts only after it."""
    assert compose["services"]["minio"]["healthcheck"]["test"] == ["CMD", "mc", "ready", "local"]
    assert compose["services"]["demo"]["depends_on"] == {"minio": {"condition": "service_healthy"}}


def test_the_demo_is_told_of_minio(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's environment names MinIO, with MinIO's own credentials, in variables that are read."""
    demo, minio = (compose["services"][name]["environment"] for name in ("demo", "minio"))
    assert demo["LAKEHOUSE_TEST_KEY"] == minio["MINIO_ROOT_USER"]
    assert demo["LAKEHOUSE_TEST_SECRET"] == minio["MINIO_ROOT_PASSWORD"]
    for name, value in demo.items():
        monkeypatch.setenv(name, value)
    assert [kind for kind, reason in servers.survey() if reason is None] == ["environment"]
    assert demo["LAKEHOUSE_TEST_ENDPOINT"] == "http://minio:9000"


def test_the_image_does_not_run_as_root(dockerfile: list[list[str]]) -> None:
    """The last user of the image is its own."""
    assert [words[1] for words in dockerfile if words[0] == "USER"][-1:] == ["lakehouse"]


def test_the_image_is_built_from_what_is_sent(dockerfile: list[list[str]]) -> None:
    """Everything the Dockerfile copies is there and let through by .dockerignore, and nothing else is."""
    copied = {source for words in dockerfile if words[0] == "COPY" for source in words[1:-1]}
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied == {rule[1:] for rule in rules if rule.startswith("!")}
    assert all((ROOT / source).exists() for source in copied)
    assert "*" in rules


def test_the_image_asks_for_extras_that_exist(dockerfile: list[list[str]]) -> None:
    """Every extra that the image installs is one of the project's."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (asked,) = re.findall(r"/src\[([a-z,]+)\]", " ".join(word for words in dockerfile for word in words))
    assert set(asked.split(",")) <= set(extras)
