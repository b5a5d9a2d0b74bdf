"""The examples of the pages that need a Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from test_pages import PAGES, as_on_one_machine, blocks, given, needs_spark, replayed


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if any(map(needs_spark, blocks(path.read_text())))],
    ids=lambda path: path.stem,
)
def test_the_examples_print_what_a_page_shows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    page = path.read_text()

    with as_on_one_machine():
        given(path)
        assert replayed(page, {"spark": spark}) == page
