"""Accounts: whoever uses a lake, each with catalogs, pointers and rights of its own.

Words: an *account* sees the databases that its *authority* shows, and the catalogs attached for it. It is
*active* while it is used; one that *rests* has given back what the process kept for it, until it is used
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.accounts.accounts import ActiveAccounts, KeptAccount
    from lakehouse.catalog.accounts.authority import AuthorityStore

__all__ = ["ActiveAccounts", "AuthorityStore", "KeptAccount"]

__getattr__, __dir__ = door(
    __name__, {"accounts": "ActiveAccounts KeptAccount", "authority": "AuthorityStore"}
)
