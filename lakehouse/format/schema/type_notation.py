"""Conversion of types: to and from SQL text, and from Arrow types.

Invariant: ``parse_type(type_text(kind))`` is ``kind``, ids and defaults aside; a type that
:func:`from_arrow` accepts holds every value of the Arrow type unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.format.schema.types import (
    DECIMAL_DIGITS_MAX,
    LENGTH_MAX,
    TYPE_DEPTH_MAX,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
)
from lakehouse.suggest import nearest, suggestion

__all__ = ["from_arrow", "parse_type", "type_text"]

_SQL_NAMES = {
    "boolean": ("boolean", "bool"),
    "int8": ("tinyint", "int8", "byte"),
    "int16": ("smallint", "int16", "short"),
    "int32": ("int", "int32", "integer"),
    "int64": ("bigint", "int64", "long"),
    "float": ("float", "float32", "real"),
    "double": ("double", "float64"),
    "date": ("date",),
    "time": ("time",),
    "timestamp": ("timestamp", "timestamptz", "timestamp_ltz"),
    "timestamp_ntz": ("timestamp_ntz",),
}
"""SQL names of each primitive; the first is the one that is written."""
_PLAIN: dict[str, DataType] = {
    **{word: Primitive(name) for name, words in _SQL_NAMES.items() for word in words},
    **dict.fromkeys(("string", "text", "varchar"), StringType()),
    **dict.fromkeys(("binary", "varbinary", "bytes"), BinaryType()),
    **dict.fromkeys(("decimal", "numeric"), DecimalType(10, 0)),
}
_SIZED: dict[str, type[StringType] | type[BinaryType]] = {
    "varchar": StringType,
    "char": StringType,
    "binary": BinaryType,
    "varbinary": BinaryType,
}
_DECIMALS = ("decimal", "numeric")
_NESTED = ("array", "map", "struct")
_WORDS = sorted({*_PLAIN, *_SIZED, *_NESTED})

_TOKEN = re.compile(
    r"""(?P<word>[^\W\d]\w*) | (?P<number>[0-9]+) | (?P<mark>[<>(),:])
      | `(?P<name>(?:[^`]|``)+)` | '(?P<text>(?:[^']|'')*)'""",
    re.VERBOSE,
)
_BARE_NAME = re.compile(r"[^\W\d]\w*")


def type_text(kind: DataType) -> str:
    """Returns the type in SQL, in the one spelling that this engine writes."""
    match kind:
        case Primitive(name):
            return _SQL_NAMES.get(name, (name,))[0]  # those of other formats are named and not parsed
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case StringType(length):
            return "string" if length is None else f"varchar({length})"
        case BinaryType(length):
            return "binary" if length is None else f"binary({length})"
        case ListType(element):
            return f"array<{_part_text(element)}>"
        case MapType(key, value):
            # A key is always required, so the text leaves that out.
            return f"map<{_part_text(replace(key, required=False))},{_part_text(value)}>"
        case StructType(fields):
            parts = (f"{_name_text(field.name)}: {_part_text(field)}" for field in fields)
            return f"struct<{', '.join(parts)}>"


def _part_text(field: Field) -> str:
    comment = "" if field.comment is None else " comment '" + field.comment.replace("'", "''") + "'"
    return type_text(field.type) + (" not null" if field.required else "") + comment


def _name_text(name: str) -> str:
    return name if _BARE_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def parse_type(text: str, next_id: Callable[[], int] | None = None) -> DataType:
    """Parses a type from SQL text: ``decimal(10,2)``, ``array<struct<a: int not null>>``.

    Case does not matter. Fields inside get ids from ``next_id``, depth first; without it they have
    id 0, and :func:`lakehouse.format.schema.types.with_ids` numbers them later.

    Raises:
        InvalidInputError: the text is no type; has the position (from 1) and, for an unknown type, the
            nearest one.
    """
    parser = _Parser(text, _tokens(text), next_id or _no_id)
    kind = parser.kind(0)
    parser.end()
    return kind


def _no_id() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class _Token:
    sort: str
    """Sort of the token: word, number, mark, name (quoted), text or end."""
    text: str
    position: int
    """Position of its first character in the text, from 1."""


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _type_error(text, at + 1, f"{text[at]!r} has no place in a type")
        sort = match.lastgroup
        quote = {"name": "`", "text": "'"}.get(sort, "")
        tokens.append(_Token(sort, match[sort].replace(quote * 2, quote) if quote else match[sort], at + 1))
        at = match.end()
    return [*tokens, _Token("end", "", len(text) + 1)]


def _type_error(text: str, position: int, what: str, **context: Any) -> InvalidInputError:
    return InvalidInputError(
        f"type {short(text)}, position {position}: {what}", type=short(text), position=position, **context
    )


class _Parser:
    """Reads one type, token by token."""

    def __init__(self, text: str, tokens: list[_Token], next_id: Callable[[], int]) -> None:
        self._text = text
        self._tokens = tokens
        self._next_id = next_id
        self._at = 0

    def kind(self, depth: int) -> DataType:
        token = self._next()
        word = token.text.lower()
        if depth > TYPE_DEPTH_MAX:
            raise self._type_error(token, f"types nest at most {TYPE_DEPTH_MAX} deep")
        if token.sort != "word":
            raise self._type_error(token, f"a type is missing; there is {', '.join(_WORDS)}")
        if word in _NESTED:
            return self._nested(word, depth + 1)
        if (word in _DECIMALS or word in _SIZED) and self._takes("("):
            return self._sized(word)
        if word in _PLAIN:
            return _PLAIN[word]
        if word in _SIZED:
            raise self._type_error(token, f"{word} needs a length, such as {word}(10)")
        says = suggestion(word, _WORDS)
        raise self._type_error(
            token, f"there is no type {short(word)}; {says}", nearest=nearest(word, _WORDS)
        )

    def end(self) -> None:
        token = self._next()
        if token.sort != "end":
            raise self._type_error(token, f"{short(token.text)} follows the end of the type")

    def _nested(self, word: str, depth: int) -> DataType:
        self._expect("<")
        if word == "array":
            element = self._part("element", depth)
            self._expect(">")
            return ListType(element)
        if word == "map":
            key = self._part("key", depth, required=True)
            self._expect(",")
            value = self._part("value", depth)
            self._expect(">")
            return MapType(key, value)
        fields = [self._struct_field(depth)]
        while self._takes(","):
            fields.append(self._struct_field(depth))
        self._expect(">")
        return StructType(tuple(fields))

    def _struct_field(self, depth: int) -> Field:
        token = self._next()
        if token.sort not in ("word", "name"):
            raise self._type_error(token, "a field's name is missing")
        self._takes(":")
        return self._part(token.text, depth)

    def _part(self, name: str, depth: int, *, required: bool = False) -> Field:
        number = self._next_id()
        kind = self.kind(depth)
        if self._takes("not"):
            self._expect("null")
            required = True
        comment = None
        if self._takes("comment"):
            token = self._next()
            if token.sort != "text":
                raise self._type_error(token, "a comment stands in single quotes")
            comment = token.text
        return Field(id=number, name=name, type=kind, required=required, comment=comment)

    def _sized(self, word: str) -> DataType:
        if word not in _DECIMALS:
            length = self._number("a length", 1, LENGTH_MAX)
            self._expect(")")
            return _SIZED[word](length)
        precision = self._number("a number of digits", 1, DECIMAL_DIGITS_MAX)
        scale = self._number("a number of digits behind the point", 0, precision) if self._takes(",") else 0
        self._expect(")")
        return DecimalType(precision, scale)

    def _number(self, what: str, low: int, high: int) -> int:
        token = self._next()
        # Python refuses to read numbers of thousands of digits.
        number = int(token.text[-20:]) if token.sort == "number" else -1
        if not low <= number <= high or len(token.text) > 20:
            got = f", not {token.text[:20]}" if token.text else ""
            raise self._type_error(token, f"here stands {what} from {low} to {high}{got}")
        return number

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _takes(self, text: str) -> bool:
        """Steps over the next token if it is this mark or word."""
        token = self._tokens[self._at]
        matches = token.sort in ("word", "mark") and token.text.lower() == text
        self._at += matches
        return matches

    def _expect(self, text: str) -> None:
        token = self._tokens[self._at]
        if not self._takes(text):
            raise self._type_error(
                token, f"{text!r} is missing" + (f" before {short(token.text)}" if token.text else "")
            )

    def _type_error(self, token: _Token, what: str, **context: Any) -> InvalidInputError:
        return _type_error(self._text, token.position, what, **context)


# An unsigned type becomes the next wider signed one, which holds all its values.
_FROM_ARROW: dict[pa.DataType, DataType] = {
    pa.bool_(): Primitive("boolean"),
    pa.int8(): Primitive("int8"),
    pa.int16(): Primitive("int16"),
    pa.uint8(): Primitive("int16"),
    pa.int32(): Primitive("int32"),
    pa.uint16(): Primitive("int32"),
    pa.int64(): Primitive("int64"),
    pa.uint32(): Primitive("int64"),
    pa.float16(): Primitive("float"),
    pa.float32(): Primitive("float"),
    pa.float64(): Primitive("double"),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.string_view(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
    pa.binary_view(): BinaryType(),
    pa.date32(): Primitive("date"),
    pa.date64(): Primitive("date"),
    pa.time32("s"): Primitive("time"),
    pa.time32("ms"): Primitive("time"),
    pa.time64("us"): Primitive("time"),
}
_ADVICE = {
    "null": "give it a type, such as pa.string()",
    "uint64": "cast it to pa.decimal128(20, 0), or to pa.int64() if the values fit",
    "timestamp": "cast it to pa.timestamp('us'), with its zone if it has one",
    "time64": "cast it to pa.time64('us')",
    "duration": "cast it to pa.int64()",
    "decimal": f"decimals have 1 to {DECIMAL_DIGITS_MAX} digits, 0 or more behind the point; cast it to one",
}


def from_arrow(kind: pa.DataType, next_id: Callable[[], int], depth: int = 0) -> DataType:
    """Returns the type that holds every value of an Arrow type.

    Encodings (dictionary, run-end, view, large) and extensions count as the type of their values. Fields
    inside get ids from ``next_id``, depth first.

    Raises:
        InvalidInputError: no type holds all its values; the message says what to cast it to.
    """
    is_ = pa.types
    if depth > TYPE_DEPTH_MAX:
        raise InvalidInputError(f"types nest at most {TYPE_DEPTH_MAX} deep")
    if isinstance(kind, pa.BaseExtensionType):
        return from_arrow(kind.storage_type, next_id, depth)
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return from_arrow(kind.value_type, next_id, depth)
    if kind in _FROM_ARROW:
        return _FROM_ARROW[kind]
    if is_.is_timestamp(kind) and kind.unit != "ns":  # microseconds do not hold nanoseconds
        return Primitive("timestamp_ntz" if kind.tz is None else "timestamp")
    if is_.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= DECIMAL_DIGITS_MAX:
        return DecimalType(kind.precision, kind.scale)
    if is_.is_fixed_size_binary(kind) and kind.byte_width:
        return BinaryType(kind.byte_width)
    if is_.is_map(kind):
        key = _field_from_arrow("key", kind.key_field, next_id, depth)
        return MapType(key, _field_from_arrow("value", kind.item_field, next_id, depth))
    if is_.is_struct(kind):
        return StructType(tuple(_field_from_arrow(part.name, part, next_id, depth) for part in kind))
    if hasattr(kind, "value_field"):  # a list of whatever layout
        return ListType(_field_from_arrow("element", kind.value_field, next_id, depth))
    sort = "decimal" if is_.is_decimal(kind) else str(kind).partition("[")[0]
    advice = _ADVICE.get(sort, "cast it to a type that tables have")
    raise InvalidInputError(f"no column type holds all values of Arrow's {kind}: {advice}", type=str(kind))


def _field_from_arrow(name: str, field: pa.Field, next_id: Callable[[], int], depth: int) -> Field:
    number = next_id()
    kind = from_arrow(field.type, next_id, depth + 1)
    return Field(id=number, name=name, type=kind, required=not field.nullable)
