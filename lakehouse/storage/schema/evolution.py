"""Evolution of a table's schema: the changes that are allowed, and the schema that results from them.

Invariant: every file written under an older schema stays readable by field id under the newer one.
So ids are never used again, an initial default never changes, types only widen, and nothing that
orders or places rows (keys, partitions, layout options) changes. A change that would break that is
refused with an error that names the column or option.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.expr.column_names import is_quoted, parts_of
from lakehouse.format.schema import (
    BinaryType,
    ColumnType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    TableOptions,
    TableSchema,
    check_options,
    check_rules_kept,
    check_schema,
    children,
    column_steps,
    column_type,
    new_name,
    new_steps,
    option_texts,
    options_renamed,
    options_without,
    refuse_ambiguous,
    type_text,
    walk,
    with_children,
    with_ids,
)
from lakehouse.storage.rows.fit_to_schema import conform_value
from lakehouse.storage.schema.change_arguments import check_arguments
from lakehouse.storage.schema.index_evolution import (
    AddIndex,
    AlterIndex,
    DropIndex,
    IndexChange,
    with_index_change,
    with_indexes_following,
)
from lakehouse.suggest import suggestion

__all__ = [
    "AddColumn",
    "ColumnPath",
    "DropColumn",
    "MakeOptional",
    "MakeRequired",
    "MoveColumn",
    "RenameColumn",
    "SchemaChange",
    "SetComment",
    "SetDefault",
    "SetOptions",
    "SetTableComment",
    "UnsetOptions",
    "WidenColumn",
    "evolve",
]

ColumnPath = str | tuple[str, ...]
"""Name of a column, or path to a nested field: ``"address.street"``, or ``("address", "street")``.

A text with a dot is a path where its first part is a nested column, and else the name of a column; backticks
enclose a name that holds a dot: ``"`net.amount`"``. Parts of a tuple are always plain names. A list's
element is called ``element``, a map's parts ``key`` and ``value``.
"""


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Adds a column, or a field of a struct; it becomes the last one unless a place is given."""

    path: ColumnPath
    type: ColumnType
    """SQL text, an Arrow type, or a type of this package."""
    required: bool = False
    """True when no null is allowed; needs a default, which old rows get."""
    default: Any = None
    """Value of the column in old rows, and in new rows that come without it."""
    comment: str | None = None
    first: bool = False
    """True to put it before all its neighbours."""
    after: str | None = None
    """Name of the neighbour to put it behind."""


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drops a column; adding one of that name later does not bring its values back."""

    path: ColumnPath


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Renames a column; key and partition columns may be renamed too."""

    path: ColumnPath
    name: str


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Moves a column among its neighbours: to the first place, or behind one of them."""

    path: ColumnPath
    first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Widens the type of a column: longer ints, double for float, more digits, longer text."""

    path: ColumnPath
    type: ColumnType
    """New type, in any form that :class:`AddColumn` takes."""


@dataclass(frozen=True, slots=True)
class MakeOptional:
    """Allows nulls in a column from now on."""

    path: ColumnPath


@dataclass(frozen=True, slots=True)
class MakeRequired:
    """Forbids nulls in a column: refused unless it forbids them already, for older rows may have some."""

    path: ColumnPath


@dataclass(frozen=True, slots=True)
class SetComment:
    """Sets the comment of a column; None removes it."""

    path: ColumnPath
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Sets the value for new rows that come without the column; None removes the default.

    Existing rows keep their values.
    """

    path: ColumnPath
    default: Any


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Sets options of the table."""

    options: Mapping[str, object]
    """New values by name."""


@dataclass(frozen=True, slots=True)
class UnsetOptions:
    """Resets options of the table to their defaults."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class SetTableComment:
    """Sets the comment of the table; None removes it."""

    comment: str | None


SchemaChange = (
    AddColumn
    | DropColumn
    | RenameColumn
    | MoveColumn
    | WidenColumn
    | MakeOptional
    | MakeRequired
    | SetComment
    | SetDefault
    | SetOptions
    | UnsetOptions
    | SetTableComment
    | IndexChange
)
"""Any change that :func:`evolve` applies to a schema."""


def evolve(schema: TableSchema, changes: Sequence[SchemaChange]) -> TableSchema:
    """Returns the schema after these changes, applied in order, with the next id; all of them or none.

    Raises:
        InvalidInputError: a change is refused; the message names the column or option and says why.
    """
    if not changes:
        raise InvalidInputError("no changes were given")
    changed = schema
    for change in changes:
        if not isinstance(change, SchemaChange):
            raise InvalidInputError(
                f"{short(change)} is no change of a schema: give values such as AddColumn('note', 'string')"
            )
        check_arguments(change)
        changed = with_indexes_following(changed, _applied(changed, _with_steps(changed, change)))
        check_schema(changed)
        refuse_ambiguous(changed.fields, schema.fields)
    # Only at the end: between the changes of one call, options and columns need not fit each other.
    check_options(changed)
    check_rules_kept(schema, changed)
    return replace(changed, id=schema.id + 1)


def _with_steps(schema: TableSchema, change: SchemaChange) -> SchemaChange:
    """Returns the change with every path that is text parsed into names."""
    match change:
        case AddColumn(path=str(path)):
            change = replace(change, path=new_steps(schema.fields, path))
        case RenameColumn(path=str(path), name=name):
            change = RenameColumn(column_steps(schema.fields, path), new_name(name))
        case RenameColumn(path=path, name=name):
            change = RenameColumn(path, new_name(name))
        case (
            DropColumn(path=str(path))
            | MoveColumn(path=str(path))
            | WidenColumn(path=str(path))
            | MakeOptional(path=str(path))
            | MakeRequired(path=str(path))
            | SetComment(path=str(path))
            | SetDefault(path=str(path))
        ):
            change = replace(change, path=column_steps(schema.fields, path))
    if isinstance(change, AddColumn | MoveColumn) and change.after is not None:
        change = replace(change, after=parts_of(change.after)[0] if is_quoted(change.after) else change.after)
    return change


def _applied(schema: TableSchema, change: SchemaChange) -> TableSchema:
    match change:
        case AddColumn():
            return _added(schema, change)
        case DropColumn(path):
            _refuse_for_keys(schema, path, "be dropped")
            return _dropped(schema, path)
        case RenameColumn(path, name):
            return _renamed(schema, path, name)
        case MoveColumn(path, first, after):
            return _siblings(schema, path, lambda fields, at: _placed(fields, at, first, after, path))
        case WidenColumn(path, kind):
            wide = _given_type(kind, path, itertools.count(2))
            return _edited(schema, path, lambda field: replace(field, type=_widened(field.type, wide, path)))
        case MakeOptional(path):
            _refuse_for_keys(schema, path, "become optional")
            # A struct may have a field called "key" too; only a map's key must stay without nulls.
            if _steps(path)[-1] == "key" and isinstance(_holder(schema, path), MapType):
                _refuse(path, "is the key of a map, which is never null")
            return _edited(schema, path, lambda field: replace(field, required=False))
        case MakeRequired(path):
            return _edited(schema, path, lambda field: _still_required(field, path))
        case SetComment(path, comment):
            return _edited(schema, path, lambda field: replace(field, comment=comment))
        case SetDefault(path, default):
            if not isinstance(_holder(schema, path), StructType):
                _refuse(path, "is part of a list or a map, whose parts have no defaults")
            return _edited(schema, path, lambda field: replace(field, write_default=_default(default, field)))
        case SetTableComment(comment):
            return replace(schema, comment=comment)
        case AddIndex() | AlterIndex() | DropIndex():
            return with_index_change(schema, change)
    return _with_options(schema, change)


def _steps(path: ColumnPath) -> tuple[str, ...]:
    return (path,) if isinstance(path, str) else tuple(path)


def _refuse(path: ColumnPath, why: str) -> NoReturn:
    shown = ".".join(_steps(path))
    raise InvalidInputError(f"column {shown!r} {why}", column=shown)


def _find(fields: Sequence[Field], name: str, path: ColumnPath) -> int:
    """Returns the place of a field among its neighbours; refuses a name that is not there."""
    names = [field.name for field in fields]
    if name not in names:
        _refuse(path, f"is not there: there is no {name!r}; {suggestion(name, names)}")
    return names.index(name)


def _edited(schema: TableSchema, path: ColumnPath, edit: Callable[[Field], Field]) -> TableSchema:
    """Returns the schema with one field changed, at any depth."""

    def within(fields: tuple[Field, ...], steps: tuple[str, ...]) -> tuple[Field, ...]:
        at = _find(fields, steps[0], path)
        field = fields[at]
        if len(steps) == 1:
            changed = edit(field)
        else:
            inside = within(children(field.type), steps[1:])
            changed = _retyped(field, with_children(field.type, inside))
        return (*fields[:at], changed, *fields[at + 1 :])

    return replace(schema, fields=within(schema.fields, _steps(path)))


def _siblings(
    schema: TableSchema, path: ColumnPath, edit: Callable[[tuple[Field, ...], int], tuple[Field, ...]]
) -> TableSchema:
    """Returns the schema with the list changed that holds a field: the columns, or a struct's fields."""
    *outer, name = _steps(path)
    if not outer:
        return replace(schema, fields=edit(schema.fields, _find(schema.fields, name, path)))

    def inside(holder: Field) -> Field:
        if not isinstance(holder.type, StructType):
            _find(children(holder.type), name, path)
            _refuse(path, f"is part of {type_text(holder.type)}, whose parts stay as they are")
        fields = holder.type.fields
        return _retyped(holder, StructType(edit(fields, _find(fields, name, path))))

    return _edited(schema, tuple(outer), inside)


def _holder(schema: TableSchema, path: ColumnPath) -> DataType:
    """Returns the type that a field is part of; a struct of all columns for a column."""
    kind: DataType = StructType(schema.fields)
    for step in _steps(path)[:-1]:
        fields = children(kind)
        kind = fields[_find(fields, step, path)].type
    return kind


def _retyped(field: Field, kind: DataType) -> Field:
    """Returns the field with another nested type, and its defaults converted to it."""
    return replace(
        field,
        type=kind,
        initial_default=_reshaped(field.initial_default, field.type, kind, "initial_default"),
        write_default=_reshaped(field.write_default, field.type, kind, "write_default"),
    )


def _reshaped(value: Any, old: DataType, new: DataType, default: str) -> Any:
    """Converts a default of the old type to the new one, whose fields are matched by id."""
    if value is None or old == new:
        return value
    match old, new:
        case ListType(before), ListType(after):
            return [_reshaped(item, before.type, after.type, default) for item in value]
        case MapType(key_before, before), MapType(key_after, after):
            return [
                (
                    _reshaped(key, key_before.type, key_after.type, default),
                    _reshaped(item, before.type, after.type, default),
                )
                for key, item in value
            ]
        case StructType(fields_before), StructType(fields_after):
            known = {field.id: field for field in fields_before}
            return {
                field.name: _reshaped(value[known[field.id].name], known[field.id].type, field.type, default)
                if field.id in known
                else getattr(field, default)
                for field in fields_after
            }
    return value


def _refuse_for_keys(schema: TableSchema, path: ColumnPath, what: str) -> None:
    """Refuses a change of a key or partition column: files are ordered and placed by its values."""
    for sort, names in (("primary key", schema.primary_key), ("partition", schema.partition_by)):
        if _steps(path) in [(name,) for name in names]:
            _refuse(path, f"is a {sort} column and cannot {what}")


def _added(schema: TableSchema, change: AddColumn) -> TableSchema:
    *outer, name = _steps(change.path)
    numbers = itertools.count(schema.highest_field_id + 1)
    number = next(numbers)
    kind = _with_own_defaults(_given_type(change.type, change.path, numbers))
    bare = Field(id=number, name=name, type=kind, required=change.required, comment=change.comment)
    if change.required and change.default is None:
        _refuse(change.path, "must not be null, so it needs a default for the rows that are there")
    default = _default(change.default, bare)
    field = replace(bare, initial_default=default, write_default=default)

    def with_field(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        _refuse_taken(fields, name, change.path)
        if not change.first and change.after is None:
            return (*fields, field)
        return _placed((*fields, field), len(fields), change.first, change.after, change.path)

    def inside(holder: Field) -> Field:
        if not isinstance(holder.type, StructType):
            _refuse(
                change.path, f"cannot be added to {type_text(holder.type)}: only structs have named fields"
            )
        return _retyped(holder, StructType(with_field(holder.type.fields)))

    # A nested type takes an id for each of its fields, too.
    grown = replace(schema, highest_field_id=max(part.id for _, part in walk((field,))))
    if outer:
        return _edited(grown, tuple(outer), inside)
    return replace(grown, fields=with_field(grown.fields))


def _given_type(given: object, path: ColumnPath, numbers: Iterator[int]) -> DataType:
    """Parses the type of a change and numbers its inner fields; refuses a type that no column can have."""
    try:
        kind = with_ids(column_type(given), numbers.__next__)
    except InvalidInputError as error:
        shown = ".".join(_steps(path))
        raise InvalidInputError(
            f"column {shown!r}: {error.message}", column=shown, **error.context
        ) from error
    # A schema of this column alone has the type checked by the rules for schemas.
    alone = Field(id=1, name=_steps(path)[-1], type=with_ids(kind, itertools.count(2).__next__))
    check_schema(TableSchema(fields=(alone,), highest_field_id=2 + sum(1 for _ in walk((alone,)))))
    return kind


def _with_own_defaults(kind: DataType) -> DataType:
    """Returns the type with the defaults of its inner fields converted to those fields' types."""
    inside = []
    for child in children(kind):
        child = replace(child, type=_with_own_defaults(child.type))
        default = _default(child.write_default, child)
        inside.append(replace(child, initial_default=default, write_default=default))
    return with_children(kind, tuple(inside))


def _refuse_taken(fields: Sequence[Field], name: str, path: ColumnPath) -> None:
    taken = [field.name for field in fields if field.name.casefold() == name.casefold()]
    if taken:
        _refuse(
            path, f"cannot have the name {name!r}: {taken[0]!r} is there, and case does not tell them apart"
        )


def _dropped(schema: TableSchema, path: ColumnPath) -> TableSchema:
    dropped = _siblings(schema, path, lambda fields, at: (*fields[:at], *fields[at + 1 :]))
    *outer, name = _steps(path)
    return dropped if outer else replace(dropped, options=options_without(schema.options, name))


def _renamed(schema: TableSchema, path: ColumnPath, name: str) -> TableSchema:
    *outer, old = _steps(path)

    def edit(fields: tuple[Field, ...], at: int) -> tuple[Field, ...]:
        others = (*fields[:at], *fields[at + 1 :])
        _refuse_taken(others, name, path)
        return (*fields[:at], replace(fields[at], name=name), *fields[at + 1 :])

    renamed = _siblings(schema, path, edit)
    if outer:
        return renamed

    def follow(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name if column == old else column for column in names)

    return replace(
        renamed,
        primary_key=follow(schema.primary_key),
        partition_by=follow(schema.partition_by),
        options=options_renamed(schema.options, old, name),
    )


def _placed(
    fields: tuple[Field, ...], at: int, first: bool, after: str | None, path: ColumnPath
) -> tuple[Field, ...]:
    """Returns the fields with the one at ``at`` moved to the first place, or behind another."""
    if first == (after is not None):
        _refuse(path, "goes first or behind another column: say one of the two")
    others = (*fields[:at], *fields[at + 1 :])
    place = 0 if after is None else _find(others, after, path) + 1
    return (*others[:place], fields[at], *others[place:])


def _still_required(field: Field, path: ColumnPath) -> Field:
    if not field.required:
        _refuse(path, "is optional and cannot become required: rows that are there may have nulls")
    return field


def _default(value: Any, field: Field) -> Any:
    """Converts a default to the column's type; None = no default, also for a required column."""
    return None if value is None else conform_value(value, field)


_INTS = ("int8", "int16", "int32", "int64")
"""Integer types, each of which holds all values of those before it."""


def _widened(old: DataType, new: DataType, path: ColumnPath) -> DataType:
    """Returns the new type if it holds all values of the old one, with key bytes in the same order."""
    fits = False
    match old, new:
        case Primitive(before), Primitive(after) if before in _INTS and after in _INTS:
            fits = _INTS.index(before) <= _INTS.index(after)
        case Primitive("float"), Primitive("double"):
            fits = True
        case DecimalType(before_digits, before_scale), DecimalType(digits, scale):
            fits = before_scale == scale and before_digits <= digits
        case (StringType(before_length), StringType(length)) | (
            BinaryType(before_length),
            BinaryType(length),
        ):
            fits = length is None or (before_length is not None and before_length <= length)
        case _:
            fits = old == new
    if not fits:
        _refuse(
            path,
            f"is {type_text(old)} and cannot become {type_text(new)}: a type only widens (ints, float to"
            " double, digits of a decimal before the point, lengths)",
        )
    return new


_NO_OPTIONS = {
    "primary_key": "the primary key of a table",
    "partition_by": "the partitioning of a table",
    "buckets": "the number of buckets of a table",
    "bucket": "the number of buckets of a table",
}
"""Properties fixed at creation that users may try to set as options, with their names in the refusal."""
_FIXED = "it is said when the table is created and cannot change"


def _with_options(schema: TableSchema, change: SetOptions | UnsetOptions) -> TableSchema:
    texts = option_texts(change.options) if isinstance(change, SetOptions) else {}
    names = list(change.options) if isinstance(change, SetOptions) else list(change.names)
    for name in names:
        if name in _NO_OPTIONS:
            raise InvalidInputError(f"{_NO_OPTIONS[name]} is no option: {_FIXED}", option=name)
        info = TableOptions.info(name)
        default = str(info.default)
        # A column added in the same call may get options of its own, such as how it merges; check_rules_kept
        # refuses changes of those of the others.
        is_fixed = info.fixed and not info.is_of_column
        if is_fixed and texts.get(name, default) != schema.options.get(name, default):
            raise InvalidInputError(f"table option {name!r}: {_FIXED}", option=name)
    kept = {name: text for name, text in schema.options.items() if name not in names}
    return replace(schema, options={**kept, **texts})
