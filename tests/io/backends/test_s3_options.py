"""Storage options of S3 stores: understood in every spelling, refused when they would have no effect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io import open_backend, open_store
from lakehouse.io.backends.s3_options import s3_options
from lakehouse.io.backends.s3_spellings import REFUSED, SPELLINGS
from lakehouse.io.decorators import innermost
from lakehouse.io.location import Location
from lakehouse.io.open import understood_options
from tests.kit.listening import listening

AT = Location.parse("s3://bucket/wh")
KEY, SECRET, TOKEN, REGION = "AKIDEXAMPLE", "hush-hush", "session-words", "eu-west-9"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another store stands in the environment, where what is not understood would go."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")


def understood(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as s3fs takes them."""
    return s3_options(AT, options)


async def _get(options: Mapping[str, Any], fast_reads: str) -> None:
    """Asks for an object that is not there."""
    settings = IoSettings(fast_reads=fast_reads)
    async with open_store("s3://bucket/wh", storage_options=options, settings=settings) as store:
        with pytest.raises(NotFoundError):
            await store.get("k")


# --- spellings -------------------------------------------------------------------------

FIVE = ("endpoint", "key", "secret", "token", "region")
WORDS = {
    "s3fs": ("endpoint_url", "key", "secret", "token", "region"),
    "s3fs, its other names": ("endpoint_url", "username", "password", "token", "region_name"),
    "delta-rs": (
        "AWS_ENDPOINT_URL",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
    ),
    "polars": (
        "aws_endpoint_url",
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_region",
    ),
    "object_store": ("endpoint", "access_key_id", "secret_access_key", "session_token", "default_region"),
    "object_store, older": (
        "AWS_ENDPOINT",
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_token",
        "AWS_DEFAULT_REGION",
    ),
    "pyiceberg": (
        "s3.endpoint",
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
        "s3.region",
    ),
    "pyiceberg, of every store": (
        "s3.endpoint",
        "client.access-key-id",
        "client.secret-access-key",
        "client.session-token",
        "client.region",
    ),
}


def spelled(dialect: str, endpoint: str) -> dict[str, Any]:
    """The same five options in the words of a program."""
    return dict(zip(WORDS[dialect], (endpoint, KEY, SECRET, TOKEN, REGION), strict=True))


@pytest.mark.parametrize("fast_reads", ["off", "require"])
@pytest.mark.parametrize("dialect", WORDS)
async def test_requests_go_where_the_options_say(dialect: str, fast_reads: str) -> None:
    """In every spelling requests go to the endpoint named, signed with the key, token and region given."""
    async with listening() as listener:
        await _get(spelled(dialect, listener.url), fast_reads)
    request = listener.requests[0]
    assert (request.method, request.target) == ("GET", "/bucket/wh/k")
    signature = request.header("authorization") or ""
    assert f"Credential={KEY}/" in signature
    assert f"/{REGION}/s3/" in signature
    assert request.header("x-amz-security-token") == TOKEN


@pytest.mark.parametrize("fast_reads", ["off", "require"])
@pytest.mark.parametrize("name", ["anon", "AWS_SKIP_SIGNATURE", "s3.anonymous"])
async def test_anonymous_requests_are_not_signed(name: str, fast_reads: str) -> None:
    """Asked for in every spelling, requests carry no signature."""
    async with listening() as listener:
        await _get({"endpoint": listener.url, name: "true"}, fast_reads)
    assert listener.requests[0].header("authorization") is None


async def test_a_proxy_is_used_and_virtual_hosts_are_addressed() -> None:
    """delta-rs' proxy and style of addressing have their effects: the proxy sees the bucket as a host."""
    async with listening() as proxy:
        options = {
            "AWS_PROXY_URL": proxy.url,
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
            # As object_store wants it: with the bucket.
            **spelled("delta-rs", "http://bucket.store.example"),
        }
        await _get(options, "auto")
    assert proxy.requests[0].target == "http://bucket.store.example/wh/k"


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("AWS_ALLOW_INVALID_CERTIFICATES", "true", {"client_kwargs": {"verify": False}}),
        ("aws_request_payer", "true", {"requester_pays": True}),
        (
            "AWS_SERVER_SIDE_ENCRYPTION",
            "aws:kms",
            {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms"}},
        ),
        ("AWS_SSE_KMS_KEY_ID", "id", {"s3_additional_kwargs": {"SSEKMSKeyId": "id"}}),
        ("AWS_SSE_BUCKET_KEY_ENABLED", "1", {"s3_additional_kwargs": {"BucketKeyEnabled": True}}),
        ("aws_unsigned_payload", True, {"config_kwargs": {"s3": {"payload_signing_enabled": False}}}),
        ("AWS_PROFILE", "work", {"profile": "work"}),
        ("s3.profile-name", "work", {"profile": "work"}),
        (
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
            "false",
            {"config_kwargs": {"s3": {"addressing_style": "path"}}},
        ),
        ("s3.force-virtual-addressing", "true", {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}),
        ("s3.path-style-access", "true", {"config_kwargs": {"s3": {"addressing_style": "path"}}}),
        (
            "s3.proxy-uri",
            "http://p",
            {"config_kwargs": {"proxies": {"http": "http://p", "https": "http://p"}}},
        ),
        ("AWS_USER_AGENT", "us", {"config_kwargs": {"user_agent": "us"}}),
        ("AWS_ALLOW_HTTP", "true", {}),
        ("aws_bucket_name", "bucket", {}),
        ("use_ssl", "false", {"use_ssl": False}),
    ],
)
def test_a_spelling_is_the_option_of_s3fs(name: str, value: object, found: dict[str, Any]) -> None:
    """What other programs call an option is what s3fs calls it; what holds anyway is taken."""
    assert understood({name: value}) == found


@pytest.mark.parametrize("name", [*SPELLINGS, *REFUSED])
def test_names_are_understood_in_any_case(name: str) -> None:
    """object_store does not look at case, nor does Spark keep it: every name is known in both."""
    said = []
    for text in (name, name.upper()):
        try:
            said.append(str(understood({text: "true"})))
        except InvalidInputError as error:
            said.append(str(error).lower())
    assert said[0] == said[1]
    assert "there is no storage option" not in said[0]


@pytest.mark.parametrize("style", ["virtual", "path", "auto"])
def test_fast_reads_address_as_s3fs_does(style: str) -> None:
    """The style of addressing goes to obstore too, with the bucket in the endpoint where it belongs there."""
    options = {**spelled("s3fs", "http://store:9000"), "config_kwargs": {"s3": {"addressing_style": style}}}
    backend: Any = open_backend(
        "s3://bucket/wh", storage_options=options, settings=IoSettings(fast_reads="require")
    )
    config = backend._options["config"]
    host = "http://bucket.store:9000" if style == "virtual" else "http://store:9000"
    assert (config["endpoint"], config.get("virtual_hosted_style_request", False)) == (
        host,
        style == "virtual",
    )


@pytest.mark.parametrize(("use_ssl", "fast"), [(True, True), (False, False)])
def test_fast_reads_leave_alone_what_they_would_not_do(
    use_ssl: bool, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an endpoint obstore speaks TLS always: a store without TLS is read by s3fs."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    options = {"key": KEY, "secret": SECRET, "region": REGION, "use_ssl": use_ssl}
    backend = open_backend("s3://bucket/wh", storage_options=options)
    assert (type(innermost(backend)) is not type(backend)) == fast


# --- what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"endpoint_ur": "http://x"}, "'endpoint_ur' for s3://; did you mean 'endpoint_url'?"),
        ({"AWS_ENDPOINT_ULR": "http://x"}, "did you mean 'aws_endpoint_url'?"),
        ({"s3.acces-key-id": "x"}, "did you mean 's3.access-key-id'?"),
        ({"Secret": "x"}, "did you mean 'secret'?"),
        ({"fs.s3a.endpoint": "http://x"}, "did you mean 'endpoint_url'?"),
        ({"fs.s3a.access.key": "x"}, "did you mean 'key'?"),
        ({"spark.hadoop.fs.s3a.secret.key": "x"}, "did you mean 'secret'?"),
        ({"fs.s3a.session.token": "x"}, "did you mean 'token'?"),
        ({"fs.s3a.endpoint.region": "x"}, "did you mean 'region'?"),
        ({"fs.s3a.path.style.access": "true"}, "did you mean 's3.path-style-access'?"),
        ({"client_kwargs": {"regio_name": "x"}}, "did you mean 'client_kwargs.region_name'?"),
        ({"config_kwargs": {"connect_timeot": 1}}, "did you mean 'config_kwargs.connect_timeout'?"),
        ({"config_kwargs": {"s3": {"adressing_style": "path"}}}, "'config_kwargs.s3.addressing_style'?"),
        (
            {"s3_additional_kwargs": {"ServerSideEncrypton": "AES256"}},
            "'s3_additional_kwargs.ServerSideEncryption'?",
        ),
        ({"qqqq": 1}, "there is anon, client_kwargs"),
    ],
)
def test_unknown_names_are_errors(options: dict[str, Any], says: str) -> None:
    """A name that nobody knows is an error with the name that was probably meant, before any request."""
    with pytest.raises(InvalidInputError) as caught:
        open_store("s3://bucket/wh", storage_options=options)
    assert says in str(caught.value)
    assert caught.value.context["option"].split(".")[0] in options or "." in caught.value.context["option"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"key": "a", "AWS_ACCESS_KEY_ID": "b"}, "'key' and 'AWS_ACCESS_KEY_ID' say different things"),
        ({"key": "a", "username": "b"}, "'key' and 'username'"),
        ({"region": "a", "client_kwargs": {"region_name": "b"}}, "'region' and 'client_kwargs.region_name'"),
        ({"s3.endpoint": "http://a", "endpoint_url": "http://b"}, "'s3.endpoint' and 'endpoint_url'"),
        (
            {"s3.path-style-access": "true", "aws_virtual_hosted_style_request": "true"},
            "'s3.path-style-access' and 'aws_virtual_hosted_style_request'",
        ),
        ({"endpoint_url": "http://a", "AWS_ALLOW_HTTP": "false"}, "'AWS_ALLOW_HTTP' forbids"),
        ({"AWS_BUCKET": "other"}, "names another bucket"),
    ],
)
def test_contradictions_are_errors(options: dict[str, Any], says: str) -> None:
    """Two spellings that say different things are an error that names both."""
    with pytest.raises(InvalidInputError) as caught:
        understood(options)
    assert says in str(caught.value)


def test_the_same_said_twice_is_taken() -> None:
    """Spellings that agree are one option."""
    assert understood(
        {"key": "a", "aws_access_key_id": "a", "client_kwargs": {"aws_access_key_id": "a"}}
    ) == {"key": "a"}


@pytest.mark.parametrize(
    "options",
    [
        {"default_block_size": 5_000_000},
        {"max_concurrency": 4},
        {"use_listings_cache": True},
        {"version_aware": True},
        {"cache_regions": True},
        {"fixed_upload_size": True},
        {"config_kwargs": {"retries": {"max_attempts": 3}}},
        {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"},
        {"AWS_S3_LOCKING_PROVIDER": "dynamodb"},
        {"aws_conditional_put": "dynamo:table"},
        {"AWS_ROLE_ARN": "arn"},
        {"timeout": "30s"},
        {"s3.connect-timeout": "5"},
        {"s3.signer": "S3V4RestSigner"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_without_effect_are_refused(options: dict[str, Any]) -> None:
    """An option that is known and would do nothing here is refused with the reason."""
    with pytest.raises(InvalidInputError, match=r"would have no effect: .{10,}"):
        understood(options)


def test_what_holds_anyway_may_be_said() -> None:
    """Options of s3fs that the engine decides are taken when they say what it does."""
    held = {"asynchronous": True, "skip_instance_cache": True, "use_listings_cache": False, "loop": None}
    assert understood({**held, "version_aware": False, "client_kwargs": None, "token": None}) == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"anon": "perhaps"}, "'anon' is true or false"),
        ({"AWS_ALLOW_HTTP": "perhaps"}, "'AWS_ALLOW_HTTP' is true or false"),
        ({"key": 12}, "'key' is text, not int"),
        ({"AWS_SECRET_ACCESS_KEY": 12}, "'AWS_SECRET_ACCESS_KEY' is text, not int"),
        ({"client_kwargs": "region_name=x"}, "'client_kwargs' is a mapping"),
    ],
)
def test_values_of_another_kind_are_refused(options: dict[str, Any], says: str) -> None:
    """A value that s3fs would take for something else is an error that does not show it."""
    with pytest.raises(InvalidInputError) as caught:
        understood(options)
    assert says in str(caught.value)
    assert "12" not in str(caught.value)


def test_later_layers_win_in_every_spelling() -> None:
    """What is said for one call stands above what is said for a session, however the two spell it."""
    below = {"endpoint_url": "http://a", "client_kwargs": {"region_name": "r", "verify": False}}
    found = understood_options(AT, below, {"AWS_ENDPOINT_URL": "http://b", "s3.region": "q"})
    assert found.reveal() == {
        "endpoint_url": "http://b",
        "client_kwargs": {"region_name": "q", "verify": False},
    }
