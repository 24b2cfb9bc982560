"""Specification of merging: the rule for each column by which rows of one key become one row.

Every engine but plain deduplicate is defined by rules made from the table's options, one per column: the
column's value is that of one of a key's rows, or is computed from all of them.

Invariant: a :class:`MergeSpec` fits the columns it was made for, and merging by it is associative:
whichever neighbours are merged first, the row that is left is the same (sums and products of
floating-point numbers to within rounding). Options that would break this are refused with the names of
column and option.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata.file_entry import KIND_COLUMN, SEQUENCE_COLUMN
from lakehouse.format.schema.table_options import ColumnOptions, TableOptions
from lakehouse.format.schema.type_notation import type_text
from lakehouse.format.schema.types import (
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    children,
)
from lakehouse.suggest import nearest, suggestion

__all__ = ["PLAIN", "Aggregate", "ColumnRule", "Engine", "MergeSpec", "merge_spec", "named_columns"]


class Engine(enum.StrEnum):
    """Merge engine: the way in which several rows of one key become one."""

    DEDUPLICATE = "deduplicate"
    """Keeps the newest row."""
    PARTIAL_UPDATE = "partial-update"
    """Replaces values by newer ones that are not null."""
    AGGREGATION = "aggregation"
    """Aggregates values, each column by its own function."""
    FIRST_ROW = "first-row"
    """Keeps the first row."""


class Aggregate(enum.StrEnum):
    """Function that makes one value of a column's values in the rows of a key."""

    LAST_NON_NULL_VALUE = "last_non_null_value"
    LAST_VALUE = "last_value"
    FIRST_NON_NULL_VALUE = "first_non_null_value"
    FIRST_VALUE = "first_value"
    SUM = "sum"
    PRODUCT = "product"
    COUNT = "count"
    MIN = "min"
    MAX = "max"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    LISTAGG = "listagg"
    COLLECT = "collect"
    MERGE_MAP = "merge_map"


_FREE_OF_ORDER = frozenset(
    {
        Aggregate.SUM,
        Aggregate.PRODUCT,
        Aggregate.COUNT,
        Aggregate.MIN,
        Aggregate.MAX,
        Aggregate.BOOL_AND,
        Aggregate.BOOL_OR,
    }
)
_INTS = tuple(Primitive(name) for name in ("int8", "int16", "int32", "int64"))
_FLOATS = (Primitive("float"), Primitive("double"))
_TIMES = (Primitive("timestamp"), Primitive("timestamp_ntz"), Primitive("date"), Primitive("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRule:
    """Rule by which the values of one column are merged."""

    aggregate: Aggregate
    sequence: tuple[str, ...] = ()
    """Columns that order rows from older to newer; empty = the order of commits."""
    only_given: bool = False
    """True if rows with null in all columns of ``sequence`` are ignored."""
    delimiter: str = ","
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """Specification of merging rows of one key: the engine, and a rule for each column."""

    engine: Engine = Engine.DEDUPLICATE
    rules: Mapping[str, ColumnRule] = dataclass_field(default_factory=dict, hash=False)
    """Rules by column, without columns of the primary key; empty for plain deduplicate."""
    ignores_deletes: bool = False
    """True if deletes of keys are dropped when they are written."""
    ttl_ms: int = 0
    """Milliseconds after which a row is hidden; 0 = never."""
    time_column: str | None = None
    """Column with the time from which ``ttl_ms`` counts; None = rows are never hidden."""

    @property
    def is_mergeable(self) -> bool:
        """True if rows are operands, merged onto older ones; else each hides everything older."""
        return bool(self.rules)

    @property
    def picks_one_row(self) -> bool:
        """True if the result of merging rows is one of those rows, whole."""
        return self.engine in (Engine.DEDUPLICATE, Engine.FIRST_ROW)


PLAIN = MergeSpec()
"""Merging by the default: deduplicate in the order of commits."""


def merge_spec(fields: Sequence[Field], primary_key: Sequence[str], options: TableOptions) -> MergeSpec:
    """Makes the specification from a table's options, for these columns.

    Raises:
        InvalidInputError: options do not fit the columns or each other; the message names both.
    """
    by_name = {field.name: field for field in fields}
    apart = (*primary_key, KIND_COLUMN, SEQUENCE_COLUMN)
    values = {name: field for name, field in by_name.items() if name not in apart}
    engine = Engine(options.merge_engine)
    _check_key(primary_key, options)
    ttl_ms, time_column = _ttl(options, by_name)
    sequence = _sequence(options, values)
    if engine is Engine.PARTIAL_UPDATE and sequence:
        raise _option_error(
            "sequence.field",
            options.sequence_field,
            "in a table of engine partial-update columns are updated apart: say "
            f"fields.{options.sequence_field}.sequence_group = the columns that go by it",
        )
    if engine is Engine.FIRST_ROW and sequence:
        raise _option_error(
            "sequence.field", options.sequence_field, "engine first-row goes by the order of commits alone"
        )
    if engine in (Engine.DEDUPLICATE, Engine.FIRST_ROW):
        _refuse_column_options(options, engine)
    if engine is Engine.DEDUPLICATE:
        rule = ColumnRule(aggregate=Aggregate.LAST_VALUE, sequence=sequence)
        rules = dict.fromkeys(values, rule) if sequence else {}
    elif engine is Engine.FIRST_ROW:
        rules = dict.fromkeys(values, ColumnRule(aggregate=Aggregate.FIRST_VALUE))
    else:
        _check_defaults(values, engine)
        rules = _rules(options, values, by_name, engine, sequence)
    return MergeSpec(
        engine=engine,
        rules=rules,
        ignores_deletes=options.ignore_delete,
        ttl_ms=ttl_ms,
        time_column=time_column,
    )


def named_columns(text: str) -> tuple[str, ...]:
    """Returns the names of columns in an option's value, which commas separate."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _option_error(option: str, value: object, why: str, **context: Any) -> InvalidInputError:
    return InvalidInputError(f"table option {option!r}: {why}", option=option, value=value, **context)


def _check_key(primary_key: Sequence[str], options: TableOptions) -> None:
    if primary_key:
        return
    said = {
        "merge_engine": options.merge_engine if options.merge_engine != Engine.DEDUPLICATE else "",
        "sequence.field": options.sequence_field,
        "ignore_delete": "true" if options.ignore_delete else "",
        "fields": ", ".join(options.columns),
    }
    for name, value in said.items():
        if value:
            raise _option_error(name, value, "rows are merged by their key, and the table has no primary key")


def _column(option: str, name: str, fields: Mapping[str, Field], what: str) -> Field:
    if name not in fields:
        raise _option_error(
            option,
            name,
            f"{name!r} is no column of {what}; {suggestion(name, fields)}",
            column=name,
            nearest=nearest(name, fields),
        )
    return fields[name]


_NO_KEY = "the table outside its primary key"


def _ttl(options: TableOptions, fields: Mapping[str, Field]) -> tuple[int, str | None]:
    name = options.record_time_field.strip()
    if not name:
        if options.record_ttl_s:
            raise _option_error(
                "record.ttl_s", options.record_ttl_s, "record.time_field must say from when it counts"
            )
        return 0, None
    field = _column("record.time_field", name, fields, "the table")
    if field.type not in _TIMES:
        raise _option_error(
            "record.time_field",
            name,
            f"column {name!r} is {type_text(field.type)}; it must be a timestamp, a date, or a bigint of "
            "milliseconds since 1970",
            column=name,
        )
    return round(options.record_ttl_s * 1000), name


def _sequence(options: TableOptions, values: Mapping[str, Field]) -> tuple[str, ...]:
    names = named_columns(options.sequence_field)
    for name in names:
        _check_ordered("sequence.field", _column("sequence.field", name, values, _NO_KEY))
    return names


def _check_ordered(option: str, field: Field) -> None:
    if children(field.type):
        raise _option_error(
            option,
            field.name,
            f"column {field.name!r} is {type_text(field.type)}: nested types have no order",
            column=field.name,
        )


def _refuse_column_options(options: TableOptions, engine: Engine) -> None:
    for name in options.columns:
        raise _option_error(
            f"fields.{name}", name, f"engine {engine} keeps rows whole and has no options of columns"
        )


def _check_defaults(values: Mapping[str, Field], engine: Engine) -> None:
    """Refuses defaults of columns, which would be merged once for every row written without the column."""
    for name, field in values.items():
        if field.initial_default is not None:
            raise InvalidInputError(
                f"column {name!r}: in a table of engine {engine} a column is added without a default, since"
                " every older row of a key would bring it in again",
                column=name,
            )
        if field.write_default is not None and engine is Engine.PARTIAL_UPDATE:
            raise InvalidInputError(
                f"column {name!r}: in a table of engine {engine} a column has no default: a row without the"
                " column leaves its value as it is",
                column=name,
            )


def _rules(
    options: TableOptions,
    values: Mapping[str, Field],
    by_name: Mapping[str, Field],
    engine: Engine,
    sequence: tuple[str, ...],
) -> dict[str, ColumnRule]:
    rules = _group_rules(options, values, engine)
    for name in sequence:
        if name in options.columns:
            raise _option_error(f"fields.{name}", name, "a column of sequence.field keeps its greatest value")
        rules[name] = ColumnRule(aggregate=Aggregate.LAST_VALUE, sequence=sequence)
    for name, said in options.columns.items():
        if said.sequence_group:
            continue
        field = _column(f"fields.{name}", name, values, _NO_KEY)
        if name in rules:
            raise _option_error(
                f"fields.{name}", name, f"column {name!r} goes by a sequence group", column=name
            )
        _check_aggregate(field, said)
    for name in values:
        if name in rules:
            continue
        said = options.columns.get(name, ColumnOptions())
        rules[name] = _ordered(name, said, sequence)
    return {name: rules[name] for name in by_name if name in rules}


def _ordered(name: str, said: ColumnOptions, sequence: tuple[str, ...]) -> ColumnRule:
    aggregate = Aggregate(said.aggregate)
    goes_by_sequence = aggregate is Aggregate.LAST_VALUE
    if sequence and not goes_by_sequence and aggregate not in _FREE_OF_ORDER:
        raise _option_error(
            f"fields.{name}.aggregate",
            said.aggregate,
            f"column {name!r} is aggregated by {aggregate}, which goes by the order of commits and would not "
            f"go by sequence.field ({', '.join(sequence)}): use last_value, or a function to which order "
            "does not matter",
            column=name,
        )
    return ColumnRule(
        aggregate=aggregate,
        sequence=sequence if goes_by_sequence else (),
        delimiter=said.delimiter,
        distinct=said.distinct,
    )


def _group_rules(options: TableOptions, values: Mapping[str, Field], engine: Engine) -> dict[str, ColumnRule]:
    """Returns the rules of columns in sequence groups, the sequence columns included."""
    rules: dict[str, ColumnRule] = {}
    for names, said in options.columns.items():
        if not said.sequence_group:
            continue
        option = f"fields.{names}.sequence_group"
        if engine is not Engine.PARTIAL_UPDATE:
            raise _option_error(option, said.sequence_group, f"engine {engine} has no sequence groups")
        if said != ColumnOptions(sequence_group=said.sequence_group):
            raise _option_error(option, names, "a column that others go by has no other options")
        sequence, members = named_columns(names), named_columns(said.sequence_group)
        rule = ColumnRule(aggregate=Aggregate.LAST_VALUE, sequence=sequence, only_given=True)
        for name in (*sequence, *members):
            field = _column(option, name, values, _NO_KEY)
            if name in rules:
                raise _option_error(option, name, f"column {name!r} is named twice", column=name)
            if name in sequence:
                _check_ordered(option, field)
            elif field.required:
                raise _option_error(
                    option,
                    name,
                    f"column {name!r} must not be null, and it is null until a row gives its sequence",
                    column=name,
                )
            rules[name] = rule
    return rules


def _check_aggregate(field: Field, said: ColumnOptions) -> None:
    aggregate, kind = Aggregate(said.aggregate), field.type
    wanted = _wanted(aggregate, kind, said.distinct)
    if wanted:
        raise _option_error(
            f"fields.{field.name}.aggregate",
            said.aggregate,
            f"{aggregate} needs {wanted}, and column {field.name!r} is {type_text(kind)}",
            column=field.name,
        )
    if said.distinct and aggregate is not Aggregate.COLLECT:
        raise _option_error(
            f"fields.{field.name}.distinct", "true", f"{aggregate} has none: collect has", column=field.name
        )
    if said.delimiter != ColumnOptions().delimiter and aggregate is not Aggregate.LISTAGG:
        raise _option_error(
            f"fields.{field.name}.delimiter",
            said.delimiter,
            f"{aggregate} has none: listagg has",
            column=field.name,
        )


def _wanted(aggregate: Aggregate, kind: DataType, distinct: bool) -> str:
    """Returns the type that the aggregate needs if the column has another; empty if it fits."""
    match aggregate:
        case Aggregate.SUM if kind not in (*_INTS, *_FLOATS) and not isinstance(kind, DecimalType):
            return "numbers"
        case Aggregate.PRODUCT if kind not in (*_INTS, *_FLOATS):
            return "whole or floating-point numbers"
        case Aggregate.COUNT if kind not in _INTS:
            return "a column of whole numbers"
        case Aggregate.MIN | Aggregate.MAX if children(kind):
            return "values that have an order"
        case Aggregate.BOOL_AND | Aggregate.BOOL_OR if kind != Primitive("boolean"):
            return "booleans"
        case Aggregate.LISTAGG if not isinstance(kind, StringType) or kind.length is not None:
            return "text without a greatest length"
        case Aggregate.COLLECT if not isinstance(kind, ListType):
            return "an array"
        case Aggregate.COLLECT if distinct and isinstance(kind, ListType) and children(kind.element.type):
            return "an array of values that are not nested, to keep each once"
        case Aggregate.MERGE_MAP if not isinstance(kind, MapType) or children(kind.key.type):
            return "a map with keys that are not nested"
    return ""
