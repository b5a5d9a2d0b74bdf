"""Wrong arguments of functions on Spark that take records: each is an error of ours, a TypeError, or one of PySpark's about its own argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import trailgate.spark as functions
from trailgate import TrailgateError

COPYBOOK: Final = "01 R. 05 A PIC 9(2)."
WRONG: Final[Mapping[str, Any]] = {
    "None": None,
    "a number": 3,
    "a truth value": True,
    "an object": object(),
    "an empty text": "",
    "a text with a zero byte": "a\0b",
    "bytes": b"x",
    "a path": Path("/nowhere/at/all"),
    "numbers": [3],
    "rows": [{"A": 1}],
    "a mapping": {"A": 1},
}
# Each function with good arguments, of which each one is replaced by wrong ones.
CALLS: Final[Mapping[str, Callable[[SparkSession, str], dict[str, Any]]]] = {
    "decode_copybook": lambda _, __: {"column": "value", "copybook_text": COPYBOOK},
    "read_records": lambda spark, path: {"spark": spark, "path": path, "copybook_text": COPYBOOK},
    "verify_records": lambda spark, path: {"spark": spark, "path": path, "copybook_text": COPYBOOK},
    "record_counts": lambda spark, _: {"spark": spark},
    "capture": lambda spark, _: {"frame": spark.range(1)},
}


@pytest.mark.spark
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_an_error_of_ours(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes("0102".encode("cp037"))
    good = CALLS[name](spark, str(tmp_path / "data"))
    faults = []
    for parameter in [*good, *({"copybook": None} if "copybook_text" in good else {})]:
        for kind, wrong in WRONG.items():
            arguments = {**good, parameter: wrong}
            if parameter == "copybook":
                del arguments["copybook_text"]
            if parameter == "spark" and wrong in ("", "a\0b"):
                continue  # the name of a master
            try:
                getattr(functions, name)(**arguments)
            except (TrailgateError, TypeError, PySparkException):
                continue
            except Exception as error:  # noqa: BLE001  any other is a fault
                faults.append(f"{parameter}={kind}: {type(error).__name__}: {error}")
    assert faults == []
