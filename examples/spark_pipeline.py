# %% [markdown]
# # A pipeline on Spark
#
# Events are ingested, the devices that sent them are a dimension that is upserted, a stream keeps totals by
# device, and the tables are compacted, queried, and read as they were. All of it on nothing but a bucket:
#
#     python examples/spark_pipeline.py s3://bucket/warehouse

# %%
"""A pipeline on Spark: events, a dimension, a stream of totals, compaction, queries, time travel."""

import os
import sys
import tempfile

from pyspark.sql import functions as sf

import lakehouse.spark
import lakehouse.sync

warehouse = os.environ.get("WAREHOUSE") or (sys.argv[1:2] or [f"file://{tempfile.mkdtemp()}/warehouse"])[0]
events_per_day = int(os.environ.get("EVENTS", "50000"))

spark = lakehouse.spark.session("pipeline")
lakehouse.spark.register(spark, warehouse)
with lakehouse.sync.connect(warehouse) as lake:
    lake.create_database("plant", if_not_exists=True)

# %% [markdown]
# ## Ingest
#
# Three days of events go into a table without a key, one partition for each day. A sequence for each day
# makes the job safe to run again: a day that is there is not written twice.


# %%
def events_of(day):
    """What devices sent on a day; every thousandth event has no value."""
    numbers = spark.range(events_per_day)
    return numbers.select(
        (sf.col("id") + sf.lit(day * events_per_day)).alias("event"),
        (sf.col("id") * 7919 % 200).alias("device"),
        sf.expr(f"date '2026-03-0{day + 1}'").alias("day"),
        sf.when(sf.col("id") % 1000 != 0, sf.round(20 + 5 * sf.sin("id"), 3)).alias("celsius"),
    )


lakehouse.spark.write(events_of(0).limit(0), "plant.events").create(partition_by="day")
for day in (0, 1, 2, 2):  # the last day arrives twice
    done = lakehouse.spark.write(events_of(day), "plant.events").append(writer=("loader", day + 1))
    print(f"day {day}: {done}")
assert lakehouse.spark.count(spark, "plant.events") == 3 * events_per_day

# %% [markdown]
# ## Upsert a dimension
#
# Devices have a key. What is known of them changes: half of them get another place, and some are new.

# %%
devices = spark.range(200).selectExpr("id AS device", "concat('hall ', id % 4) AS place", "1 AS revision")
lakehouse.spark.write(devices, "plant.devices").create(primary_key="device", bucket=2)
moved = spark.range(100, 220).selectExpr("id AS device", "concat('hall ', id % 7) AS place", "2 AS revision")
before = lakehouse.spark.write(moved.limit(0), "plant.devices").upsert().snapshot
print(lakehouse.spark.write(moved, "plant.devices").upsert(message="the move of March"))
assert lakehouse.spark.count(spark, "plant.devices") == 220

# %% [markdown]
# ## Stream
#
# A query follows the events and keeps totals by device. It is started twice, as after a crash: with its
# checkpoint, every event counts once.

# %%
checkpoint = tempfile.mkdtemp()
totals = lakehouse.spark.table(spark, "plant.events").groupBy("device").agg(sf.count("*").alias("events"))
lakehouse.spark.write(totals.limit(0), "plant.totals").create(
    primary_key="device", options={"merge_engine": "aggregation", "fields.events.aggregate": "sum"}
)


def run_stream():
    """Takes in what is there, and ends."""
    incoming = spark.readStream.format("lakehouse").load("plant.events")
    counted = incoming.select("device", sf.lit(1).cast("long").alias("events"))
    query = lakehouse.spark.write_stream(
        counted, "plant.totals", checkpoint=checkpoint, operation="upsert", trigger={"availableNow": True}
    )
    query.awaitTermination()


run_stream()
lakehouse.spark.write(events_of(3), "plant.events").append(writer=("loader", 4))
run_stream()
[counted] = lakehouse.spark.table(spark, "plant.totals").agg(sf.sum("events")).first()
assert counted == 4 * events_per_day, counted

# %% [markdown]
# ## Compact
#
# Every write added files. Compaction merges them, beside readers and writers, and no snapshot reads
# differently.

# %%
for name in ("plant.events", "plant.devices", "plant.totals"):
    print(name, lakehouse.spark.compact(spark, name, full=True))

# %% [markdown]
# ## Query
#
# A view reads the columns it was made with. The join collects the devices of one hall first, and reads of the
# events only what may be theirs.

# %%
lakehouse.spark.create_view(spark, "events", "plant.events", columns=["device", "day", "celsius"])
spark.sql("SELECT day, count(celsius), avg(celsius) FROM events GROUP BY day ORDER BY day").show()
hall = lakehouse.spark.table(spark, "plant.devices", where="place = 'hall 6'")
warm = lakehouse.spark.join(spark, "plant.events", hall, on="device", columns=["device", "celsius"])
warm.groupBy("place").agg(sf.max("celsius").alias("warmest")).show()

# %% [markdown]
# ## Travel
#
# The devices as they were before the move, and what the move changed.

# %%
then = lakehouse.spark.table(spark, "plant.devices", version=before)
now = lakehouse.spark.table(spark, "plant.devices")
assert (then.count(), now.count()) == (200, 220)
changes = lakehouse.spark.table(spark, "plant.devices", incremental_from=before)
changes.groupBy("_change").count().show()
lakehouse.spark.table(spark, "plant.devices", relation="snapshots").select(
    "snapshot", "kind", "message"
).show()
