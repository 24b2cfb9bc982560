"""Ids of what a catalog holds: stable over renames, different for another incarnation.

Ids of catalogs and namespaces are made of their names, since nothing else tells them apart. A table's comes
from the uuid that it was created with, so that a table that was dropped and made again has another id.
"""

from __future__ import annotations

import enum
import uuid
from typing import NamedTuple, Self
from uuid import UUID

from lakehouse.errors import InvalidInputError

__all__ = ["DEFAULT_ACCOUNT", "NodeKind", "ResourceId"]

DEFAULT_ACCOUNT = "default"
"""Account of a lake that was not asked for another."""
_SPACE = uuid.UUID("6f1c1ad0-7a0e-5f3c-9b1e-1a6ae0b7c0de")
_PARTS = 3


class NodeKind(enum.StrEnum):
    """Kind of a node."""

    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    SYSTEM_VIEW = "system_view"
    BUILTIN = "builtin"
    """Type, function, operator, cast, collation or aggregate of an engine."""


class ResourceId(NamedTuple):
    """Identity of a node, whatever its name and its version; ``str()`` and :meth:`parse` are its text."""

    account: str
    """Account that sees it."""
    kind: NodeKind
    uuid: uuid.UUID

    @classmethod
    def named(cls, account: str, kind: NodeKind, *names: str) -> Self:
        """Returns the id of something that its name alone identifies."""
        # The length of each part is in the text, so that no two lists of parts are one text.
        text = "".join(f"{len(name)}:{name}" for name in (kind.value, *names))
        return cls(account, kind, uuid.uuid5(_SPACE, text))

    @classmethod
    def of_relation(cls, account: str, kind: NodeKind, catalog: str, identity: UUID) -> Self:
        """Returns the id of an incarnation of a table or view.

        Two catalogs may know one table at different states of it, so those of attached catalogs have ids by
        catalog; our own have their uuid.
        """
        if not catalog:
            return cls(account, kind, identity)
        return cls(account, kind, uuid.uuid5(_SPACE, f"{len(catalog)}:{catalog}{identity.hex}"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the text of an id."""
        parts = str(text).rsplit(":", _PARTS - 1)
        try:
            account, kind, number = parts
            return cls(account, NodeKind(kind), uuid.UUID(number))
        except ValueError:
            raise InvalidInputError(
                f"a resource id is account:kind:uuid, such as {DEFAULT_ACCOUNT}:table:"
                f"0190…, with a kind out of {', '.join(NodeKind)}, not {text!r}"
            ) from None

    def __str__(self) -> str:
        return f"{self.account}:{self.kind.value}:{self.uuid}"
