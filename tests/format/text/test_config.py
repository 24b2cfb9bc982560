"""Configuration of fulltext indexes: GreptimeDB's text, ours, and what is neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import FormatError, InvalidInputError
from lakehouse.format.text.config import FULLTEXT_CONFIG, Analyzer, FulltextConfig
from tests.kit.blob_samples import spec_block

configs = st.builds(
    FulltextConfig,
    analyzer=st.sampled_from(Analyzer),
    case_sensitive=st.booleans(),
    granularity=st.none() | st.integers(1, 1 << 40),
    false_positive_rate=st.none() | st.floats(0, 1, exclude_min=True),
)


def test_upstreams_form_is_written_byte_for_byte() -> None:
    """Without the keys of our own the text is GreptimeDB's."""
    assert FULLTEXT_CONFIG == "fulltext_config"
    assert FulltextConfig().encode() == '{"analyzer":"English","case_sensitive":false}'
    chinese = FulltextConfig(analyzer=Analyzer.CHINESE, case_sensitive=True)
    assert chinese.encode() == '{"analyzer":"Chinese","case_sensitive":true}'


def test_our_form_has_two_more_keys() -> None:
    """Granularity and rate follow the keys that GreptimeDB reads."""
    config = FulltextConfig(granularity=10_240, false_positive_rate=0.01)
    assert config.encode() == (
        '{"analyzer":"English","case_sensitive":false,"granularity":10240,"false_positive_rate":0.01}'
    )


@given(configs)
def test_a_configuration_comes_back(config: FulltextConfig) -> None:
    """Parsing what was encoded changes nothing."""
    assert FulltextConfig.parse(config.encode()) == config


def test_no_property_means_the_default() -> None:
    """Blobs from before the property are English and not case sensitive."""
    assert FulltextConfig.parse(None) == FulltextConfig()


def test_other_spellings_and_other_keys_are_read() -> None:
    """An analyzer in lower case, an integer as rate and keys nobody knows do not matter."""
    text = '{"case_sensitive":true,"analyzer":"chinese","backend":"bloom","false_positive_rate":1}'
    wanted = FulltextConfig(analyzer=Analyzer.CHINESE, case_sensitive=True, false_positive_rate=1.0)
    assert FulltextConfig.parse(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"English"',
        "{}",
        '{"analyzer":"English"}',
        '{"case_sensitive":false}',
        '{"analyzer":"Klingon","case_sensitive":false}',
        '{"analyzer":1,"case_sensitive":false}',
        '{"analyzer":"English","case_sensitive":"no"}',
        '{"analyzer":"English","case_sensitive":false,"granularity":0}',
        '{"analyzer":"English","case_sensitive":false,"granularity":true}',
        '{"analyzer":"English","case_sensitive":false,"granularity":1.5}',
        '{"analyzer":"English","case_sensitive":false,"false_positive_rate":0}',
        '{"analyzer":"English","case_sensitive":false,"false_positive_rate":1.1}',
        '{"analyzer":"English","case_sensitive":false,"false_positive_rate":NaN}',
        "[" * 60_000,
        '{"analyzer":"English","case_sensitive":false,"x":"' + "x" * 70_000 + '"}',
    ],
)
def test_what_is_no_configuration_is_refused(text: str) -> None:
    """Broken JSON, missing keys and values that cannot be are named in an error of ours."""
    with pytest.raises(FormatError, match=FULLTEXT_CONFIG):
        FulltextConfig.parse(text)


@pytest.mark.parametrize(
    "changes", [{"granularity": 0}, {"false_positive_rate": 0.0}, {"false_positive_rate": 2.0}]
)
def test_numbers_that_cannot_be_are_a_mistake(changes: dict[str, float]) -> None:
    """A configuration is made of possible numbers alone."""
    with pytest.raises(InvalidInputError):
        FulltextConfig(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["fulltext-config-greptime", "fulltext-config-ours"])
def test_the_specifications_examples_come_back(name: str) -> None:
    """The texts of the specification decode and encode to themselves."""
    text = spec_block("index-fulltext.md", name).strip()
    assert FulltextConfig.parse(text).encode() == text
