"""Differences between the columns of rows and those of a table, all of them at once and before any row.

Invariant: columns without a difference here are refused, if at all, for the value of a row
(:mod:`lakehouse.storage.rows.fit_to_schema`), never for a name or a type.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Field, ListType, MapType, StructType, children, from_arrow, type_text
from lakehouse.storage.rows.lossless_casts import may_fit
from lakehouse.suggest import nearest

__all__ = ["column_differences"]


def column_differences(
    columns: pa.Schema | Sequence[pa.Field],
    fields: Sequence[Field],
    *,
    case_matters: bool = False,
    of: str = "",
) -> list[str]:
    """Returns a line for each column that is missing, extra, ambiguous or of a wrong type, in this order.

    Args:
        columns: columns of the rows.
        fields: columns of the table. Those that may be null or have a default may be missing.
        case_matters: whether names that differ in case are different names.
        of: prefix of the names in the lines: the path of a struct with its dot.
    """

    def folded(name: str) -> str:
        return name if case_matters else name.casefold()

    by_name: dict[str, list[pa.Field]] = {}
    for column in columns:
        by_name.setdefault(folded(column.name), []).append(column)
    known = {folded(field.name): field for field in fields}
    missing, wrong = [], []
    for name, field in known.items():
        same_name = by_name.get(name, [])
        if len(same_name) > 1:
            names = " and ".join(repr(of + column.name) for column in same_name)
            wrong.append(f"ambiguous: {names} are both {of + field.name!r} of the table")
        elif same_name:
            wrong += _type_differences(same_name[0].type, field, of + field.name, case_matters)
        elif field.required and field.write_default is None:
            missing.append(f"missing: {of + field.name!r} ({type_text(field.type)}, which must not be null)")
    extra = []
    for name, (column, *_) in by_name.items():
        if name not in known:
            like = nearest(column.name, [field.name for field in fields])
            hint = f"; the table has {of + like!r}" if like else ""
            extra.append(f"extra: {of + column.name!r} ({_shown(column.type)}){hint}")
    return [*missing, *extra, *wrong]


def _type_differences(source: pa.DataType, field: Field, path: str, case_matters: bool) -> list[str]:
    is_, kind = pa.types, field.type
    if not children(kind):
        if may_fit(source, kind):
            return []
    elif is_.is_null(source):
        # Nothing but nulls: it fits any type, and conform refuses the nulls where none may be.
        return []
    elif isinstance(kind, StructType) and is_.is_struct(source):
        return column_differences(list(source), kind.fields, case_matters=case_matters, of=f"{path}.")
    elif isinstance(kind, MapType) and is_.is_map(source):
        return [
            *_type_differences(source.key_type, kind.key, f"{path}.key", case_matters),
            *_type_differences(source.item_type, kind.value, f"{path}.value", case_matters),
        ]
    elif isinstance(kind, ListType) and (is_.is_list(source) or is_.is_large_list(source)):
        return _type_differences(source.value_type, kind.element, f"{path}.element", case_matters)
    return [f"wrong type: {path!r} is {_shown(source)}, and {type_text(kind)} in the table: cast it"]


def _shown(kind: pa.DataType) -> str:
    """Returns the name of the type as tables call it, or Arrow's name where no column can be of it."""
    try:
        return type_text(from_arrow(kind, itertools.count(1).__next__))
    except InvalidInputError:
        return str(kind)
