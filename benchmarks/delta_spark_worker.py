"""Delta on Spark in a process of its own, by the peers' Python.

Its tables are directories of the bucket, reached by Hadoop's S3A. It answers what
:mod:`benchmarks.spark_worker` answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.spark_session_worker import SparkWorker, local_session_config
from benchmarks.worker import serve


class _Delta(SparkWorker):
    _root: str

    def connect(self, bucket: str, options: Mapping[str, Any], memory: str, jars: Sequence[str]) -> None:
        # Only the environment of this worker has this version.
        from pyspark.sql import SparkSession

        s3a = "spark.hadoop.fs.s3a"
        config = {
            **local_session_config(memory),
            "spark.driver.extraClassPath": ":".join(jars),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # As Delta's own guide has it for small tables: the default is for a cluster.
            "spark.databricks.delta.snapshotPartitions": "2",
            f"{s3a}.endpoint": options["endpoint_url"],
            f"{s3a}.endpoint.region": options.get("client_kwargs", {}).get("region_name", "us-east-1"),
            f"{s3a}.access.key": options["key"],
            f"{s3a}.secret.key": options["secret"],
            f"{s3a}.path.style.access": "true",
            f"{s3a}.connection.ssl.enabled": "false",
        }
        builder = SparkSession.builder.appName("delta").master("local[2]")
        for key, value in config.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self._root = f"s3a://{bucket}/delta"

    def table(self, name: str, columns: list[str] | None, *, filtered: bool = False) -> Any:
        return self.spark.read.format("delta").load(f"{self._root}/{name}")

    def write(self, name: str, path: str, options: Mapping[str, str]) -> None:
        """A table of the rows, in one commit."""
        writer = self.source(path).write.format("delta").mode("overwrite")
        writer.options(**options).save(f"{self._root}/{name}")

    def upsert(self, name: str, path: str) -> None:
        """Replaces rows by key and adds the others."""
        self.merge(f"delta.`{self._root}/{name}`", path)

    def compact(self, name: str) -> None:
        """Puts small files together."""
        self.spark.sql(f"OPTIMIZE delta.`{self._root}/{name}`")

    def held(self, name: str) -> list[int]:
        """Rows, files and bytes."""
        [row] = self.spark.sql(f"DESCRIBE DETAIL delta.`{self._root}/{name}`").collect()
        return [self.table(name, None).count(), int(row.numFiles), int(row.sizeInBytes)]


async def main() -> None:
    """Answers until nobody asks any more."""
    await serve(_Delta().commands("connect", "write", "upsert", "compact", "held"))


if __name__ == "__main__":
    asyncio.run(main())
