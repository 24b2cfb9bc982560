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

from lakehouse import Settings, load_settings
from lakehouse.testing import servers

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "tests" / "data" / "compose-spec" / "compose-spec.json"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """docker-compose.yml."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


@pytest.fixture(scope="module")
def store(compose: dict[str, Any]) -> dict[str, Any]:
    """The service that keeps the objects."""
    found: dict[str, Any] = compose["services"]["object-store"]
    return found


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


def test_the_store_is_pinned_to_the_image_that_tests_use(store: dict[str, Any]) -> None:
    """Compose and the test kit start the same release, or both the one that the same variable names."""
    assert store["image"] == f"${{LAKEHOUSE_STORE_IMAGE:-{servers.STORE_IMAGE}}}"
    assert store["command"] == f"${{LAKEHOUSE_STORE_COMMAND:-{servers._container_command('')[0]}}}"
    assert re.fullmatch(r"[a-z]+/[a-z]+:[0-9]+\.[0-9]+\.[0-9]+", servers.STORE_IMAGE)


def test_the_deleted_image_is_named_nowhere(compose: dict[str, Any]) -> None:
    """What Docker's hub no longer has is not asked for; MinIO is named with the registry that has it."""
    text = (ROOT / "docker-compose.yml").read_text() + Path(servers.__file__).read_text()
    assert re.findall(r"(?<!quay\.io/)minio/minio:", text) == []


def test_ports_are_published_on_loopback_alone(compose: dict[str, Any]) -> None:
    """No service can be reached from another machine."""
    for name, service in compose["services"].items():
        assert "network_mode" not in service, name
        for port in service.get("ports", []):
            assert str(port).startswith("127.0.0.1:"), f"{name} publishes {port}"


def test_the_demo_waits_until_the_store_is_healthy(compose: dict[str, Any], store: dict[str, Any]) -> None:
    """The store has a healthcheck that RustFS and MinIO answer, and the demo starts only after it."""
    assert "http://127.0.0.1:9000/health ||" in store["healthcheck"]["test"][1]
    assert "/minio/health/ready" in store["healthcheck"]["test"][1]
    assert compose["services"]["demo"]["depends_on"] == {"object-store": {"condition": "service_healthy"}}


def test_the_store_is_started_as_the_test_kit_starts_it(store: dict[str, Any]) -> None:
    """Every variable that the test kit gives the container is given here, but for MinIO's extras."""
    kit = servers._container_environment("key", "secret").keys()
    assert kit - store["environment"].keys() == {"MINIO_BROWSER", "MINIO_CALLHOME_ENABLE"}


def test_the_demo_is_told_of_the_store(
    compose: dict[str, Any], store: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo's environment names the store, with its own credentials, in variables that are read."""
    demo, given = compose["services"]["demo"]["environment"], store["environment"]
    for key, secret in (
        ("RUSTFS_ACCESS_KEY", "RUSTFS_SECRET_KEY"),
        ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"),
    ):
        assert demo["LAKEHOUSE_TEST_KEY"] == given[key]
        assert demo["LAKEHOUSE_TEST_SECRET"] == given[secret]
    for name, value in demo.items():
        monkeypatch.setenv(name, value)
    assert [kind for kind, reason in servers.survey() if reason is None] == ["environment"]
    assert demo["LAKEHOUSE_TEST_ENDPOINT"] == "http://object-store:9000"


def test_variables_of_compose_are_no_settings(compose: dict[str, Any]) -> None:
    """A shell that sets them for compose can still run the engine."""
    names = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    assert names >= {"LAKEHOUSE_STORE_IMAGE", "LAKEHOUSE_STORE_PORT"}
    assert load_settings(env=dict.fromkeys(names, "1")) == Settings()


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
