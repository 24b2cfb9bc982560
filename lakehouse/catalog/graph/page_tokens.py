"""Page tokens: where a listing goes on, sealed so that nobody makes one up or uses one for another listing.

A token names the last name that was given out, not a count: what is inserted, dropped or renamed meanwhile
moves no page. Its seal covers what is listed and by whom. All processes have one key, so that
any of them goes on with a listing that another began; whoever makes a token up gains nothing but another
place in a listing that is open to him anyway.

Invariant: a token that :meth:`PageTokens.read` accepts was made by :meth:`PageTokens.make` for the same
scope.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence

from lakehouse.errors import InvalidInputError

__all__ = ["PageTokens"]

_SEAL_BYTES = 16
_TOKEN_CHARACTERS_MAX = 16_384


class PageTokens:
    """Makes and reads the tokens of one lake.

    Args:
        key: key of the seal.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(self, scope: Sequence[str], after: str) -> str:
        """Returns the token of the page behind a name.

        Args:
            scope: what is listed: account, sort of listing, and name.
            after: last name that was given out.
        """
        body = json.dumps(after, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return base64.urlsafe_b64encode(self._seal(scope, body) + body).decode().rstrip("=")

    def read(self, scope: Sequence[str], token: str) -> str:
        """Returns the name behind which a page begins.

        Raises:
            InvalidInputError: the token is malformed, or of another listing, account or lake.
        """
        given: object = token
        if isinstance(given, str) and given.isascii() and len(given) <= _TOKEN_CHARACTERS_MAX:
            try:
                data = base64.b64decode(given + "=" * (-len(given) % 4), altchars=b"-_", validate=True)
            except (binascii.Error, ValueError):
                data = b""
            seal, body = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
            if body and hmac.compare_digest(seal, self._seal(scope, body)):
                return str(json.loads(body.decode("utf-8", "surrogatepass")))
        raise InvalidInputError(
            "this page token is not one that this listing gave out: pass the token of the page before, with "
            "the same arguments, or none to begin from the start",
            option="page_token",
        )

    def _seal(self, scope: Sequence[str], body: bytes) -> bytes:
        seal = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in scope:
            data = part.encode("utf-8", "surrogatepass")
            seal.update(b"%d:" % len(data))
            seal.update(data)
        seal.update(body)
        return seal.digest()[:_SEAL_BYTES]
