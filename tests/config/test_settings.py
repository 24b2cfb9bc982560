"""Settings: where a value comes from, what is refused and how, and that secrets stay secret."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import logging
import pickle
import traceback
from typing import Any

import pytest

from lakehouse.config import ENV_PREFIX, RESERVED_ENV, IoSettings, Secret, SettingInfo, Settings
from lakehouse.errors import InvalidInputError

SETTINGS = list(Settings.describe())
FILE = {"io": {"threads": 2}}
ENV = {"LAKEHOUSE_IO_THREADS": "3"}
ARGUMENTS = {"io.threads": 4}


def refusal(*args: Any, **kwargs: Any) -> InvalidInputError:
    """The error that resolving these layers ends in."""
    with pytest.raises(InvalidInputError) as caught:
        Settings.resolve(*args, **kwargs)
    return caught.value


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ({}, IoSettings().threads),
        ({"file": FILE}, 2),
        ({"file": FILE, "env": ENV}, 3),
        ({"file": FILE, "env": ENV, "overrides": ARGUMENTS}, 4),
        ({"file": FILE, "overrides": ARGUMENTS}, 4),
    ],
    ids=["default", "file", "environment", "arguments", "arguments over file"],
)
def test_precedence(layers: dict[str, Any], expected: int) -> None:
    """Arguments win over the environment, which wins over the file, which wins over the default."""
    assert Settings.resolve(**layers).io.threads == expected


def test_layers_meet_setting_by_setting() -> None:
    """A layer overrides single settings, not whole groups."""
    settings = Settings.resolve({"io.part_bytes": 7}, env=ENV, file={"io": {"fsync": False}})
    assert (settings.io.part_bytes, settings.io.threads, settings.io.fsync) == (7, 3, False)


def test_text_is_parsed() -> None:
    """Text from the environment becomes the setting's type."""
    env = {
        "LAKEHOUSE_IO_FSYNC": "off",
        "LAKEHOUSE_IO_CONNECT_TIMEOUT_S": "1.5",
        "LAKEHOUSE_IO_PART_BYTES": "16_777_216",
        "LAKEHOUSE_IO_FAST_READS": "require",
    }
    got = Settings.resolve(env=env).io
    assert (got.fsync, got.connect_timeout_s, got.part_bytes, got.fast_reads) == (
        False,
        1.5,
        16_777_216,
        "require",
    )


@pytest.mark.parametrize("word", ["true", "True", "1", "yes", "ON"])
def test_words_for_true(word: str) -> None:
    """The usual words for true are understood in any case."""
    assert Settings.resolve(env={"LAKEHOUSE_IO_FSYNC": word}).io.fsync is True


def test_a_variable_set_to_nothing_counts_as_not_set() -> None:
    """Compose files write ``VAR=`` for what they do not set."""
    assert Settings.resolve(env={"LAKEHOUSE_IO_THREADS": ""}) == Settings()


@pytest.mark.parametrize(
    "variable",
    [
        "PATH",
        "LAKEHOUSE_CONFIG",
        "LAKEHOUSE_TEST_MINIO",
        "LAKEHOUSE_PORT",
        "LAKEHOUSE_PORT_80_TCP",
        "LAKEHOUSE_SERVICE_HOST",
    ],
)
def test_variables_that_are_not_settings_are_left_alone(variable: str) -> None:
    """Others' variables, the test kit's and those Kubernetes makes for a Service are no settings."""
    assert Settings.resolve(env={variable: "tcp://10.0.0.1:80"}) == Settings()


def test_a_reserved_name_is_not_a_prefix() -> None:
    """Only reserved names that end with an underscore stand for all that begin so."""
    error = refusal(env={"LAKEHOUSE_CONFIGURATION": "x"})
    assert error.kind == "unknown-setting"


@pytest.mark.parametrize("info", SETTINGS, ids=lambda info: info.name)
def test_every_setting_can_be_set_from_the_environment(info: SettingInfo) -> None:
    """No setting's variable is reserved, and its default is accepted as text."""
    assert info.env.startswith(ENV_PREFIX)
    assert Settings.resolve(env={info.env: str(info.default)}) == Settings()
    assert not info.env.startswith(tuple(r for r in RESERVED_ENV if r.endswith("_")))
    assert info.env not in RESERVED_ENV


@pytest.mark.parametrize("info", SETTINGS, ids=lambda info: info.name)
def test_a_setting_explains_itself(info: SettingInfo) -> None:
    """Each setting has a type, an acceptable default and one sentence of meaning."""
    assert info.type in ("int", "float", "bool", "str")
    assert info.check(info.default, "the default") == info.default
    assert info.doc.endswith(".")
    assert info.doc[0].isupper()


@pytest.mark.parametrize("info", [i for i in SETTINGS if i.type in ("int", "float")], ids=lambda i: i.name)
def test_a_number_has_a_lower_bound(info: SettingInfo) -> None:
    """A number that bounds something cannot be set to what would hang or break."""
    assert info.low is not None
    error = refusal({info.name: info.low - 1})
    assert f"must be at least {info.low}" in str(error)


@pytest.mark.parametrize(
    ("layer", "origin", "given", "nearest"),
    [
        ({"overrides": {"io.max_concurency": 1}}, "the arguments", "io.max_concurency", "io.max_concurrency"),
        ({"overrides": {"part_bytes": 1}}, "the arguments", "part_bytes", "io.part_bytes"),
        (
            {"env": {"LAKEHOUSE_IO_THREAD": "1"}},
            "the environment",
            "LAKEHOUSE_IO_THREAD",
            "LAKEHOUSE_IO_THREADS",
        ),
        (
            {"file": {"io": {"retry": {"cap_s": 1}}}},
            "the configuration file",
            "io.retry.cap_s",
            "io.retry_cap_s",
        ),
    ],
    ids=["arguments", "no group", "environment", "file"],
)
def test_an_unknown_name_brings_the_nearest(
    layer: dict[str, Any], origin: str, given: str, nearest: str
) -> None:
    """A name nobody knows is refused with its origin and the name that was probably meant."""
    error = refusal(**layer)
    assert str(error) == f"there is no setting {given!r} (from {origin}); did you mean {nearest!r}?"
    assert (error.kind, error.context) == ("unknown-setting", {"setting": given, "nearest": nearest})


def test_a_name_like_nothing_brings_the_groups() -> None:
    """A name that resembles no setting is not answered with a guess."""
    error = refusal({"zzz": 1})
    assert str(error) == "there is no setting 'zzz' (from the arguments); the groups are " + ", ".join(
        f.name for f in dataclasses.fields(Settings)
    )


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("io.threads", "many", "a whole number"),
        ("io.threads", 1.5, "a whole number"),
        ("io.threads", True, "a whole number"),
        ("io.threads", None, "a whole number"),
        ("io.retry_cap_s", "soon", "a number"),
        ("io.retry_cap_s", float("nan"), "a number"),
        ("io.retry_cap_s", False, "a number"),
        ("io.fsync", "maybe", "true or false"),
        ("io.fsync", 1, "true or false"),
        ("io.fast_reads", 1, "text"),
        ("io.fast_reads", "sometimes", "one of auto, off, require"),
        ("io.delete_batch", 1_001, "at most 1000"),
        ("io.threads", 0, "at least 1"),
    ],
)
def test_a_wrong_value_names_setting_and_origin(name: str, value: object, wanted: str) -> None:
    """A value of the wrong type or out of bounds says which setting, from where, and what it must be."""
    group, field = name.split(".")
    for layer, origin in (
        ({"overrides": {name: value}}, "the arguments"),
        ({"file": {group: {field: value}}}, "the configuration file"),
    ):
        error = refusal(**layer)
        assert str(error) == f"setting {name!r} (from {origin}) must be {wanted}, not {value!r}"
        assert error.context["setting"] == name


def test_a_wrong_value_in_the_environment_names_the_variable() -> None:
    """The message names the variable, because that is what its reader has to look for."""
    error = refusal(env={"LAKEHOUSE_IO_FSYNC": "maybe"})
    assert str(error) == (
        "setting 'io.fsync' (from the environment variable LAKEHOUSE_IO_FSYNC) "
        "must be true or false, not 'maybe'"
    )


@pytest.mark.parametrize("bad", [{"threads": 0}, {"threads": "8"}, {"delete_batch": 5_000}])
def test_a_group_made_directly_keeps_the_bounds(bad: dict[str, Any]) -> None:
    """A bound holds also where a group is made without resolve()."""
    with pytest.raises(InvalidInputError, match=rf"setting 'io.{next(iter(bad))}' \(from the arguments of"):
        IoSettings(**bad)


def test_a_wrong_value_below_the_winning_layer_still_shows() -> None:
    """A mistake is not hidden by a layer above it."""
    assert "configuration file" in str(refusal(ARGUMENTS, file={"io": {"threads": "x"}}))


def test_replace_changes_only_what_it_names() -> None:
    """replace() gives a checked copy and leaves the original alone."""
    before = Settings.resolve(ARGUMENTS)
    after = before.replace(**{"io.fsync": False})
    assert (after.io.fsync, after.io.threads, before.io.fsync) == (False, 4, True)
    with pytest.raises(InvalidInputError, match=r"did you mean 'io.fsync'"):
        before.replace(**{"io.fsyn": False})


def test_as_dict_is_what_resolve_takes() -> None:
    """All settings by name make the same settings again."""
    settings = Settings.resolve(ARGUMENTS)
    assert Settings.resolve(settings.as_dict()) == settings
    assert list(settings.as_dict()) == [info.name for info in SETTINGS]


def test_settings_are_values() -> None:
    """Settings travel to workers by pickle and cannot be changed in place."""
    settings = Settings.resolve(ARGUMENTS)
    assert pickle.loads(pickle.dumps(settings)) == settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.io.threads = 1  # type: ignore[misc]


PASSPHRASE = "hunter2-is-not-it"


class TestSecret:
    """A secret is carried anywhere and shown nowhere."""

    @pytest.mark.parametrize(
        "shown",
        [
            repr,
            str,
            format,
            ascii,
            lambda s: f"{s}",
            lambda s: f"{s!r:>20}",
            lambda s: f"{s:<40}",
            lambda s: "%s %r" % (s, s),  # noqa: UP031  another way to print it
            lambda s: repr({"secret": s, "all": [s]}),
            lambda s: repr(pickle.loads(pickle.dumps(s))),
            lambda s: repr(copy.deepcopy(s)),
            lambda s: str(InvalidInputError("no", secret=s)) + repr(InvalidInputError("no", secret=s)),
        ],
    )
    def test_is_not_shown(self, shown: Any) -> None:
        """No way of printing it prints it."""
        text = shown(Secret(PASSPHRASE))
        assert PASSPHRASE not in text
        assert "no" in text or "***" in text

    def test_is_not_logged(self) -> None:
        """Neither the message nor a traceback with arguments shows it."""
        stream = io.StringIO()
        logger = logging.Logger("secret")
        logger.addHandler(logging.StreamHandler(stream))
        secret = Secret(PASSPHRASE)
        try:
            raise ValueError(secret)
        except ValueError:
            logger.exception("with %s and %r", secret, secret)
            assert PASSPHRASE not in traceback.format_exc()
        assert PASSPHRASE not in stream.getvalue()
        assert "with *** and Secret('***')" in stream.getvalue()

    @pytest.mark.parametrize(
        "leak", [lambda s: "key=" + s, lambda s: "".join([s]), json.dumps, lambda s: s[:4], bytes, len]
    )
    def test_is_no_text(self, leak: Any) -> None:
        """What treats it as text fails at once, instead of leaking or signing with stars."""
        with pytest.raises(TypeError):
            leak(Secret(PASSPHRASE))

    def test_reveals_on_request(self) -> None:
        """reveal() gives the text, also after pickle and when wrapped twice."""
        assert Secret(PASSPHRASE).reveal() == PASSPHRASE
        assert pickle.loads(pickle.dumps(Secret(PASSPHRASE))).reveal() == PASSPHRASE
        assert Secret(Secret(PASSPHRASE)).reveal() == PASSPHRASE

    def test_compares_by_content_with_secrets_only(self) -> None:
        """Equal secrets are equal and hash alike; text is never equal to a secret."""
        assert Secret("a") == Secret("a")
        assert hash(Secret("a")) == hash(Secret("a"))
        assert Secret("a") != Secret("b")
        assert Secret("a") != "a"
        assert not Secret("")
