"""Data frames compared with a table: columns matched by name as Spark matches them, differences refused.

Invariant: names are compared as the session compares them (``spark.sql.caseSensitive``); a frame that is
passed on has the table's names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import NullType, StructType

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Field
from lakehouse.spark.runtime.types import schema_of
from lakehouse.storage.rows import column_differences

__all__ = ["by_name", "column", "fitted", "is_classic", "refuse_differences"]


def column(name: str) -> Column:
    """Returns the column of that name, whatever characters are in it."""
    return sf.col("`" + name.replace("`", "``") + "`")


def by_name(df: DataFrame) -> Callable[[str], str | None]:
    """Returns a function that finds the frame's name of a column; None where the frame has no such column."""
    case_matters = _case_matters(df)
    named = {name if case_matters else name.casefold(): name for name in df.columns}
    return lambda name: named.get(name if case_matters else name.casefold())


def _case_matters(df: DataFrame) -> bool:
    return str(df.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"


def is_classic(df: DataFrame) -> bool:
    """Returns whether the frame's session runs in this process's JVM, and not behind Spark Connect."""
    return hasattr(df, "_jdf")


def refuse_differences(
    struct: StructType, fields: Sequence[Field], name: str, *, case_matters: bool = False
) -> None:
    """Refuses a frame whose rows cannot be rows of a table.

    Raises:
        InvalidInputError: says of every column what is wrong with it.
    """
    # A column of nulls alone has no type that a table knows, and fits that of every column.
    nothing = {field.name for field in struct.fields if isinstance(field.dataType, NullType)}
    typed = StructType([field for field in struct.fields if field.name not in nothing])
    known = iter(schema_of(typed))
    columns = [
        pa.field(field.name, pa.null()) if field.name in nothing else next(known) for field in struct.fields
    ]
    differences = column_differences(columns, fields, case_matters=case_matters)
    if differences:
        raise InvalidInputError(
            f"the rows do not fit {name}:\n  " + "\n  ".join(differences), differences=differences
        )


def fitted(df: DataFrame, fields: Sequence[Field], name: str) -> DataFrame:
    """Returns the frame with the columns that the table has, under its names.

    Raises:
        InvalidInputError: as :func:`refuse_differences`.
    """
    refuse_differences(df.schema, fields, name, case_matters=_case_matters(df))
    named = by_name(df)
    pairs = [(named(field.name), field.name) for field in fields]
    return df.select(*(column(given).alias(wanted) for given, wanted in pairs if given is not None))
