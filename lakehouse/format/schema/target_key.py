"""Target keys: the target of an index as a short text that is safe in names and URLs.

==================  ==========================================  ==================================
target              key                                         example
==================  ==========================================  ==================================
column              its id                                      ``7``
set of columns      ids ascending, joined by commas             ``1,7,12``
JSON path           column id, ``#``, escaped JSON Pointer      ``7#%2Fa%2Fb~1c``
expression          ``expr:`` and xxh3_64 of its text, 16 hex   ``expr:0123456789abcdef``
==================  ==========================================  ==================================

Keys have at most 256 bytes, all of them from ``0-9 A-Z a-z - . _ ~ % , # :``.

Invariant: ``decode_target_key(encode_target_key(target)) == target``, and a target has one key:
decoding refuses other spellings, but for the two that exist elsewhere: GreptimeDB accepts column
ids with leading zeros, and a set may be the ids joined by ``+`` in URL-safe base64. Callers that need
the original text keep it beside the target.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import xxhash

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError

__all__ = [
    "COLUMN_ID_MAX",
    "KEY_BYTES_MAX",
    "TARGET_EXPR",
    "ColumnSetTarget",
    "ColumnTarget",
    "ExpressionTarget",
    "IndexTarget",
    "JsonPathTarget",
    "decode_column_target",
    "decode_target_key",
    "encode_target_key",
    "expression_text",
    "target_properties",
]

KEY_BYTES_MAX = 256
"""Maximum bytes of a key."""
COLUMN_ID_MAX = (1 << 32) - 1
"""Greatest column id."""
TARGET_EXPR = "target_expr"
"""Blob property that holds the text of an indexed expression."""
_EXPR = "expr:"
_FOREIGN = re.compile(r"[^0-9A-Za-z\-._~%,#:]")
_EXPR_KEY = re.compile(r"expr:([0-9a-f]{16})")
_BASE64 = re.compile(r"[0-9A-Za-z_-]+={0,2}")
_POINTER = re.compile(r"(/([^~/]|~[01])*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTarget:
    """Target: one column."""

    column_id: int

    @property
    def key(self) -> str:
        """The target key."""
        return _column(self.column_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSetTarget:
    """Target: several columns together; their order and repetitions mean nothing."""

    column_ids: tuple[int, ...]
    """Ids of at least two columns, ascending, each once; :meth:`of` takes them in any form."""

    @classmethod
    def of(cls, *column_ids: int) -> ColumnTarget | Self:
        """Returns the target of these columns; for one column a :class:`ColumnTarget`."""
        distinct = tuple(sorted(set(column_ids)))
        if not distinct:
            raise InvalidInputError("a target needs at least one column")
        return ColumnTarget(column_id=distinct[0]) if len(distinct) == 1 else cls(column_ids=distinct)

    @property
    def key(self) -> str:
        """The target key."""
        target = self.of(*self.column_ids)
        if isinstance(target, ColumnTarget):
            return target.key
        return ",".join(_column(column_id) for column_id in target.column_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPathTarget:
    """Target: a place in the JSON values of a column."""

    column_id: int
    pointer: str
    """JSON Pointer (RFC 6901): empty for the whole value, else one or more steps of ``/`` and a name."""

    @property
    def key(self) -> str:
        """The target key."""
        _check_pointer(self.pointer)
        try:
            return f"{_column(self.column_id)}#{quote(self.pointer, safe='')}"
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"JSON pointer {self.pointer!r} is no Unicode text: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionTarget:
    """Target: the value of an expression over columns."""

    expr_hash: int
    """xxh3_64 of the normalised text."""
    expr: str | None = None
    """The normalised text; None where only the key is known."""

    @classmethod
    def of(cls, expr: str) -> Self:
        """Returns the target of an expression, given by its normalised text."""
        try:
            return cls(expr_hash=xxhash.xxh3_64_intdigest(expr.encode()), expr=expr)
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"expression {expr!r} is no Unicode text: {error}") from error

    @property
    def key(self) -> str:
        """The target key."""
        if not 0 <= self.expr_hash < 1 << 64:
            raise InvalidInputError(f"an expression's hash has 64 bits, not {self.expr_hash:#x}")
        if self.expr is not None and self.of(self.expr).expr_hash != self.expr_hash:
            raise InvalidInputError(
                f"hash {self.expr_hash:016x} is not that of expression {self.expr!r}: make targets of "
                "expressions with ExpressionTarget.of",
                expr=self.expr,
            )
        return f"{_EXPR}{self.expr_hash:016x}"


IndexTarget: TypeAlias = ColumnTarget | ColumnSetTarget | JsonPathTarget | ExpressionTarget
"""Target of an index: the values that it indexes."""


def encode_target_key(target: IndexTarget) -> str:
    """Returns the key of a target; InvalidInputError when the target is invalid or its key too long."""
    key = target.key
    if len(key) > KEY_BYTES_MAX:
        raise InvalidInputError(
            f"target key {key[:40]}... has {len(key)} bytes, more than {KEY_BYTES_MAX}: take fewer columns "
            "or a shorter path",
            target_key=key,
        )
    return key


def decode_target_key(key: str, properties: Mapping[str, str] | None = None) -> IndexTarget:
    """Returns the target of a key.

    Args:
        key: the text behind the blob type's prefix, or the name of an inverted index.
        properties: properties of the blob, which have the text of an expression (:func:`expression_text`).

    Raises FormatError when the key is invalid, and CorruptionError when ``target_expr`` is the text
    of another expression.
    """
    _check_text(key)
    if key.startswith(_EXPR):
        return _decode_expression(key, expression_text(key, properties or {}))
    if key.isdigit():
        return ColumnTarget(column_id=_decode_id(key, key.lstrip("0") or "0"))
    if "#" in key:
        return _decode_json_path(key)
    if "," in key:
        return _decode_set(key, key.split(","))
    if _BASE64.fullmatch(key):
        return _decode_base64(key)
    raise _key_error(key, "is no column id, set, JSON path or expression")


def expression_text(key: str, properties: Mapping[str, str]) -> str | None:
    """Returns the text of an expression from a blob's properties; None where they lack it.

    The blob of all inverted indexes has one set of properties: there the property's name includes the key.
    """
    return properties.get(TARGET_EXPR, properties.get(f"{TARGET_EXPR}.{key}"))


def decode_column_target(key: str) -> ColumnTarget:
    """Decodes the column of a key as GreptimeDB does, with its errors word for word."""
    if not key:
        raise FormatError("target key cannot be empty", target_key=key)
    if not (key.isascii() and key.isdigit()):
        raise FormatError(f"target key must contain digits only: {key}", target_key=key)
    digits = key.lstrip("0") or "0"
    if len(digits) > len(str(COLUMN_ID_MAX)) or int(digits) > COLUMN_ID_MAX:
        raise FormatError(f"failed to parse column id from '{key}'", target_key=key)
    return ColumnTarget(column_id=int(digits))


def target_properties(target: IndexTarget) -> dict[str, str]:
    """Returns the blob properties that belong to the key: the text of an expression."""
    if isinstance(target, ExpressionTarget) and target.expr is not None:
        return {TARGET_EXPR: target.expr}
    return {}


def _column(column_id: int) -> str:
    if not 0 <= column_id <= COLUMN_ID_MAX:
        raise InvalidInputError(f"a column id is in 0..{COLUMN_ID_MAX}, not {column_id}", column_id=column_id)
    return str(column_id)


def _check_pointer(pointer: str) -> None:
    if not _POINTER.fullmatch(pointer):
        raise InvalidInputError(
            f"{pointer!r:.80} is no JSON pointer: it is empty or begins with '/', 0 or 1 follows each '~'",
            pointer=pointer,
        )


def _check_text(key: str) -> None:
    if not key:
        raise _key_error(key, "is empty")
    if len(key) > KEY_BYTES_MAX:
        raise _key_error(key, f"has {len(key)} bytes, more than {KEY_BYTES_MAX}")
    foreign = _FOREIGN.search(key.rstrip("="))  # padding of base64 may end a key
    if foreign:
        raise _key_error(key, f"has the character {foreign[0]!r}, which no key has")


def _decode_id(key: str, text: str) -> int:
    if not text.isdigit() or (text[0] == "0" and text != "0") or int(text) > COLUMN_ID_MAX:
        raise _key_error(key, f"has {text!r} where a column id in 0..{COLUMN_ID_MAX} belongs")
    return int(text)


def _decode_set(key: str, texts: list[str]) -> ColumnSetTarget:
    ids = tuple(_decode_id(key, text) for text in texts)
    if any(first >= second for first, second in itertools.pairwise(ids)):
        raise _key_error(key, "has columns that are not in ascending order, each once")
    return ColumnSetTarget(column_ids=ids)


def _decode_base64(key: str) -> ColumnSetTarget:
    plain = key.rstrip("=")
    try:
        texts = base64.urlsafe_b64decode(plain + "=" * (-len(plain) % 4)).decode("ascii").split("+")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _key_error(
            key, f"is no column id, set, JSON path or expression, nor base64 of a set ({error})"
        ) from error
    if len(texts) < 2:
        raise _key_error(key, "is base64, but not of two columns or more joined by '+'")
    return _decode_set(key, texts)


def _decode_json_path(key: str) -> JsonPathTarget:
    column, _, escaped = key.partition("#")
    try:
        pointer = unquote_to_bytes(escaped).decode()
        _check_pointer(pointer)
    except (UnicodeDecodeError, InvalidInputError) as error:
        raise _key_error(key, f"has no JSON pointer behind its '#': {error}") from error
    target = JsonPathTarget(column_id=_decode_id(key, column), pointer=pointer)
    if target.key != key:
        raise _key_error(key, f"is another spelling of {target.key}")
    return target


def _decode_expression(key: str, expr: str | None) -> ExpressionTarget:
    match = _EXPR_KEY.fullmatch(key)
    if not match:
        raise _key_error(key, "has something else than 16 lower-case hex digits behind 'expr:'")
    expr_hash = int(match[1], 16)
    if expr is None:
        return ExpressionTarget(expr_hash=expr_hash)
    target = ExpressionTarget.of(expr)
    if target.expr_hash != expr_hash:
        raise CorruptionError(
            f"target key {key!r} does not belong to property {TARGET_EXPR} {expr!r:.80}",
            target_key=key,
            expected=target.key,
            got=key,
        )
    return target


def _key_error(key: str, why: str) -> FormatError:
    return FormatError(f"target key {key!r:.80} {why}", target_key=key)
