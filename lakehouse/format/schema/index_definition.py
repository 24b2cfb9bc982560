"""Definitions of a table's indexes: their target, kind and options, and their number.

A definition names columns by field id, in expressions too, where column 3 is called ``#3``: so
renaming a column changes no definition. An index file records the numbers of the definitions that it
was built for. Numbers are never used again: a definition with other options is another definition.

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
    """Kind of an index; the words are stored in schemas, so they are never changed."""

    BLOOM = "bloom"
    """Equality: a bloom filter of the values of each segment."""
    INVERTED = "inverted"
    """Equality, ranges, prefixes, patterns: for each value the segments it is in."""
    FULLTEXT = "fulltext"
    """Words of a text."""


class Backend(StrEnum):
    """Structure that a fulltext index consists of; stored by value."""

    BLOOM = "bloom"
    TANTIVY = "tantivy"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """Definition of an index of a table."""

    id: int = 0
    """Number of the definition, from 1; never used again for another definition of the table."""
    kind: IndexKind
    target: IndexTarget
    """Target by field ids; columns of an expression are called ``#`` and their id."""
    granularity: int = GRANULARITY
    """Rows of a segment of bloom filters."""
    false_positive_rate: float = FALSE_POSITIVE_RATE
    """Probability that a bloom filter passes a value that is not there."""
    segment_row_count: int = SEGMENT_ROW_COUNT
    """Rows of a segment of inverted indexes; the same for all of a table."""
    analyzer: Analyzer = Analyzer.ENGLISH
    """Analyzer of fulltext indexes, which cuts text into words."""
    case_sensitive: bool = False
    """True if fulltext indexes tell words apart by the case of their letters."""
    backend: Backend = Backend.BLOOM
    """Structure of fulltext indexes."""
    compress: bool = True
    """True if files of a tantivy index are stored as zstd."""

    @property
    def words(self) -> FulltextConfig:
        """Configuration with which a fulltext index cuts text into words."""
        return FulltextConfig(analyzer=self.analyzer, case_sensitive=self.case_sensitive)

    @property
    def options(self) -> dict[str, Any]:
        """The options that its kind has, as plain values of JSON."""
        return {name: _plain(getattr(self, name)) for name in _options_of(self.kind, self.backend)}

    @property
    def field_ids(self) -> frozenset[int]:
        """Field ids of the columns it reads."""
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
    """Returns the name of a column in expressions of definitions."""
    return f"#{field_id}"


def _id_of(name: str) -> int:
    return int(name[1:])


def columns_of(table_fields: Sequence[Field]) -> dict[str, Field]:
    """Returns columns by the names that reach them: the table's own, and fields of structs as ``a.b``."""
    named = {field.name: field for field in table_fields}

    def within(prefix: str, field: Field) -> Iterator[tuple[str, Field]]:
        if isinstance(field.type, StructType):
            for child in field.type.fields:
                yield f"{prefix}.{child.name}", child
                yield from within(f"{prefix}.{child.name}", child)

    for field in table_fields:
        for name, child in within(field.name, field):
            named.setdefault(name, child)  # a column of that very name comes first
    return named


def by_id(table_fields: Sequence[Field]) -> dict[int, str]:
    """Returns the current names of the columns, by field id."""
    return {field.id: name for name, field in columns_of(table_fields).items()}


# --- what users write -------------------------------------------------------------


def parse_indexes(indexes: Mapping[Any, Any], table_fields: Sequence[Field]) -> tuple[IndexDefinition, ...]:
    """Parses the definitions that ``create_table(indexes=…)`` asks for; numbers them from 1.

    Args:
        indexes: for each target (see :func:`parse_target`) a kind, ``{kind: options}``, or a list of such.
        table_fields: the columns.

    Raises:
        InvalidInputError: the message names target and option.
    """
    if not isinstance(indexes, Mapping):
        raise InvalidInputError(f"indexes are given as {{target: kind}}, not as {indexes!r:.80}")
    definitions: list[IndexDefinition] = []
    for target, wish in indexes.items():
        for kind_or_mapping in wish if isinstance(wish, list | tuple) else (wish,):
            kind, options = _kind_and_options(target, kind_or_mapping)
            definition = parse_index(target, kind, options, table_fields, number=len(definitions) + 1)
            check_beside(definition, definitions, table_fields)
            definitions.append(definition)
    return tuple(definitions)


def _kind_and_options(target: object, wish: object) -> tuple[object, Mapping[str, Any]]:
    if isinstance(wish, Mapping):
        if len(wish) != 1:
            raise InvalidInputError(
                f"the index of {target!r} is given as {{kind: options}} with one kind; "
                f"for several kinds give a list of such, not {wish!r:.120}"
            )
        ((kind, options),) = wish.items()
        if not isinstance(options, Mapping):
            raise InvalidInputError(
                f"options of the index of {target!r} are given by name, not as {options!r:.80}"
            )
        return kind, options
    return wish, {}


def parse_index(
    target: object,
    kind: object,
    options: Mapping[str, Any],
    table_fields: Sequence[Field],
    *,
    number: int = 0,
) -> IndexDefinition:
    """Parses one definition and checks it against the columns that it names."""
    kinds = {known.value: known for known in IndexKind}
    if not isinstance(kind, str) or kind.lower() not in kinds:
        raise InvalidInputError(
            f"there is no index of kind {kind!r} (of {target!r}); {suggestion(str(kind), kinds)}", index=kind
        )
    index_kind = kinds[kind.lower()]
    parsed = parse_target(target, table_fields)
    values = _values(target, index_kind, options)
    definition = IndexDefinition(id=number, kind=index_kind, target=parsed, **values)
    check_fits(definition, table_fields)
    return definition


def _values(target: object, kind: IndexKind, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options by name, checked and in the types of the definition."""
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
            raise _option_error(target, name, "true or false", value)
        return value
    if name == "false_positive_rate":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise _option_error(target, name, "a number above 0 and below 1", value)
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _ROWS_MAX:
        raise _option_error(target, name, "a number of rows from 1", value)
    return value


def _word(target: object, name: str, value: object, words: type[Any]) -> Any:
    for word in words:
        if isinstance(value, str) and value.lower() == word.value.lower():
            return word
    raise _option_error(target, name, " or ".join(word.value for word in words), value)


def _option_error(target: object, name: str, wanted: str, value: object) -> InvalidInputError:
    return InvalidInputError(
        f"option {name!r} of the index of {target!r} must be {wanted}, not {value!r:.80}",
        option=name,
        value=value,
    )


def parse_target(target: object, table_fields: Sequence[Field]) -> IndexTarget:
    """Parses the target of an index.

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
    """The columns that can be named, looked up by names as people write them: with dots, in backticks."""

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
    """Replaces the names of columns by field ids (``#3``); unknown ones keep their names."""

    def renamed(node: Expr) -> Expr:
        if isinstance(node, Column) and node.name in ids:
            return col(column_name(ids[node.name]))
        return node

    return rewritten(expr, renamed)


def target_of(expr: Expr) -> IndexTarget:
    """Returns the target for an expression over columns ``#id``: the simplest that means the same."""
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
    """Returns a target as people write it, with the current names of columns."""
    match target:
        case ColumnTarget(column_id=id_):
            return names.get(id_, column_name(id_))
        case ColumnSetTarget(column_ids=ids):
            return ", ".join(names.get(id_, column_name(id_)) for id_ in ids)
        case JsonPathTarget(column_id=id_, pointer=pointer):
            return f"{names.get(id_, column_name(id_))}#{pointer}"

    def named(node: Expr) -> Expr:
        if isinstance(node, Column) and node.name.startswith("#"):
            return col(names.get(_id_of(node.name), node.name))
        return node

    return to_sql(rewritten(parse_where(target.expr or ""), named))


# --- what can be indexed ------------------------------------------------------------


def indexable(kind: pa.DataType) -> bool:
    """Returns whether values of a type can be looked up in an index."""
    return not pa.types.is_nested(kind) and not pa.types.is_null(kind)


def check_fits(definition: IndexDefinition, table_fields: Sequence[Field]) -> None:
    """Refuses an index that cannot be built on these columns."""
    fields_by_id = {field.id: field for field in columns_of(table_fields).values()}
    names = by_id(table_fields)
    missing = definition.field_ids - fields_by_id.keys()
    if missing:
        raise InvalidInputError(f"an index is on column {min(missing)}, which is not there")
    text = target_text(definition.target, names)
    for number in sorted(definition.field_ids):
        field = fields_by_id[number]
        if children(field.type):
            raise InvalidInputError(
                f"the index on {text!r} reads column {names[number]!r}, which is {type_text(field.type)}: "
                "values with parts inside cannot be indexed, fields of a struct can ('column.field')",
                column=names[number],
            )
        if isinstance(definition.target, JsonPathTarget) and not isinstance(field.type, StringType):
            raise InvalidInputError(
                f"the index on {text!r} reads JSON from column {names[number]!r}, which is "
                f"{type_text(field.type)} and no text",
                column=names[number],
            )
    kind = _type_of(definition.target, fields_by_id, text)
    if definition.kind is IndexKind.FULLTEXT and not (
        kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))
    ):
        raise InvalidInputError(
            f"a fulltext index on {text!r} has no text to work on: "
            + ("several columns have none together" if kind is None else f"it is {kind}")
        )
    if kind is not None and not indexable(kind):
        raise InvalidInputError(f"values of {text!r} are {kind} and cannot be indexed")


def _type_of(target: IndexTarget, by_number: Mapping[int, Field], text: str) -> pa.DataType | None:
    """Returns the type of a target's values; None for a set of columns, whose values have no Arrow type."""
    match target:
        case ColumnTarget(column_id=id_):
            return arrow_type(by_number[id_].type)
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
    definition: IndexDefinition, others: Sequence[IndexDefinition], table_fields: Sequence[Field]
) -> None:
    """Refuses a definition that contradicts or repeats one of the ``others`` of the table."""
    text = target_text(definition.target, by_id(table_fields))
    for other in others:
        if (other.kind, other.target.key) == (definition.kind, definition.target.key):
            raise InvalidInputError(
                f"{text!r} has two {definition.kind.value} indexes: one is enough; alter the one there is",
                index=text,
            )
        both = {definition.kind, other.kind} == {IndexKind.INVERTED}
        if both and definition.segment_row_count != other.segment_row_count:
            raise InvalidInputError(
                f"inverted indexes of a table share one segment_row_count, and {text!r} is to have "
                f"{definition.segment_row_count} beside {other.segment_row_count}",
                index=text,
            )
