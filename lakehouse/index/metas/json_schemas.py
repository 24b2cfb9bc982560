"""JSON Schemas (draft 2020-12) of the JSON columns in rows of index metadata.

===================  =====================================================
name                 column
===================  =====================================================
``target``           ``target_json`` of a compact row
``meta``             ``meta_json`` of a compact row
``greptime_target``  ``target_json`` of a GreptimeDB row
``greptime_meta``    ``meta_json`` of a GreptimeDB row
===================  =====================================================

Schemas of compact rows allow unknown keys, because later releases may add some; GreptimeDB's rows
have exactly the keys of the schema.

Invariant: every row that :mod:`lakehouse.index.metas.rows` makes of an entry validates.
"""

from __future__ import annotations

import json
import pkgutil
from typing import Any

from lakehouse.errors import InvalidInputError

__all__ = ["SCHEMA_NAMES", "json_schema"]

SCHEMA_NAMES = ("target", "meta", "greptime_target", "greptime_meta")
"""Names of all schemas."""


def json_schema(name: str) -> dict[str, Any]:
    """Returns a fresh copy of the schema of that name."""
    if name not in SCHEMA_NAMES:
        raise InvalidInputError(f"there is no JSON schema {name!r}: take one of {', '.join(SCHEMA_NAMES)}")
    data = pkgutil.get_data("lakehouse.index", f"schemas/{name}.json")
    assert data is not None, "the installation has no package data"
    schema: dict[str, Any] = json.loads(data)
    return schema
