"""How other programs spell the options of an S3 store, and what each is called by s3fs.

delta-rs, polars and everything else that stands on object_store write ``AWS_ENDPOINT_URL``,
``aws_access_key_id`` or ``region``, in any case; pyiceberg writes ``s3.access-key-id``. Both are
understood, because people copy them. Hadoop's ``fs.s3a.…`` are answered with the name to use.

Invariant: a name that has no effect here stands among :data:`REFUSED` with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lakehouse.errors import InvalidInputError

__all__ = ["ALLOW_HTTP", "BUCKET", "REFUSED", "SPELLINGS", "Path", "from_hadoop", "text", "truth"]

Path = tuple[str, ...]
"""Where s3fs takes an option: its name, and the name in there where it is a mapping."""
_Reader = Callable[[str, Any], Any]

BUCKET: Final[Path] = ("bucket",)
"""The bucket, which the URL names: no option of s3fs."""
ALLOW_HTTP: Final[Path] = ("allow_http",)
"""Whether an endpoint may be ``http://``: no option of s3fs, which allows it."""
_REGION: Final[Path] = ("client_kwargs", "region_name")
_STYLE: Final[Path] = ("config_kwargs", "s3", "addressing_style")


def truth(name: str, value: Any) -> bool:
    """A truth value, also as text."""
    word = value.strip().lower() if isinstance(value, str) else value
    if word is True or word in ("true", "1", "yes", "on"):
        return True
    if word is False or word in ("false", "0", "no", "off"):
        return False
    raise InvalidInputError(f"storage option {name!r} is true or false", option=name)


def text(name: str, value: Any) -> str:
    """Text, as most values are."""
    if not isinstance(value, str):
        raise InvalidInputError(f"storage option {name!r} is text, not {type(value).__name__}", option=name)
    return value


def _opposite(name: str, value: Any) -> bool:
    return not truth(name, value)


def _virtual(name: str, value: Any) -> str:
    return "virtual" if truth(name, value) else "path"


def _by_path(name: str, value: Any) -> str:
    return "path" if truth(name, value) else "virtual"


def _proxies(name: str, value: Any) -> dict[str, str]:
    return dict.fromkeys(("http", "https"), text(name, value))


_OBJECT_STORE: Final[Mapping[str, tuple[Path, _Reader]]] = {
    "access_key_id": (("key",), text),
    "allow_http": (ALLOW_HTTP, truth),
    "allow_invalid_certificates": (("client_kwargs", "verify"), _opposite),
    "bucket": (BUCKET, text),
    "bucket_name": (BUCKET, text),
    "default_region": (_REGION, text),
    "endpoint": (("endpoint_url",), text),
    "endpoint_url": (("endpoint_url",), text),
    "endpoint_url_s3": (("endpoint_url",), text),
    "profile": (("profile",), text),
    "proxy_url": (("config_kwargs", "proxies"), _proxies),
    "region": (_REGION, text),
    "region_name": (_REGION, text),
    "request_payer": (("requester_pays",), truth),
    "secret_access_key": (("secret",), text),
    "server_side_encryption": (("s3_additional_kwargs", "ServerSideEncryption"), text),
    "session_token": (("token",), text),
    "skip_signature": (("anon",), truth),
    "sse_bucket_key_enabled": (("s3_additional_kwargs", "BucketKeyEnabled"), truth),
    "sse_kms_key_id": (("s3_additional_kwargs", "SSEKMSKeyId"), text),
    "token": (("token",), text),
    "unsigned_payload": (("config_kwargs", "s3", "payload_signing_enabled"), _opposite),
    "user_agent": (("config_kwargs", "user_agent"), text),
    "virtual_hosted_style_request": (_STYLE, _virtual),
}
"""object_store's names, lower case and without the ``aws_`` that may stand in front."""
_PYICEBERG: Final[Mapping[str, tuple[Path, _Reader]]] = {
    "client.access-key-id": (("key",), text),
    "client.profile-name": (("profile",), text),
    "client.region": (_REGION, text),
    "client.secret-access-key": (("secret",), text),
    "client.session-token": (("token",), text),
    "s3.access-key-id": (("key",), text),
    "s3.anonymous": (("anon",), truth),
    "s3.endpoint": (("endpoint_url",), text),
    "s3.force-virtual-addressing": (_STYLE, _virtual),
    "s3.path-style-access": (_STYLE, _by_path),
    "s3.profile-name": (("profile",), text),
    "s3.proxy-uri": (("config_kwargs", "proxies"), _proxies),
    "s3.region": (_REGION, text),
    "s3.secret-access-key": (("secret",), text),
    "s3.session-token": (("token",), text),
}

_PREFIXED: Final = {f"aws_{name}": target for name, target in _OBJECT_STORE.items()}
SPELLINGS: Final[Mapping[str, tuple[Path, _Reader]]] = {**_OBJECT_STORE, **_PREFIXED, **_PYICEBERG}
"""Other programs' names in lower case: where s3fs takes the option, and how the value is read."""

_ROLE = (
    "roles are resolved by botocore: set AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE in the environment, or "
    "name a profile"
)
_TIMES = "give the settings io.connect_timeout_s, io.read_timeout_s and io.request_timeout_s instead"
_RETRIES = "the engine repeats requests itself: see the settings io.retry_…"
_POOL = "connections are bounded by the setting io.max_concurrency"
_COMMITS = "nothing is renamed or locked here; commits are conditional writes on every store"
_METADATA = "credentials of the machine are resolved by botocore: set this in the environment"
_SIGNER = "requests are signed here, with the credentials given"
_CUSTOMER_KEY = "give s3_additional_kwargs={'SSECustomerAlgorithm': …, 'SSECustomerKey': …}"

_REFUSED_OF_OBJECT_STORE: Final[Mapping[str, str]] = {
    "checksum_algorithm": "the formats have checksums of their own",
    "conditional_put": _COMMITS,
    "connect_timeout": _TIMES,
    "container_authorization_token_file": _METADATA,
    "container_credentials_full_uri": _METADATA,
    "container_credentials_relative_uri": _METADATA,
    "copy_if_not_exists": _COMMITS,
    "disable_tagging": "objects are not tagged",
    "ec2_metadata_disabled": _METADATA,
    "endpoint_url_sts": _ROLE,
    "imdsv1_fallback": _METADATA,
    "max_retries": _RETRIES,
    "metadata_endpoint": _METADATA,
    "pool_idle_timeout": _POOL,
    "pool_max_idle_per_host": _POOL,
    "proxy_ca_certificate": "give config_kwargs={'proxies_config': …}",
    "proxy_excludes": "set NO_PROXY in the environment",
    "retry_timeout": _RETRIES,
    "role_arn": _ROLE,
    "role_session_name": _ROLE,
    "s3_allow_unsafe_rename": _COMMITS,
    "s3_express": "directory buckets are recognised by their names",
    "s3_locking_provider": _COMMITS,
    "sse_customer_key_base64": _CUSTOMER_KEY,
    "timeout": _TIMES,
    "web_identity_token_file": _ROLE,
}
_REFUSED_OF_PYICEBERG: Final[Mapping[str, str]] = {
    "client.external-id": _ROLE,
    "client.role-arn": _ROLE,
    "client.role-session-name": _ROLE,
    "s3.connect-timeout": _TIMES,
    "s3.external-id": _ROLE,
    "s3.remote-signing-enabled": _SIGNER,
    "s3.request-timeout": _TIMES,
    "s3.resolve-region": "name the region: s3.region",
    "s3.retry-strategy-impl": _RETRIES,
    "s3.role-arn": _ROLE,
    "s3.role-session-name": _ROLE,
    "s3.signer": _SIGNER,
    "s3.signer.endpoint": _SIGNER,
    "s3.signer.uri": _SIGNER,
    "s3.sse.key": "give aws_sse_kms_key_id",
    "s3.sse.type": "give aws_server_side_encryption",
}
REFUSED: Final[Mapping[str, str]] = {
    **_REFUSED_OF_OBJECT_STORE,
    **{f"aws_{name}": why for name, why in _REFUSED_OF_OBJECT_STORE.items()},
    **_REFUSED_OF_PYICEBERG,
}
"""Other programs' names that would have no effect here, and what to do instead."""

_HADOOP: Final[Mapping[str, str]] = {
    "access.key": "key",
    "aws.credentials.provider": "anon",
    "connection.ssl.enabled": "use_ssl",
    "endpoint": "endpoint_url",
    "endpoint.region": "region",
    "path.style.access": "s3.path-style-access",
    "secret.key": "secret",
    "session.token": "token",
}


def from_hadoop(name: str) -> str | None:
    """The name to use for one of Hadoop's (``fs.s3a.…``), where it has a counterpart."""
    folded = name.lower().removeprefix("spark.hadoop.")
    for prefix in ("fs.s3a.", "fs.s3n.", "fs.s3."):
        if folded.startswith(prefix):
            return _HADOOP.get(folded.removeprefix(prefix))
    return None
