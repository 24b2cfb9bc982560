"""Possession tokens: by which a planner shows that it holds what a relation looks like.

A token covers the definition, the schema that is read, the planner and what decorates relations for it; rows
that come and go leave it as it is.

Invariant: equal tokens mean equal answers, but for pins and sizes, which every answer has.
"""

from __future__ import annotations

import hashlib
import json

from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.nodes import RelationNode, SystemViewNode, TableNode, ViewNode

__all__ = ["possession_token"]

_BYTES = 16


def possession_token(node: RelationNode, schema_json: str, engine: EngineKey, epoch: str = "") -> str:
    """Returns the token of a relation in a schema, for a planner.

    Args:
        node: the relation.
        schema_json: the schema that is read; empty of views.
        engine: planner that asks.
        epoch: version of what decorates relations for it.
    """
    said = [str(node.id), node.display, *_definition(node), schema_json, engine.kind, engine.version, epoch]
    text = json.dumps(said, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=_BYTES).hexdigest()


def _definition(node: RelationNode) -> list[object]:
    """Returns what the definition says, whatever rows there are."""
    if isinstance(node, TableNode):
        return [node.format, node.location, node.primary_key, node.not_null, node.partition_keys]
    if isinstance(node, ViewNode):
        texts = sorted(node.texts.items())
        return [
            node.sql,
            node.dialect,
            texts,
            node.columns,
            node.base_relations,
            node.search_path,
            node.owner,
        ]
    if isinstance(node, SystemViewNode):
        return [node.columns]
    return [node.version]
