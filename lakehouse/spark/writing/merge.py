"""Merges: a frame compared with a table row by row, and what is done where rows meet and where not.

::

    done = (
        lakehouse.spark.write(changes, "sales.orders")
        .merge(on="id")
        .when_matched_delete("source.op = 'delete'")
        .when_matched_update({"amount": "source.amount", "seen": "target.seen + 1"})
        .when_not_matched_insert("source.op <> 'delete'")
        .run()
    )

Conditions and values are SQL text or Spark columns over ``source.…`` and ``target.…``. Of the clauses
of a kind the first that holds is taken, as in SQL. Two rows of the source that would change or insert the
same key are an error that names it, whatever their order.

On the primary key nothing is joined: rows of the source go to the tasks that would write them, and these
look their keys up, reading only what may hold them. Other conditions join with the table. A merge that
updates and inserts whole rows on the primary key is an upsert and reads nothing.

Invariant: the table is afterwards as if the merge had run alone, at the snapshot before the one it makes;
when others commit rows of the same range of keys meanwhile, it is run again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Engine, TableSchema, children
from lakehouse.spark.reading.frames import by_name, column, fitted, refuse_differences
from lakehouse.spark.reading.table_frame import table
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.types import arrow_for_spark, spark_type, struct_of
from lakehouse.spark.writing.commit import WriteBase, WriteRequest, refuse_lost_columns
from lakehouse.spark.writing.job import run_write
from lakehouse.spark.writing.merge_lookup import SOURCE, TARGET, LookupJob, beside_target
from lakehouse.spark.writing.shuffle import ShuffledRows, shuffled, spread, tasks_of
from lakehouse.spark.writing.task import ACTION, DELETE, NOTHING, PUT
from lakehouse.storage.tables import CommitResult, View
from lakehouse.storage.write import WriterId
from lakehouse.suggest import suggestion

__all__ = ["Merge", "Said"]

Said: TypeAlias = "str | Column"
"""SQL text, or a column of Spark."""
_Kind = Literal["update", "delete", "insert"]
_When = Literal["matched", "not matched", "not matched by source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clause:
    """A clause: when it applies, and what it does then."""

    when: _When
    does: _Kind
    condition: Said | None = None
    values: Mapping[str, Said] | None = None
    """Values by column; None = all columns that the source has."""

    def says(self) -> Iterator[Said]:
        """Yields its expressions."""
        if self.condition is not None:
            yield self.condition
        yield from (self.values or {}).values()


class Merge:
    """A merge under construction, which :meth:`run` executes. Made by ``write(df, …).merge(on=…)``."""

    def __init__(
        self,
        df: DataFrame,
        name: str,
        connection: Connection,
        on: str | Sequence[str] | Column,
        *,
        tasks: int | None = None,
        clauses: tuple[_Clause, ...] = (),
    ) -> None:
        self._df, self._name, self._connection, self._on = df, name, connection, on
        self._tasks, self._clauses = tasks, clauses

    def when_matched_update(
        self, values: Mapping[str, Said] | None = None, condition: Said | None = None
    ) -> Merge:
        """Sets columns, by name; None = all that the source has but for the key, which stays."""
        return self._with(when="matched", does="update", values=values, condition=condition)

    def when_matched_delete(self, condition: Said | None = None) -> Merge:
        """Deletes the row."""
        return self._with(when="matched", does="delete", condition=condition)

    def when_not_matched_insert(
        self, condition: Said | None = None, values: Mapping[str, Said] | None = None
    ) -> Merge:
        """Adds a row of these values; None = the source's. Columns that are left out have their default."""
        return self._with(when="not matched", does="insert", values=values, condition=condition)

    def when_not_matched_by_source_update(
        self, values: Mapping[str, Said], condition: Said | None = None
    ) -> Merge:
        """Sets columns of rows that no row of the source meets."""
        return self._with(when="not matched by source", does="update", values=values, condition=condition)

    def when_not_matched_by_source_delete(self, condition: Said | None = None) -> Merge:
        """Deletes rows that no row of the source meets."""
        return self._with(when="not matched by source", does="delete", condition=condition)

    def run(self, *, writer: WriterId | None = None, message: str | None = None) -> CommitResult:
        """Merges, in one commit; ``writer=(id, sequence)`` makes it safe to repeat."""
        if not self._clauses:
            raise InvalidInputError("a merge needs a clause, such as when_matched_update()")
        return self.run_as(WriteRequest(operation="merge", writer=writer, message=message))

    def run_as(self, wanted: WriteRequest) -> CommitResult:
        """Merges for a write that was asked for: with its writer, message and trace, if it leaves one."""
        lake = warehouse(self._connection)
        table = lake.table(self._name)
        view = lake.call(table.known)
        on_key = self._is_on_key(view.schema)
        if on_key and self._is_upsert(view.schema):
            # No condition and whole rows: what is there does not matter.
            upsert = dataclasses.replace(wanted, operation="upsert")

            def upserted(base: WriteBase) -> ShuffledRows:
                rows = fitted(self._df, base.schema.fields, self._name)
                refuse_lost_columns(upsert, base.schema, rows.columns)
                return shuffled(rows, base.schema, tasks=self._tasks, ties=False)

            return run_write(self._name, self._connection, upsert, upserted, unique=True)
        wanted = dataclasses.replace(wanted, whole_table=not on_key)

        def rows(base: WriteBase) -> ShuffledRows:
            self._check(base.schema)
            if on_key:
                return ShuffledRows(rows=self._acted(self._beside(base), base.schema))
            acted = self._acted(self._joined(base), base.schema)
            kept = acted.where(sf.col(ACTION) != NOTHING)
            return shuffled(kept, base.schema, tasks=self._tasks, ties=False)

        return run_write(self._name, self._connection, wanted, rows)

    def _with(self, **clause: Any) -> Merge:
        clauses = (*self._clauses, _Clause(**clause))
        return Merge(self._df, self._name, self._connection, self._on, tasks=self._tasks, clauses=clauses)

    # --- what was said ------------------------------------------------------------

    def _names(self, schema: TableSchema) -> list[str] | None:
        """Returns the columns to compare; None = a condition was given."""
        if isinstance(self._on, Column):
            return None
        given = [self._on] if isinstance(self._on, str) else list(self._on)
        known = {field.name.casefold(): field.name for field in schema.fields}
        if given and all(name.casefold() in known for name in given):
            return [known[name.casefold()] for name in given]
        if isinstance(self._on, str):
            return None  # SQL text that is no column's name
        unknown = [name for name in given if name.casefold() not in known] or [""]
        raise InvalidInputError(
            f"{self._name} has no column {unknown[0]!r} to merge on; {suggestion(unknown[0], known.values())}"
        )

    def _is_on_key(self, schema: TableSchema) -> bool:
        names = self._names(schema)
        by_source = any(clause.when == "not matched by source" for clause in self._clauses)
        return names is not None and set(names) == set(schema.primary_key) and not by_source

    def _is_upsert(self, schema: TableSchema) -> bool:
        """Returns whether whole rows replace what there is, or are new, without condition."""
        kinds = {(clause.when, clause.does) for clause in self._clauses}
        has = {name.casefold() for name in self._df.columns}
        return (
            len(self._clauses) == len(kinds) == 2
            and kinds == {("matched", "update"), ("not matched", "insert")}
            and all(clause.condition is None and clause.values is None for clause in self._clauses)
            and has == {field.name.casefold() for field in schema.fields}
            and not schema.merging.is_mergeable
        )

    def _check(self, schema: TableSchema) -> None:
        merging = schema.merging
        if merging.engine is not Engine.DEDUPLICATE:
            raise InvalidInputError(
                f"{self._name} merges rows of a key by itself (engine {merging.engine}): use upsert()"
            )
        if merging.ignores_deletes and any(clause.does == "delete" for clause in self._clauses):
            raise InvalidInputError(f"{self._name} ignores deletes (option 'ignore_delete')")
        known = [field.name for field in schema.fields]
        for clause in self._clauses:
            for name in clause.values or ():
                if name not in known:
                    raise InvalidInputError(f"{self._name} has no column {name!r}; {suggestion(name, known)}")
                if clause.does == "update" and name in schema.primary_key:
                    raise InvalidInputError(
                        f"column {name!r} is part of the primary key, which an update cannot change: delete "
                        "the row and insert another"
                    )
            if clause.values is None and clause.does == "insert":
                refuse_differences(self._of_table(schema), schema.fields, self._name)

    def _of_table(self, schema: TableSchema) -> StructType:
        """Returns the columns of the source that the table has; others are for conditions."""
        known = {field.name.casefold() for field in schema.fields}
        return StructType([field for field in self._df.schema.fields if field.name.casefold() in known])

    # --- rows of both sides -------------------------------------------------------

    def _beside(self, base: WriteBase) -> DataFrame:
        """Returns rows of the source beside the table's of their keys, in the tasks that will write them."""
        schema = base.schema
        lake = warehouse(self._connection)
        table = lake.table(self._name)
        view: View = lake.call(table.view_of, base.snapshot)
        entries = lake.call(view.entries)
        mine = by_name(self._df)
        missing = [name for name in schema.primary_key if mine(name) is None]
        if missing:
            raise InvalidInputError(f"the source has no column {missing[0]!r} to merge on")
        keys = [column(mine(name) or name).alias(name) for name in schema.primary_key]
        refuse_differences(self._df.select(*keys).schema, schema.key_fields, self._name)
        source = sf.struct(*(column(name) for name in self._df.columns)).alias(SOURCE)
        size = sum(entry.size for entry in entries)
        rows = spread(
            self._df.select(source, *keys), schema, tasks=self._tasks, least=tasks_of(size), ties=False
        )
        columns = self._needed(schema)
        target = StructType([field for field in struct_of(schema).fields if field.name in columns])
        out = StructType([rows.schema[SOURCE], StructField(TARGET, target)])
        job = LookupJob(
            connection=self._connection,
            name=self._name,
            table=table.uuid,
            entries=tuple(dataclasses.replace(entry, stats={}) for entry in entries),
            schema=schema,
            shows=view.shows,
            columns=tuple(target.fieldNames()),
            target=arrow_for_spark(out).field(TARGET),
        )

        def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from beside_target(job, batches)

        return rows.mapInArrow(each, out)

    def _joined(self, base: WriteBase) -> DataFrame:
        """Joins the rows of both sides in Spark."""
        schema = base.schema
        spark = self._df.sparkSession
        rows = table(spark, self._name, connection=self._connection, version=base.snapshot.id)
        source = self._df.select(sf.struct(*(column(name) for name in self._df.columns)).alias(SOURCE))
        target = rows.select(sf.struct(*(column(name) for name in rows.columns)).alias(TARGET))
        names = self._names(schema)
        if names is None:
            condition = _expr(self._on if isinstance(self._on, Column) else str(self._on))
        else:
            mine = by_name(self._df)
            condition = sf.lit(True)
            for name in names:
                there = mine(name)
                if there is None:
                    raise InvalidInputError(f"the source has no column {name!r} to merge on")
                condition &= sf.col(SOURCE)[there] == sf.col(TARGET)[name]
        by_source = any(clause.when == "not matched by source" for clause in self._clauses)
        return source.join(target, condition, "full_outer" if by_source else "left_outer")

    def _needed(self, schema: TableSchema) -> list[str]:
        """Returns the table's columns that the clauses need: the key's alone, where none speaks of others."""
        names = {field.name for field in schema.fields}
        # A column too many costs time, one too few would be an error: a mention of the table takes all.
        expressions = " ".join(str(said) for clause in self._clauses for said in clause.says())
        updates = [clause for clause in self._clauses if clause.does == "update"]
        has = {name.casefold() for name in self._df.columns}
        whole = (
            all(clause.values is None for clause in updates) and {name.casefold() for name in names} <= has
        )
        if TARGET not in expressions.casefold() and (whole or not updates):
            return list(schema.primary_key)
        return [field.name for field in schema.fields]

    # --- what becomes of them -----------------------------------------------------

    def _acted(self, both: DataFrame, schema: TableSchema) -> DataFrame:
        """Returns the rows to write, each with what is to be done."""
        there, mine = sf.col(TARGET).isNotNull(), sf.col(SOURCE).isNotNull()
        when = {"matched": mine & there, "not matched": mine & ~there, "not matched by source": ~mine}
        # Branches of "when" are tried in order: the first clause of a kind that holds wins.
        number: Column | None = None
        for place, clause in enumerate(self._clauses):
            holds = when[clause.when]
            if clause.condition is not None:
                # A condition that is null does not hold, and lets the next clause have its turn.
                holds &= sf.coalesce(_expr(clause.condition), sf.lit(False))
            number = sf.when(holds, place) if number is None else number.when(holds, place)
        assert number is not None
        chosen = "__lakehouse_clause"
        rows = both.withColumn(chosen, number)
        columns = [
            self._value(schema, field.name, sf.col(chosen)).cast(spark_type(field.type)).alias(field.name)
            if not children(field.type)
            else self._value(schema, field.name, sf.col(chosen)).alias(field.name)
            for field in schema.fields
        ]
        deletes = [place for place, clause in enumerate(self._clauses) if clause.does == "delete"]
        action = (
            sf.when(sf.col(chosen).isNull(), NOTHING)
            .when(sf.col(chosen).isin(deletes), DELETE)
            .otherwise(PUT)
        )
        return rows.select(*columns, action.alias(ACTION))

    def _value(self, schema: TableSchema, name: str, chosen: Column) -> Column:
        """Returns the value of a column in the rows to write, by the clause that was chosen."""
        mine = by_name(self._df)(name)
        of_source = None if mine is None else sf.col(SOURCE)[mine]
        is_key = name in schema.primary_key
        of_target = sf.col(TARGET)[name] if is_key or name in self._needed(schema) else sf.lit(None)
        cases: Column | None = None
        for place, clause in enumerate(self._clauses):
            value = of_target
            if clause.values is not None:
                if name in clause.values:
                    value = _expr(clause.values[name])
                elif clause.does == "insert":
                    value = sf.lit(schema.field(name).write_default)
            elif clause.does == "insert":
                value = of_source if of_source is not None else sf.lit(schema.field(name).write_default)
            elif clause.does == "update" and not is_key and of_source is not None:
                value = of_source
            cases = sf.when(chosen == place, value) if cases is None else cases.when(chosen == place, value)
        assert cases is not None
        # Rows to which nothing is done keep their keys: a commit must know which keys were looked at.
        return cases.otherwise(of_source) if is_key and of_source is not None else cases


def _expr(said: Said) -> Column:
    return sf.expr(said) if isinstance(said, str) else said
