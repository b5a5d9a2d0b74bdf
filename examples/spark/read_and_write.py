"""Read a trail on Spark, and write a part of it as a trail of its own."""

from pathlib import Path

import trailgate
from trailgate.spark import session

here = Path.cwd()  # Spark's workers run in other folders
trailgate.capture_files(here / "messages", here / "dirdat/ot", here / "shop.properties")
spark = session("local[2]")

operations = spark.read.format("trail").load(str(here / "dirdat/ot"))
for row in operations.groupBy("table", "op_type").count().orderBy("table", "op_type").collect():
    print(row["table"], row["op_type"], row["count"])

orders = operations.where("table = 'GG.SHOP_ORDERS'")
orders.write.format("trail").mode("append").option("definitions", str(here / "shop.def")).save(
    str(here / "dirdat/so")
)
spark.stop()

print(trailgate.read_trail(here / "dirdat/so").read_all().num_rows, "operations of orders")
