"""Providers as DuckDB reads them, by its private protocol and by datasets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import duckdb
import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError, InternalError, InvalidInputError
from lakehouse.expr import Expr
from lakehouse.sql.providers import ArrowProvider, arrow_dataset, arrow_source
from tests.kit.sql_sources import Batches, Watched, bridge_to_a_loop, read_by

ROWS = pa.table({"k": range(100), "v": [f"v{number % 7}" for number in range(100)]})
Make: TypeAlias = Callable[..., object]


@pytest.fixture(params=[arrow_source, arrow_dataset])
def make(request: pytest.FixtureRequest) -> Make:
    """Each way in which DuckDB reads a provider."""
    made: Make = request.param
    return made


def test_rows_and_columns_arrive(make: Make) -> None:
    """A query sees the provider's columns and rows, and no others."""
    with read_by(make, t=ArrowProvider(ROWS)) as connection:
        found = connection.sql("SELECT * FROM t").to_arrow_table()
    assert found.to_pydict() == ROWS.to_pydict()


def test_a_count_reads_no_column(make: Make) -> None:
    """A query that needs no column asks the provider for none."""
    provider = Watched(ROWS)
    with read_by(make, t=provider) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(100,)]
    assert provider.scans == [([], None)]


def test_two_references_of_a_source_do_not_mix(make: Make) -> None:
    """Each side of a self-join has the rows of its own conditions."""
    with read_by(make, t=ArrowProvider(ROWS)) as connection:
        query = "SELECT a.k, b.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v = 'v1' AND b.k < 10"
        assert sorted(connection.execute(query).fetchall()) == [(1, 0), (8, 7)]


def test_conditions_reach_the_provider() -> None:
    """Conditions that DuckDB pushes are the provider's to apply, and their columns leave the scan."""
    provider = Watched(ROWS)
    with read_by(arrow_source, t=provider) as connection:
        query = "SELECT sum(k) FROM t WHERE k BETWEEN 3 AND 4 AND v <> 'x'"
        assert connection.execute(query).fetchall() == [(7,)]
    assert provider.scans == [(["k"], "(k >= 3) AND (k <= 4) AND (v <> 'x')")]


def test_a_condition_that_the_provider_refuses_stays() -> None:
    """DuckDB applies what the provider does not."""

    class Refusing(Watched):
        def applies(self, where: Expr) -> bool:
            return "v" not in where.columns()

    provider = Refusing(ROWS)
    with read_by(arrow_source, t=provider) as connection:
        assert connection.execute("SELECT k FROM t WHERE k < 9 AND v = 'v1'").fetchall() == [(1,), (8,)]
    assert provider.scans == [(["k", "v"], "k < 9")]


def test_the_estimate_chooses_the_sides_of_a_join() -> None:
    """The side with fewer rows is the one that is built, and so read first."""
    many, few = Watched(ROWS), Watched(ROWS.slice(0, 3))
    many.scans = few.scans
    with read_by(arrow_source, many=many, few=few) as connection:
        connection.execute("SELECT few.v, many.k FROM few JOIN many ON few.v = many.v").fetchall()
    assert [columns for columns, _ in few.scans] == [["v"], ["k", "v"]]


def test_a_limit_ends_the_scan(make: Make) -> None:
    """A scan whose rows are needed no more is closed when the statement has ended."""
    batches = [ROWS.to_batches()[0]] * 1000
    provider = Watched(pa.Table.from_batches(batches))
    with bridge_to_a_loop() as bridge, duckdb.connect(config={"threads": 2}) as connection:
        connection.register("t", make(provider, bridge, bytes_max=4096))
        assert len(connection.execute("SELECT k FROM t LIMIT 10").fetchall()) == 10
    assert (len(provider.scans), provider.ended) == (1, 1)
    assert provider.yielded < 1000


def test_the_first_error_is_kept(make: Make) -> None:
    """What a provider raises is kept as it was, for DuckDB says no more than its text."""

    class Failing(ArrowProvider):
        async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
            async for batch in super().scan(columns, where):
                yield batch
                raise CorruptionError("torn", key="data/1")

    with bridge_to_a_loop() as bridge, duckdb.connect() as connection:
        connection.register("t", make(Failing(ROWS), bridge))
        with pytest.raises((duckdb.Error, OSError, CorruptionError), match="torn"):
            connection.execute("SELECT sum(k) FROM t").fetchall()
        assert isinstance(bridge.error, CorruptionError)


def test_an_ended_statement_leaves_no_scan() -> None:
    """A scan that waits for ever is ended with its statement, and whoever pulls is told."""

    class Endless(Watched):
        async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
            async for batch in super().scan(columns, where):
                yield batch
                asyncio.get_running_loop().call_soon(bridge.cancel)
                await asyncio.Event().wait()

    provider = Endless(ROWS)
    with bridge_to_a_loop() as bridge, duckdb.connect() as connection:
        connection.register("t", arrow_source(provider, bridge))
        with pytest.raises(duckdb.Error, match="has ended"):
            connection.execute("SELECT sum(k) FROM t").fetchall()
    assert provider.ended == 1


def test_columns_that_were_not_asked_for_are_an_error() -> None:
    """A provider that yields other columns is said to be wrong, before DuckDB reads its memory."""

    class Wrong(ArrowProvider):
        async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
            yield pa.record_batch({"k": [1.5]})

    with bridge_to_a_loop() as bridge, duckdb.connect() as connection:
        connection.register("t", arrow_source(Wrong(ROWS), bridge))
        with pytest.raises(duckdb.Error, match="asked for k int64 and yields k double"):
            connection.execute("SELECT k FROM t").fetchall()
        assert isinstance(bridge.error, InternalError)


def test_dictionaries_are_handed_over_as_they_are(make: Make) -> None:
    """A column that is declared encoded stays so, each batch with its own dictionary; to SQL it is text."""
    encoded = pa.chunked_array([pa.array(part).dictionary_encode() for part in (["a", "b"], ["c", None])])
    with read_by(make, t=ArrowProvider(pa.table({"s": encoded}))) as connection:
        assert connection.execute("SELECT s, typeof(s) FROM t WHERE s IS NULL OR s > 'a'").fetchall() == [
            ("b", "VARCHAR"),
            ("c", "VARCHAR"),
            (None, "VARCHAR"),
        ]


def test_encoded_rows_of_a_plain_column_are_decoded() -> None:
    """A batch may be encoded where the column is declared plain."""

    class Encoding(ArrowProvider):
        async def scan(self, columns: Sequence[str], where: Expr | None) -> Batches:
            yield pa.record_batch({"s": pa.array(["a"]).dictionary_encode()})

    with read_by(arrow_source, t=Encoding(pa.table({"s": ["a"]}))) as connection:
        assert connection.execute("SELECT s FROM t").fetchall() == [("a",)]


def test_half_floats_are_widened(make: Make) -> None:
    """Half floats, which DuckDB cannot read, arrive as floats of the same values."""
    table = pa.table({"h": pa.array([1.5, None, float("inf")], pa.float16())})
    with read_by(make, t=ArrowProvider(table)) as connection:
        assert connection.execute("SELECT h FROM t WHERE h > 1").fetchall() == [(1.5,), (float("inf"),)]


@pytest.mark.parametrize(
    "kind", [pa.decimal256(50, 2), pa.list_(pa.float16()), pa.struct({"a": pa.decimal256(50, 2)})]
)
def test_types_that_duckdb_has_not_are_refused(make: Make, kind: pa.DataType) -> None:
    """A column of a type that DuckDB cannot hold is refused by name."""
    with (
        bridge_to_a_loop() as bridge,
        pytest.raises(InvalidInputError, match=r"'wide'.*(decimal256|halffloat)"),
    ):
        make(ArrowProvider(pa.table({"wide": pa.nulls(1, kind)})), bridge)


def test_names_of_columns_may_be_anything(make: Make) -> None:
    """Names with dots and quotes, and our own name for no column, do not meet."""
    table = pa.table({'a"b': [1, 2], "a.b": [3, 4], "Nothing": [5, 6]})
    with read_by(make, t=ArrowProvider(table)) as connection:
        query = 'SELECT * FROM t WHERE "a""b" = 2 AND "a.b" = 4 AND nothing = 6'
        assert connection.execute(query).fetchall() == [(2, 4, 6)]


def test_names_of_other_letters_are_told_apart(make: Make) -> None:
    """DuckDB ignores the case of ASCII's letters and of no others."""
    with read_by(make, t=ArrowProvider(pa.table({"ü": [1], "Ü": [2], "ss": [3], "ß": [4]}))) as connection:
        assert connection.execute('SELECT "ü", "Ü", "ss", "ß" FROM t').fetchall() == [(1, 2, 3, 4)]


def test_names_that_differ_in_case_are_refused(make: Make) -> None:
    """Of columns that DuckDB would take for one another none is read in silence."""
    provider = ArrowProvider(pa.table({"a": [1], "A": [2]}))
    with bridge_to_a_loop() as bridge, pytest.raises(InvalidInputError, match="'a' and 'A' apart"):
        make(provider, bridge)


def test_small_batches_are_joined() -> None:
    """DuckDB pulls batches of thousands of rows, however small those of the provider are."""
    provider = Watched(pa.Table.from_batches(ROWS.to_batches()[0].slice(0, 50) for _ in range(1000)))
    with bridge_to_a_loop() as bridge:
        reader = pa.RecordBatchReader.from_stream(arrow_source(provider, bridge))
        sizes = [batch.num_rows for batch in reader]
    assert sum(sizes) == 50_000
    assert sizes[0] == 50
    assert min(sizes[1:-1]) >= 10_000
