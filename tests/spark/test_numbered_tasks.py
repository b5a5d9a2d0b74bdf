"""Numbered work on Spark: one task a number, and workers that start the next one quickly."""

from __future__ import annotations

import gc
import os

from pyspark.sql import SparkSession

from trailgate.spark.jobs import run_numbered

COUNT = 8


def test_work_is_done_once_a_part_and_given_in_order(spark: SparkSession) -> None:
    done = run_numbered(spark, "abcdefgh", lambda number, part: part * number)

    assert done == ["", "b", "cc", "ddd", "eeee", "fffff", "gggggg", "hhhhhhh"]


def test_modules_are_collected_as_garbage_after_no_task_but_the_first(spark: SparkSession) -> None:
    found = run_numbered(spark, range(COUNT), lambda *_: (os.getpid(), gc.get_freeze_count()))
    exempt: dict[int, list[int]] = {}
    for worker, count in found:
        exempt.setdefault(worker, []).append(count)

    assert len(exempt) < COUNT, "Spark uses its workers again"
    assert any(counts[-1] > 0 for counts in exempt.values())
