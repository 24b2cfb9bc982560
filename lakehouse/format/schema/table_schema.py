"""The schema of a table: its columns, its keys, its options.

Invariant: a schema is a value and never changes; a change makes another one with the next id. A schema
that :func:`check_schema` accepts can be stored, written and read: names are unique, ids are unique,
key columns exist and are never null.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.format.metadata.file_entry import KIND_COLUMN, SEQUENCE_COLUMN
from lakehouse.format.schema.column_path import refuse_ambiguous
from lakehouse.format.schema.index_definition import IndexDefinition, check_beside, check_fits, parse_indexes
from lakehouse.format.schema.merge_rules import PLAIN, MergeSpec, merge_spec
from lakehouse.format.schema.table_options import TableOptions, option_texts
from lakehouse.format.schema.type_check import field_problem
from lakehouse.format.schema.type_notation import from_arrow, type_text
from lakehouse.format.schema.types import (
    Field,
    Primitive,
    StructType,
    arrow_schema,
    children,
    walk,
)
from lakehouse.suggest import nearest, suggestion

__all__ = ["BUCKETS_MAX", "TableSchema", "check_options", "check_schema", "schema_from_arrow"]

BUCKETS_MAX = 10_000
"""Maximum number of buckets of a table (of a partition, if the key holds the partition)."""
_UNFIT = ("Cc", "Cs", "Zl", "Zp")
"""Unicode categories not allowed in names: controls, surrogates, line and paragraph separators."""
_RESERVED = (KIND_COLUMN, SEQUENCE_COLUMN)
_OF_MERGING = ("merge_engine", "sequence.field", "ignore_delete", "record.", "fields.")
"""Prefixes of the names of options about merging."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Columns, primary key, partition columns and options of a table."""

    id: int = 0
    """Number of the schema: 0 for the first, then one more with each change."""
    fields: tuple[Field, ...]
    primary_key: tuple[str, ...] = ()
    """Names of the key's columns, in key order; empty = an append-only table."""
    partition_by: tuple[str, ...] = ()
    """Names of the partition columns, in order."""
    buckets: int = 1
    # A dict, because what is read-only cannot be pickled.
    options: Mapping[str, str] = dataclass_field(default_factory=dict, hash=False)
    """Options by name, as text; see :class:`TableOptions`."""
    comment: str | None = None
    highest_field_id: int
    """Highest id of all fields that the table ever had, nested ones included."""
    indexes: tuple[IndexDefinition, ...] = ()
    """Definitions of the indexes that data files get."""
    highest_index_id: int = 0
    """Highest id of all index definitions that the table ever had."""

    def field(self, name: str) -> Field:
        """Returns the column of that name, which must exist."""
        return next(field for field in self.fields if field.name == name)

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The primary key's columns, in key order."""
        return tuple(self.field(name) for name in self.primary_key)

    def key_schema(self) -> TableSchema:
        """Returns a schema of the primary key's columns alone, as rows that name keys have it."""
        return TableSchema(
            fields=self.key_fields, primary_key=self.primary_key, highest_field_id=self.highest_field_id
        )

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in order."""
        return tuple(self.field(name) for name in self.partition_by)

    @property
    def key_holds_partition(self) -> bool:
        """True if the key determines the partition, so that each partition has merge units of its own."""
        return set(self.partition_by) <= set(self.primary_key)

    @property
    def merging(self) -> MergeSpec:
        """Specification of merging by the table's options."""
        if not any(name.startswith(_OF_MERGING) for name in self.options):
            return PLAIN
        return _merging(self)

    def arrow(self) -> pa.Schema:
        """Returns the Arrow schema, with field ids in its metadata."""
        return arrow_schema(self.fields)


@functools.lru_cache(maxsize=1024)
def _merging(schema: TableSchema) -> MergeSpec:
    return merge_spec(schema.fields, schema.primary_key, TableOptions.parse(schema.options))


def schema_from_arrow(
    schema: pa.Schema,
    *,
    primary_key: Sequence[str] | str = (),
    partition_by: Sequence[str] | str = (),
    buckets: int = 1,
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
    indexes: Mapping[Any, Any] | None = None,
) -> TableSchema:
    """Makes the schema of a new table with these columns; key and partition columns become required.

    Field ids count from 1, depth first: a field before its own fields.

    Raises:
        InvalidInputError: a type that tables do not have, an unknown option, or a broken rule of
            :func:`check_schema`; the message names the column or the option.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidInputError(
            f"a table's columns are given as an Arrow schema, such as pa.schema({{'id': pa.int64()}}), "
            f"not as {short(schema)}"
        )
    keys, partitions = _names(primary_key, "primary_key"), _names(partition_by, "partition_by")
    numbers = itertools.count(1)
    fields = []
    for part in schema:
        number = next(numbers)
        try:
            kind = from_arrow(part.type, numbers.__next__)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"column {part.name!r}: {error.message}", column=part.name, **error.context
            ) from error
        required = not part.nullable or part.name in keys or part.name in partitions
        fields.append(Field(id=number, name=part.name, type=kind, required=required))
    texts = option_texts(options or {})
    definitions = parse_indexes(indexes or {}, fields)
    created = TableSchema(
        fields=tuple(fields),
        primary_key=keys,
        partition_by=partitions,
        buckets=buckets,
        options=texts,
        comment=comment,
        highest_field_id=next(numbers) - 1,
        indexes=definitions,
        highest_index_id=len(definitions),
    )
    check_schema(created)
    refuse_ambiguous(created.fields)
    check_options(created)
    return created


def _names(names: Sequence[str] | str, what: str) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    if not _are_names(names):
        raise InvalidInputError(f"{what} is the name of a column, or a list of names, not {short(names)}")
    return tuple(names)


def _are_names(names: Any) -> bool:
    return isinstance(names, Sequence) and all(isinstance(name, str) for name in names)


def check_schema(schema: TableSchema) -> None:
    """Checks that a table can have this schema, its options aside (:func:`check_options`).

    Raises:
        InvalidInputError: it cannot; the message names the column and the problem.
    """
    _check_kinds(schema)
    _check_fields(schema.fields, "the table")
    for path, field in walk(schema.fields):
        _check_field(field, ".".join(path))
    ids = [field.id for _, field in walk(schema.fields)]
    if len(set(ids)) != len(ids) or min(ids) < 1 or max(ids) > schema.highest_field_id:
        raise InvalidInputError(
            f"field ids must be unique and from 1 to {schema.highest_field_id}, not {ids}", ids=ids
        )
    _check_keys(schema, "primary key", schema.primary_key)
    _check_keys(schema, "partition", schema.partition_by)
    _check_indexes(schema)
    if not 1 <= schema.buckets <= BUCKETS_MAX:
        raise InvalidInputError(f"a table has 1 to {BUCKETS_MAX:,} buckets, not {schema.buckets:,}")


def _check_kinds(schema: TableSchema) -> None:
    """Checks that every attribute is of its type, which dataclasses do not check."""
    for field in schema.fields:
        problem = field_problem(field)
        if problem:
            raise InvalidInputError(f"column {short(getattr(field, 'name', field))}: {problem}")
    for what, number in (("id", schema.id), ("buckets", schema.buckets)):
        if type(number) is not int:
            raise InvalidInputError(f"{what} must be a whole number, not {short(number)}")
    for what, names in (("primary key", schema.primary_key), ("partition", schema.partition_by)):
        if not _are_names(names):
            raise InvalidInputError(f"{what}: columns are given by name, as text, not as {short(names)}")
    if schema.comment is not None and not isinstance(schema.comment, str):
        raise InvalidInputError(f"the comment of a table must be text, not {short(schema.comment)}")


def check_options(schema: TableSchema) -> None:
    """Checks that the schema's options exist, and fit its columns and each other.

    Raises:
        InvalidInputError: they do not; the message names the option, and the column if it is about one.
    """
    options = TableOptions.parse(schema.options)
    merge_spec(schema.fields, schema.primary_key, options)


def _check_indexes(schema: TableSchema) -> None:
    numbers = [definition.id for definition in schema.indexes]
    highest = schema.highest_index_id
    if len(set(numbers)) != len(numbers) or any(not 1 <= number <= highest for number in numbers):
        raise InvalidInputError(
            f"ids of indexes must be unique and from 1 to {schema.highest_index_id}, not {numbers}",
            ids=numbers,
        )
    for place, definition in enumerate(schema.indexes):
        check_fits(definition, schema.fields)
        check_beside(definition, schema.indexes[:place], schema.fields)


def _check_fields(fields: Iterable[Field], where: str) -> None:
    """Checks that there are fields, and that their names differ in more than case."""
    seen: dict[str, str] = {}
    for field in fields:
        folded = field.name.casefold()
        if folded in seen:
            raise InvalidInputError(
                f"{where} has columns {seen[folded]!r} and {field.name!r}; names must differ without case",
                column=field.name,
            )
        seen[folded] = field.name
    if not seen:
        raise InvalidInputError(f"{where} has no columns; it needs one at least")


def _check_field(field: Field, path: str) -> None:
    _check_name(field.name, path)
    if isinstance(field.type, StructType):
        _check_fields(field.type.fields, f"the struct {path!r}")


def _check_name(name: str, path: str) -> None:
    if not name.strip():
        raise InvalidInputError(f"a column's name is empty ({path!r})", column=path)
    if any(unicodedata.category(character) in _UNFIT for character in name):
        raise InvalidInputError(f"column {path!r}: a name has no control characters", column=path)
    if name.upper().startswith(_RESERVED):
        raise InvalidInputError(
            f"column {path!r}: names that begin with {' or '.join(_RESERVED)} are reserved", column=path
        )


def _check_keys(schema: TableSchema, what: str, names: Sequence[str]) -> None:
    by_name = {field.name: field for field in schema.fields}
    for name in names:
        field = by_name.get(name)
        if field is None:
            raise InvalidInputError(
                f"{what} column {name!r} is not a column of the table; {suggestion(name, by_name)}",
                column=name,
                nearest=nearest(name, by_name),
            )
        if children(field.type):
            raise InvalidInputError(
                f"{what} column {name!r} is {type_text(field.type)}: nested types have no order", column=name
            )
        if field.type in (Primitive("float"), Primitive("double")):
            raise InvalidInputError(
                f"{what} column {name!r} is {type_text(field.type)}: floating-point numbers that look the"
                " same may differ; use a decimal or an int",
                column=name,
            )
        if not field.required:
            raise InvalidInputError(f"{what} column {name!r} may be null; make it not null", column=name)
    if len(set(names)) != len(names):
        raise InvalidInputError(f"{what}: a column is named twice in {', '.join(names)}", names=list(names))
