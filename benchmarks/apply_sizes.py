"""One batch of changes into Delta and Iceberg tables of several sizes: by one process, by the driver of Spark, and by the session.

The figures are seconds of all processors' time, of Spark and of its Python processes too: other programs on the machine change them less than time by the clock. The start of the session is not counted, and each way has changed a small table before.

Each format exists for one version of Spark, which is fetched once (``tests/spark/other_spark.py``). The session has two cores and 3 GB of memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks.apply_targets import TABLE, TARGET, draw_changes, draw_rows
from benchmarks.report import Figure, load, processor_seconds
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import trailgate.spark
from spark.other_spark import DELTA, ICEBERG, ROOT, environment_of
from trailgate import ApplyReport, TrailAppender, apply_trail
from trailgate.apply.targets.iceberg import PROPERTIES
from trailgate.apply.targets.iceberg_catalogs import CATALOG_FILE, FOLDER_CATALOG
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Definitions
from trailgate.spark import session

ROWS: Final = (1_000_000, 10_000_000)
CHANGES: Final = (10_000, 100_000)
WARM: Final = 100_000  # rows
ONE_PROCESS: Final = "one process"


def run(*, quick: bool) -> list[Figure]:
    """Return a row for each format, table and batch, and way by Spark."""
    figures: list[Figure] = []
    for name in LAKES:
        with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
            figures += _compare(name, folder, ROWS[:1] if quick else ROWS)
    return figures


def _compare(name: str, folder: str, sizes: Sequence[int]) -> Iterator[Figure]:
    """Yield the ways by the PySpark of a format, each beside one process."""
    command = [sys.executable, "-m", "benchmarks.apply_sizes", name, folder, *map(str, sizes)]
    environment = environment_of(*LAKES[name].spark)
    beside = 0.0
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            one = json.loads(line)
            seconds = float(one["processor"])
            if one["way"] == ONE_PROCESS:
                beside = seconds
                continue
            table = f"{name}: {one['changes']:,} changes of {one['rows'] / 1e6:g} M rows"
            yield Figure(f"{table}, {one['way']}", seconds, "s of processors", ONE_PROCESS, beside)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")


@dataclass(frozen=True, slots=True)
class Lake:
    """A table format: its PySpark, the session's settings for a folder, the addresses, and what fills a table.

    ``fill`` returns a function that restores the filled rows.
    """

    spark: tuple[str, ...]
    settings: Callable[[str], Mapping[str, str]]
    to: str
    by_session: str
    fill: Callable[[str, str, int], Callable[[], object]]


def _delta_settings(_: str) -> Mapping[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
    }


def _fill_delta(folder: str, name: str, rows: int) -> Callable[[], object]:
    path = f"{folder}/{name.replace('.', '/')}"
    for part in draw_rows(rows):
        write_deltalake(path, part, mode="append")
    version = DeltaTable(path).version()
    return lambda: DeltaTable(path).restore(version)


def _iceberg_settings(folder: str) -> Mapping[str, str]:
    catalog = f"spark.sql.catalog.{FOLDER_CATALOG}"
    return {
        # A driver of JDBC is found only among the JVM's own classes.
        "spark.driver.extraClassPath": os.environ["SESSION_JARS"].replace(",", os.pathsep),
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/{CATALOG_FILE}",
        f"{catalog}.warehouse": f"file://{folder}",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.cache-enabled": "false",  # the other ways change the tables too
    }


def _fill_iceberg(folder: str, name: str, rows: int) -> Callable[[], object]:
    """Create a table with the properties that apply gives its own."""
    uri = f"sqlite:///{folder}/{CATALOG_FILE}"
    catalog = SqlCatalog(FOLDER_CATALOG, uri=uri, warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    table = catalog.create_table(name, TARGET.schema, properties=PROPERTIES)
    for part in draw_rows(rows):
        table.append(part)
    snapshot = table.metadata.current_snapshot_id
    assert snapshot is not None

    def restore() -> None:
        catalog.load_table(name).manage_snapshots().set_current_snapshot(snapshot).commit()

    return restore


LAKES: Final = {
    "Delta": Lake(DELTA, _delta_settings, "delta:{}", "delta:{}", _fill_delta),
    "Iceberg": Lake(
        ICEBERG, _iceberg_settings, "iceberg:{}", f"iceberg:{FOLDER_CATALOG}", _fill_iceberg
    ),
}


def _write_trail(prefix: Path, name: str, rows: int, changes: int) -> None:
    table = replace(TABLE, name=name.upper())
    block = replace(draw_changes(rows, changes), table=table)
    with TrailAppender(str(prefix), Definitions((table,))) as trail:
        trail.append(ChangeBatch([block], changes))
        trail.commit("all")


def main(name: str, folder: str, *sizes: str) -> None:
    """Print the time of each way as a line of JSON, for tables of each number of rows."""
    lake = LAKES[name]
    settings = {
        "spark.jars": os.environ["SESSION_JARS"],
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "8",
        **lake.settings(folder),
    }
    spark = session("local[2]", "trailgate-benchmarks", **settings)
    to, by_session = lake.to.format(folder), lake.by_session.format(folder)
    ways: dict[str, Callable[..., ApplyReport]] = {
        ONE_PROCESS: lambda trail, **more: apply_trail(trail, to, **more),
        "tasks read, the driver writes": lambda trail, **more: trailgate.spark.apply(
            spark, trail, to, **more
        ),
        "the session merges": lambda trail, **more: trailgate.spark.apply(
            spark, trail, by_session, merge="session", **more
        ),
    }
    for rows in (WARM, *map(int, sizes)):
        table = f"shop.rows{rows}"
        restore = lake.fill(folder, table, rows)
        for changes in CHANGES[:1] if rows == WARM else CHANGES:
            trail = Path(folder, f"of{rows}and{changes}")
            _write_trail(trail, table, rows, changes)
            for number, (way, act) in enumerate(ways.items()):
                measured = _measure(partial(act, trail, group=f"of{rows}and{changes}by{number}"))
                if rows != WARM:
                    stated = {"rows": rows, "changes": changes, "way": way}
                    print(json.dumps({**stated, **measured}), flush=True)
                restore()
    spark.stop()


def _measure(act: Callable[[], ApplyReport]) -> dict[str, Any]:
    """Return the processors' time and the time by the clock, and the machine's load."""
    before, began = processor_seconds(), time.perf_counter()
    act()
    used, taken = processor_seconds() - before, time.perf_counter() - began
    return {"processor": round(used, 2), "clock": round(taken, 2), "load": load()}


if __name__ == "__main__":
    main(*sys.argv[1:])
