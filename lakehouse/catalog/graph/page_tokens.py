"""Page tokens: where a listing goes on.

A token names the last name that was given out, not a count: what is inserted, dropped or renamed meanwhile
moves no page. A digest of what is listed and by whom catches a token that is cut, changed or of another
listing. It is no secret and no signature, and need not be: a token has no authority. Whoever makes one up
gets another place in a listing that he may begin anyway, and what he may see is decided for each page anew.
So any process goes on with a listing that another one began.

Invariant: no text that :func:`read_page_token` is given makes it raise anything but InvalidInputError.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence

from lakehouse.errors import InvalidInputError

__all__ = ["malformed_token_error", "page_token", "read_page_token"]

_DIGEST_BYTES = 8
_CHARACTERS_MAX = 16_384


def page_token(scope: Sequence[str], after: str) -> str:
    """Returns the token of the page behind a name.

    Args:
        scope: what is listed: account, sort of listing, and name.
        after: last name that was given out.
    """
    body = after.encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(_digest(scope, body) + body).decode().rstrip("=")


def read_page_token(scope: Sequence[str], token: str) -> str:
    """Returns the name behind which a page begins.

    Raises:
        InvalidInputError: the token is malformed, or of another listing or account.
    """
    given: object = token
    if isinstance(given, str) and given.isascii() and len(given) <= _CHARACTERS_MAX:
        try:
            data = base64.b64decode(given + "=" * (-len(given) % 4), altchars=b"-_", validate=True)
            digest, body = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
            if digest == _digest(scope, body):
                return body.decode("utf-8", "surrogatepass")
        except (binascii.Error, ValueError):
            pass
    raise malformed_token_error()


def malformed_token_error() -> InvalidInputError:
    """Returns the error for a token that its listing did not give out."""
    return InvalidInputError(
        "this page token is not one that this listing gave out: pass the token of the page before, with "
        "the same arguments, or none to begin from the start",
        option="page_token",
    )


def _digest(scope: Sequence[str], body: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in (*(part.encode("utf-8", "surrogatepass") for part in scope), body):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()[:_DIGEST_BYTES]
