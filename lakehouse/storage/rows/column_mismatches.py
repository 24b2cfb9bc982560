"""What the columns of rows lack to be those of a table, said of all of them at once and before any row.

Invariant: columns of which nothing is said here are refused, if at all, for what a value is
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
    """What is missing, what is there twice or too many, and which types are wrong; a line for each.

    Args:
        columns: of the rows.
        fields: of the table. Those that may be null or have a default may be missing.
        case_matters: whether names that differ in case are different names.
        of: what lines name the columns after: the path of a struct with its dot.
    """

    def folded(name: str) -> str:
        return name if case_matters else name.casefold()

    by_name: dict[str, list[pa.Field]] = {}
    for column in columns:
        by_name.setdefault(folded(column.name), []).append(column)
    known = {folded(field.name): field for field in fields}
    missing, wrong = [], []
    for name, field in known.items():
        found = by_name.get(name, [])
        if len(found) > 1:
            names = " and ".join(repr(of + one.name) for one in found)
            wrong.append(f"ambiguous: {names} are both {of + field.name!r} of the table")
        elif found:
            wrong += _type_differences(found[0].type, field, of + field.name, case_matters)
        elif field.required and field.write_default is None:
            missing.append(f"missing: {of + field.name!r} ({type_text(field.type)}, which must not be null)")
    extra = []
    for name, found in by_name.items():
        if name not in known:
            like = nearest(found[0].name, [field.name for field in fields])
            hint = f"; the table has {of + like!r}" if like else ""
            extra.append(f"extra: {of + found[0].name!r} ({_shown(found[0].type)}){hint}")
    return [*missing, *extra, *wrong]


def _type_differences(source: pa.DataType, field: Field, path: str, case_matters: bool) -> list[str]:
    is_, kind = pa.types, field.type
    if not children(kind):
        if may_fit(source, kind):
            return []
    elif is_.is_null(source):
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
    """The type as tables call it, or as Arrow does where no column can be of it."""
    try:
        return type_text(from_arrow(kind, itertools.count(1).__next__))
    except InvalidInputError:
        return str(kind)
