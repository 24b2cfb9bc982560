"""Changes of column names in the options about merging, when columns are renamed or dropped.

Invariant: existing values keep the rule by which they are merged: a column keeps it under every name,
and a column by which others are ordered cannot be dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.merge_rules import ColumnRule, named_columns
from lakehouse.format.schema.table_schema import TableSchema

__all__ = ["check_rules_kept", "options_renamed", "options_without"]

_OF_COLUMN = "fields."
_GROUP = ".sequence_group"
_SINGLE = "record.time_field"
_LISTS = ("sequence.field",)


def options_renamed(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Returns the options with a column under its new name."""

    def renamed(name: str) -> str:
        return new if name == old else name

    return _mapped(options, lambda names: tuple(map(renamed, names)))


def options_without(options: Mapping[str, str], column: str) -> dict[str, str]:
    """Returns the options without a column and without its own options.

    Raises:
        InvalidInputError: by an option other columns, or rows, are ordered by the column.
    """

    def drop_error(option: str, why: str) -> InvalidInputError:
        return InvalidInputError(
            f"column {column!r} cannot be dropped: {why} (table option {option!r})",
            column=column,
            option=option,
        )

    for name in (_SINGLE, *_LISTS):
        if column in named_columns(options.get(name, "")):
            raise drop_error(name, "rows go by it")
    kept = {}
    for name, text in options.items():
        if name.startswith(_OF_COLUMN) and not name.endswith(_GROUP):
            if name.removeprefix(_OF_COLUMN).rpartition(".")[0] == column:
                continue
        elif name.startswith(_OF_COLUMN):
            if column in named_columns(_middle(name)):
                raise drop_error(name, f"columns {text} go by it")
            if named_columns(text) == (column,):
                raise drop_error(name, f"it is the last column that goes by {_middle(name)}")
        kept[name] = text
    return _mapped(kept, lambda names: tuple(name for name in names if name != column))


def check_rules_kept(before: TableSchema, after: TableSchema) -> None:
    """Checks that the columns of both schemas are merged alike.

    Raises:
        InvalidInputError: one is not; the message names it.
    """
    old, new = _rules_by_id(before), _rules_by_id(after)
    for field in after.fields:
        if field.id in old and old[field.id] != new[field.id]:
            raise InvalidInputError(
                f"column {field.name!r}: how its values are merged is said when the column is made, and "
                "cannot change",
                column=field.name,
            )


def _rules_by_id(schema: TableSchema) -> dict[int, ColumnRule | None]:
    ids = {field.name: str(field.id) for field in schema.fields}
    rules = schema.merging.rules
    return {
        field.id: dataclasses.replace(rule, sequence=tuple(ids[name] for name in rule.sequence))
        if (rule := rules.get(field.name)) is not None
        else None
        for field in schema.fields
    }


def _middle(name: str) -> str:
    return name.removeprefix(_OF_COLUMN).removesuffix(_GROUP)


def _mapped(
    options: Mapping[str, str], change: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> dict[str, str]:
    """Returns the options with ``change`` applied to the names of columns wherever options have some."""

    def listed(text: str) -> str:
        names = named_columns(text)
        changed = change(names)
        return text if changed == names else ", ".join(changed)

    mapped = {}
    for name, text in options.items():
        if name in (_SINGLE, *_LISTS):
            text = listed(text)
        elif name.startswith(_OF_COLUMN) and name.endswith(_GROUP):
            name, text = f"{_OF_COLUMN}{listed(_middle(name))}{_GROUP}", listed(text)
        elif name.startswith(_OF_COLUMN):
            column, _, option = name.removeprefix(_OF_COLUMN).rpartition(".")
            name = f"{_OF_COLUMN}{(change((column,)) or (column,))[0]}.{option}"
        mapped[name] = text
    return mapped
