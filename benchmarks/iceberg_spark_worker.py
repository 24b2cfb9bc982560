"""Iceberg on Spark in a process of its own, by the peers' Python.

Its catalog is a SQLite file beside the process, its files are in the bucket. (``InMemoryCatalog`` would
keep these in memory too: it takes no ``io-impl``.) It answers what :mod:`benchmarks.spark_worker` answers.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.spark_session_worker import SparkWorker, local_session_config
from benchmarks.worker import serve


class _Iceberg(SparkWorker):
    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="lakehouse-iceberg-")

    def connect(self, bucket: str, options: Mapping[str, Any], memory: str, jars: Sequence[str]) -> None:
        # Only the environment of this worker has this version.
        from pyspark.sql import SparkSession

        catalog = "spark.sql.catalog.lake"
        config = {
            **local_session_config(memory),
            "spark.driver.extraClassPath": ":".join(jars),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            f"{catalog}.uri": f"jdbc:sqlite:{self._place.name}/catalog.db",
            f"{catalog}.jdbc.schema-version": "V1",
            f"{catalog}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            f"{catalog}.warehouse": f"s3://{bucket}/iceberg",
            f"{catalog}.s3.endpoint": options["endpoint_url"],
            f"{catalog}.s3.access-key-id": options["key"],
            f"{catalog}.s3.secret-access-key": options["secret"],
            f"{catalog}.s3.path-style-access": "true",
            f"{catalog}.client.region": options.get("client_kwargs", {}).get("region_name", "us-east-1"),
        }
        builder = SparkSession.builder.appName("iceberg").master("local[2]")
        for key, value in config.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")

    def stop(self) -> None:
        super().stop()
        self._place.cleanup()

    def table(self, name: str, columns: list[str] | None, *, filtered: bool = False) -> Any:
        return self.spark.table(f"lake.bench.{name}")

    def write(self, name: str, path: str, options: Mapping[str, str]) -> None:
        """A new table of the rows, in one commit."""
        writer = self.source(path).writeTo(f"lake.bench.{name}").using("iceberg")
        for key, value in options.items():
            writer = writer.tableProperty(key, value)
        writer.createOrReplace()

    def write_by_key(self, name: str, path: str, buckets: int) -> None:
        """A new table of the rows by buckets of the key, sorted by it."""
        from pyspark.sql.functions import partitioning

        rows, table = self.source(path), f"lake.bench.{name}"
        empty = rows.limit(0).writeTo(table).using("iceberg")
        empty.partitionedBy(partitioning.bucket(buckets, "id")).createOrReplace()
        self.spark.sql(f"ALTER TABLE {table} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id")
        rows.writeTo(table).append()

    def upsert(self, name: str, path: str) -> None:
        """Replaces rows by key and adds the others."""
        self.merge(f"lake.bench.{name}", path)

    def compact(self, name: str) -> None:
        """Writes all data files anew."""
        self.spark.sql(
            f"CALL lake.system.rewrite_data_files(table => 'bench.{name}', "
            "options => map('rewrite-all', 'true'))"
        )

    def write_star(self, name: str, path: str, turn: str) -> str:
        """A new table of the rows in 200 partitions of two specs, and its directory.

        Ten days before ``turn`` by ten buckets, then, after the spec has changed, twenty days by five.
        """
        from pyspark.sql.functions import partitioning

        rows, table = self.source(path), f"lake.bench.{name}"
        by = (partitioning.days("day"), partitioning.bucket(10, "customer"))
        rows.limit(0).writeTo(table).using("iceberg").partitionedBy(*by).createOrReplace()
        rows.where(f"day < DATE '{turn}'").writeTo(table).append()
        self.spark.sql(
            f"ALTER TABLE {table} REPLACE PARTITION FIELD bucket(10, customer) WITH bucket(5, customer)"
        )
        rows.where(f"day >= DATE '{turn}'").writeTo(table).append()
        [row] = self.spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").collect()
        return str(row["data_type"])

    def star_join(self, name: str, folder: str) -> list[Any]:
        """Rows of gold customers on holidays, by Spark's own planning of the two joins."""
        for dim in ("customers", "calendar"):
            self.source(f"{folder}/{dim}").createOrReplaceTempView(dim)
        [row] = self.spark.sql(
            f"SELECT count(*), sum(amount) FROM lake.bench.{name} fact "
            "JOIN customers ON fact.customer = customers.customer "
            "JOIN calendar ON fact.day = calendar.day WHERE tier = 'gold' AND holiday"
        ).collect()
        return [int(row[0]), f"{row[1]:.6g}"]

    def held(self, name: str) -> list[int]:
        """Rows, files and bytes; rows that deletes hide count."""
        [row] = self.spark.sql(
            "SELECT sum(record_count), count(*), sum(file_size_in_bytes) "
            f"FROM lake.bench.{name}.files WHERE content = 0"
        ).collect()
        return [int(value) for value in row]


async def main() -> None:
    """Answers until nobody asks any more."""
    names = ("connect", "write", "write_by_key", "write_star", "star_join", "upsert", "compact", "held")
    await serve(_Iceberg().commands(*names))


if __name__ == "__main__":
    asyncio.run(main())
