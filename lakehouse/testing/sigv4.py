"""Takes headers out of a signed S3 request and signs it again, as gateways do that do not know them.

Signature Version 4 covers the headers it names; one of them that is gone makes the store refuse the request.
The hash of the body is a header itself, so the body need not be known.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Mapping

from lakehouse.errors import FormatError
from lakehouse.testing.http_wire import Request

__all__ = ["without_headers"]

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>[^,]+), ?"
    r"SignedHeaders=(?P<signed>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


def without_headers(request: Request, names: Collection[str], secrets: Mapping[str, str]) -> bytes:
    """Returns the head of the request without these headers, signed again where it was signed.

    Args:
        request: as it came.
        names: headers to leave out, in lower case.
        secrets: secret keys by access key.
    """
    lines = request.raw[: -len(b"\r\n\r\n")].split(b"\r\n")
    kept = [line for line in lines[1:] if _name(line) not in names]
    if len(kept) == len(lines) - 1:
        return request.raw
    signed = request.header("authorization")
    if signed is not None:
        again = f"authorization: {_signed_again(request, signed, kept, names, secrets)}".encode("latin-1")
        kept = [again if _name(line) == "authorization" else line for line in kept]
    return b"\r\n".join([lines[0], *kept, b"", b""])


def _signed_again(
    request: Request, signed: str, kept: list[bytes], names: Collection[str], secrets: Mapping[str, str]
) -> str:
    parts = _AUTHORIZATION.fullmatch(signed)
    if parts is None or parts["key"] not in secrets:
        raise FormatError(f"a request that cannot be signed again: {signed[:80]!r}")
    headers = {_name(line): _value(line) for line in kept}
    covered = [name for name in parts["signed"].split(";") if name not in names]
    path, _, query = request.target.partition("?")
    canonical = "\n".join(
        (
            request.method,
            path,
            "&".join(sorted(pair if "=" in pair else pair + "=" for pair in query.split("&") if pair)),
            *(f"{name}:{headers[name]}" for name in covered),
            "",
            ";".join(covered),
            headers["x-amz-content-sha256"],
        )
    )
    digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", headers["x-amz-date"], parts["scope"], digest))
    secret = b"AWS4" + secrets[parts["key"]].encode()
    for part in (*parts["scope"].split("/"), text):
        secret = hmac.new(secret, part.encode("latin-1"), hashlib.sha256).digest()
    return (
        f"AWS4-HMAC-SHA256 Credential={parts['key']}/{parts['scope']}, SignedHeaders={';'.join(covered)}, "
        f"Signature={secret.hex()}"
    )


def _name(line: bytes) -> str:
    return line.partition(b":")[0].decode("latin-1").strip().lower()


def _value(line: bytes) -> str:
    return " ".join(line.partition(b":")[2].decode("latin-1").split())
