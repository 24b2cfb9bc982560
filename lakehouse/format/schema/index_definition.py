"""Definitions of a table's indexes: what is indexed, how, and under which number.

A definition speaks of columns by field id, in expressions too, where column 3 is called ``#3``: so
renaming a column changes no definition. What an index file was built with are numbers of
definitions, which are never used again: a definition with other options is another definition.

Invariant: a definition that :func:`parse_index` returns can be built for every file of the table, and
a query finds in it what it would find by evaluating the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, col, evaluate, parse_where, to_sql
from lakehouse.expr.nodes import Column, Constant, FunctionCall
from lakehouse.expr.rewrite import rewritten
from lakehouse.format.schema.column_path import column_steps
from lakehouse.format.schema.index_defaults import FALSE_POSITIVE_RATE, SEGMENT_ROW_COUNT
from lakehouse.format.schema.target_key import (
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
    encode_target_key,
)
from lakehouse.format.schema.type_notation import type_text
from lakehouse.format.schema.types import Field, StringType, StructType, arrow_type, children
from lakehouse.format.text.config import GRANULARITY, Analyzer, FulltextConfig
from lakehouse.suggest import suggestion

__all__ = [
    "Backend",
    "IndexDefinition",
    "IndexKind",
    "NamedColumns",
    "by_id",
    "by_ids",
    "check_beside",
    "check_fits",
    "column_name",
    "columns_of",
    "indexable",
    "parse_index",
    "parse_indexes",
    "parse_target",
    "target_of",
    "target_text",
]

_ROWS_MAX = 1 << 31
_JSON = "json_extract_string"


class IndexKind(StrEnum):
    """What an index answers; the words stand in schemas, so they are never changed."""

    BLOOM = "bloom"
    """Equality: a bloom filter of the values of each segment."""
    INVERTED = "inverted"
    """Equality, ranges, prefixes, patterns: for each value the segments it is in."""
    FULLTEXT = "fulltext"
    """Words of a text."""


class Backend(StrEnum):
    """What a fulltext index is made of."""

    BLOOM = "bloom"
    TANTIVY = "tantivy"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """One index of a table."""

    id: int = 0
    """From 1, never used again for another definition of the table."""
    kind: IndexKind
    target: IndexTarget
    """By field ids; columns of an expression are called ``#`` and their id."""
    granularity: int = GRANULARITY
    """Rows of a segment, of bloom filters."""
    false_positive_rate: float = FALSE_POSITIVE_RATE
    """Of a bloom filter, for a value that is not there."""
    segment_row_count: int = SEGMENT_ROW_COUNT
    """Rows of a segment, of inverted indexes; the same for all of a table."""
    analyzer: Analyzer = Analyzer.ENGLISH
    """How text becomes words, of fulltext indexes."""
    case_sensitive: bool = False
    """Whether letters of another case make another word, of fulltext indexes."""
    backend: Backend = Backend.BLOOM
    """Of fulltext indexes."""
    compress: bool = True
    """Whether files of a tantivy index are stored as zstd."""

    @property
    def words(self) -> FulltextConfig:
        """How a fulltext index cuts text into words."""
        return FulltextConfig(analyzer=self.analyzer, case_sensitive=self.case_sensitive)

    @property
    def options(self) -> dict[str, Any]:
        """The options that its kind has, as JSON has them."""
        return {name: _plain(getattr(self, name)) for name in _options_of(self.kind, self.backend)}

    @property
    def field_ids(self) -> frozenset[int]:
        """The columns it reads."""
        match self.target:
            case ColumnTarget() | JsonPathTarget():
                return frozenset((self.target.column_id,))
            case ColumnSetTarget():
                return frozenset(self.target.column_ids)
        return frozenset(_id_of(name) for name in parse_where(self.target.expr or "").columns())


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value


_OF_FILTERS = ("granularity", "false_positive_rate")


def _options_of(kind: IndexKind, backend: Backend) -> tuple[str, ...]:
    if kind is IndexKind.BLOOM:
        return _OF_FILTERS
    if kind is IndexKind.INVERTED:
        return ("segment_row_count",)
    of_backend = _OF_FILTERS if backend is Backend.BLOOM else ("compress",)
    return ("analyzer", "case_sensitive", "backend", *of_backend)


def column_name(field_id: int) -> str:
    """What a column is called in expressions of definitions."""
    return f"#{field_id}"


def _id_of(name: str) -> int:
    return int(name[1:])


def columns_of(table_fields: Sequence[Field]) -> dict[str, Field]:
    """The columns that can be named: those of the table, and fields of structs as ``a.b``."""
    found = {field.name: field for field in table_fields}

    def within(prefix: str, field: Field) -> Iterator[tuple[str, Field]]:
        if isinstance(field.type, StructType):
            for child in field.type.fields:
                yield f"{prefix}.{child.name}", child
                yield from within(f"{prefix}.{child.name}", child)

    for field in table_fields:
        for name, child in within(field.name, field):
            found.setdefault(name, child)
    return found


def by_id(table_fields: Sequence[Field]) -> dict[int, str]:
    """What the columns are called today, by field id."""
    return {field.id: name for name, field in columns_of(table_fields).items()}


# --- what users say ---------------------------------------------------------------


def parse_indexes(indexes: Mapping[Any, Any], table_fields: Sequence[Field]) -> tuple[IndexDefinition, ...]:
    """The definitions that ``create_table(indexes=…)`` asks for; numbers from 1.

    Args:
        indexes: by target (see :func:`parse_target`) a kind, ``{kind: options}``, or a list of such.
        table_fields: the columns.

    Raises:
        InvalidInputError: the message names target and option.
    """
    if not isinstance(indexes, Mapping):
        raise InvalidInputError(f"indexes are given as {{target: kind}}, not as {indexes!r:.80}")
    found: list[IndexDefinition] = []
    for target, said in indexes.items():
        for one in said if isinstance(said, list | tuple) else (said,):
            kind, options = _kind_and_options(target, one)
            made = parse_index(target, kind, options, table_fields, number=len(found) + 1)
            check_beside(made, found, table_fields)
            found.append(made)
    return tuple(found)


def _kind_and_options(target: object, said: object) -> tuple[object, Mapping[str, Any]]:
    if isinstance(said, Mapping):
        if len(said) != 1:
            raise InvalidInputError(
                f"the index of {target!r} is given as {{kind: options}} with one kind; "
                f"for several kinds give a list of such, not {said!r:.120}"
            )
        ((kind, options),) = said.items()
        if not isinstance(options, Mapping):
            raise InvalidInputError(
                f"options of the index of {target!r} are given by name, not as {options!r:.80}"
            )
        return kind, options
    return said, {}


def parse_index(
    target: object,
    kind: object,
    options: Mapping[str, Any],
    table_fields: Sequence[Field],
    *,
    number: int = 0,
) -> IndexDefinition:
    """One definition, checked against the columns it speaks of."""
    named = {one.value: one for one in IndexKind}
    if not isinstance(kind, str) or kind.lower() not in named:
        raise InvalidInputError(
            f"there is no index of kind {kind!r} (of {target!r}); {suggestion(str(kind), named)}", index=kind
        )
    found = named[kind.lower()]
    parsed = parse_target(target, table_fields)
    made = IndexDefinition(id=number, kind=found, target=parsed, **_values(target, found, options))
    check_fits(made, table_fields)
    return made


def _values(target: object, kind: IndexKind, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, checked."""
    backend = Backend.BLOOM
    if "backend" in options and kind is IndexKind.FULLTEXT:
        backend = _word(target, "backend", options["backend"], Backend)
    known = _options_of(kind, backend)
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            what = f"a {kind.value} index" + (f" of {backend.value}" if kind is IndexKind.FULLTEXT else "")
            raise InvalidInputError(
                f"{what} (of {target!r}) has no option {name!r}; {suggestion(str(name), known)}",
                option=name,
            )
        values[name] = _value(target, name, value)
    return values


def _value(target: object, name: str, value: Any) -> Any:
    if name == "analyzer":
        return _word(target, name, value, Analyzer)
    if name == "backend":
        return _word(target, name, value, Backend)
    if name in ("case_sensitive", "compress"):
        if not isinstance(value, bool):
            raise _refused(target, name, "true or false", value)
        return value
    if name == "false_positive_rate":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise _refused(target, name, "a number above 0 and below 1", value)
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _ROWS_MAX:
        raise _refused(target, name, "a number of rows from 1", value)
    return value


def _word(target: object, name: str, value: object, words: type[Any]) -> Any:
    for one in words:
        if isinstance(value, str) and value.lower() == one.value.lower():
            return one
    raise _refused(target, name, " or ".join(one.value for one in words), value)


def _refused(target: object, name: str, wanted: str, value: object) -> InvalidInputError:
    return InvalidInputError(
        f"option {name!r} of the index of {target!r} must be {wanted}, not {value!r:.80}",
        option=name,
        value=value,
    )


def parse_target(target: object, table_fields: Sequence[Field]) -> IndexTarget:
    """What a target's text means.

    ``"host"`` or ``"address.city"`` is a column, ``"host, path"`` or ``("host", "path")`` several
    together, ``"payload#/user/id"`` a place in JSON text, and everything else an expression:
    ``"lower(host)"``.
    """
    columns = NamedColumns(table_fields)
    if isinstance(target, tuple | list):
        return _column_set(target, columns)
    if not isinstance(target, str) or not target.strip():
        raise InvalidInputError(f"the target of an index is text such as 'host', not {target!r:.80}")
    if target in columns:
        return ColumnTarget(column_id=columns[target].id)
    head, hash_sign, pointer = target.partition("#")
    if hash_sign and head in columns:
        return _checked_key(JsonPathTarget(column_id=columns[head].id, pointer=pointer))
    parts = [part.strip() for part in target.split(",")]
    if len(parts) > 1 and all(part in columns for part in parts):
        return _column_set(parts, columns)
    return _expression(target, columns)


class NamedColumns(Mapping[str, Field]):
    """The columns that can be named, found as people write them: with dots, and in backticks."""

    def __init__(self, table_fields: Sequence[Field]) -> None:
        self._fields, self._named = table_fields, columns_of(table_fields)

    def __getitem__(self, text: str) -> Field:
        return self._named[".".join(column_steps(self._fields, text))]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)


def _column_set(names: Sequence[object], columns: Mapping[str, Field]) -> IndexTarget:
    for name in names:
        if not isinstance(name, str) or name not in columns:
            raise InvalidInputError(
                f"an index is to be on {name!r}, which is no column; {suggestion(str(name), columns)}",
                column=name,
            )
    if len(set(names)) != len(names):
        raise InvalidInputError(f"an index names a column twice: {', '.join(map(str, names))}")
    return _checked_key(ColumnSetTarget.of(*(columns[str(name)].id for name in names)))


def _expression(text: str, columns: Mapping[str, Field]) -> IndexTarget:
    try:
        parsed = parse_where(text)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"an index is to be on {text!r}, which is no column, no columns joined by commas, no "
            f"'column#/json/pointer' and no expression; {suggestion(text, columns)}",
            column=text,
        ) from error
    for name in sorted(parsed.columns()):
        if name not in columns:
            raise InvalidInputError(
                f"the index on {text!r} names {name!r}, which is no column; {suggestion(name, columns)}",
                column=name,
            )
    if not parsed.columns():
        raise InvalidInputError(f"the index on {text!r} names no column: it would say nothing of rows")
    if not isinstance(parsed, FunctionCall) or any(
        isinstance(node, FunctionCall) and node.name == "matches" for node in parsed.walk()
    ):
        raise InvalidInputError(
            f"the index on {text!r} is on a condition: index the values that it compares, text to be "
            "searched as fulltext"
        )
    return target_of(by_ids(parsed, {name: columns[name].id for name in parsed.columns()}))


def by_ids(expr: Expr, ids: Mapping[str, int]) -> Expr:
    """The expression with columns called by their field ids; those that are not known keep their names."""

    def renamed(node: Expr) -> Expr:
        if isinstance(node, Column) and node.name in ids:
            return col(column_name(ids[node.name]))
        return node

    return rewritten(expr, renamed)


def target_of(expr: Expr) -> IndexTarget:
    """The target that an expression over columns ``#id`` is."""
    match expr:
        case Column(name):
            return ColumnTarget(column_id=_id_of(name))
        case FunctionCall(function, (Column(name), Constant(str() as pointer))) if function == _JSON:
            return _checked_key(JsonPathTarget(column_id=_id_of(name), pointer=pointer))
    return ExpressionTarget.of(to_sql(expr))


def _checked_key(target: IndexTarget) -> IndexTarget:
    encode_target_key(target)
    return target


def target_text(target: IndexTarget, names: Mapping[int, str]) -> str:
    """A target as people write it, with today's names of columns."""
    match target:
        case ColumnTarget(column_id=one):
            return names.get(one, column_name(one))
        case ColumnSetTarget(column_ids=ids):
            return ", ".join(names.get(one, column_name(one)) for one in ids)
        case JsonPathTarget(column_id=one, pointer=pointer):
            return f"{names.get(one, column_name(one))}#{pointer}"

    def named(node: Expr) -> Expr:
        if isinstance(node, Column) and node.name.startswith("#"):
            return col(names.get(_id_of(node.name), node.name))
        return node

    return to_sql(rewritten(parse_where(target.expr or ""), named))


# --- what can be indexed ------------------------------------------------------------


def indexable(kind: pa.DataType) -> bool:
    """Whether values of a type can be looked up in an index."""
    return not pa.types.is_nested(kind) and not pa.types.is_null(kind)


def check_fits(one: IndexDefinition, table_fields: Sequence[Field]) -> None:
    """Nothing when the index can be built on these columns; else an InvalidInputError."""
    fields_by_id = {field.id: field for field in columns_of(table_fields).values()}
    names = by_id(table_fields)
    missing = one.field_ids - fields_by_id.keys()
    if missing:
        raise InvalidInputError(f"an index is on column {min(missing)}, which is not there")
    text = target_text(one.target, names)
    for number in sorted(one.field_ids):
        field = fields_by_id[number]
        if children(field.type):
            raise InvalidInputError(
                f"the index on {text!r} reads column {names[number]!r}, which is {type_text(field.type)}: "
                "values with parts inside cannot be indexed, fields of a struct can ('column.field')",
                column=names[number],
            )
        if isinstance(one.target, JsonPathTarget) and not isinstance(field.type, StringType):
            raise InvalidInputError(
                f"the index on {text!r} reads JSON from column {names[number]!r}, which is "
                f"{type_text(field.type)} and no text",
                column=names[number],
            )
    found = _type_of(one.target, fields_by_id, text)
    if one.kind is IndexKind.FULLTEXT and not (
        found is not None and (pa.types.is_string(found) or pa.types.is_large_string(found))
    ):
        raise InvalidInputError(
            f"a fulltext index on {text!r} has no text to work on: "
            + ("several columns have none together" if found is None else f"it is {found}")
        )
    if found is not None and not indexable(found):
        raise InvalidInputError(f"values of {text!r} are {found} and cannot be indexed")


def _type_of(target: IndexTarget, by_number: Mapping[int, Field], text: str) -> pa.DataType | None:
    """The type of a target's values; None of a set, which has values of its own."""
    match target:
        case ColumnTarget(column_id=one):
            return arrow_type(by_number[one].type)
        case JsonPathTarget():
            return pa.large_string()
        case ColumnSetTarget():
            return None
    schema = pa.schema([(column_name(number), arrow_type(field.type)) for number, field in by_number.items()])
    parsed = parse_where(target.expr or "")
    try:
        return evaluate(parsed, schema.empty_table()).type
    except (InvalidInputError, pa.ArrowException) as error:
        raise InvalidInputError(f"the expression {text!r} cannot be indexed: {error}") from error


def check_beside(
    one: IndexDefinition, others: Sequence[IndexDefinition], table_fields: Sequence[Field]
) -> None:
    """Refuses a definition that does not go with those there are."""
    text = target_text(one.target, by_id(table_fields))
    for other in others:
        if (other.kind, other.target.key) == (one.kind, one.target.key):
            raise InvalidInputError(
                f"{text!r} has two {one.kind.value} indexes: one is enough; alter the one there is",
                index=text,
            )
        both = {one.kind, other.kind} == {IndexKind.INVERTED}
        if both and one.segment_row_count != other.segment_row_count:
            raise InvalidInputError(
                f"inverted indexes of a table share one segment_row_count, and {text!r} is to have "
                f"{one.segment_row_count} beside {other.segment_row_count}",
                index=text,
            )
