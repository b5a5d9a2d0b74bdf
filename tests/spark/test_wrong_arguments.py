"""Wrong arguments of every public function on Spark: each is an error of ours, a TypeError, or one of PySpark's about its own argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import trailgate.spark as functions
from capture_place import Place, row
from sample_trail import Op, write_trail
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
    "read_records": lambda spark, path: {
        "spark": spark,
        "path": f"{path}/data",
        "copybook_text": COPYBOOK,
    },
    "verify_records": lambda spark, path: {
        "spark": spark,
        "path": f"{path}/data",
        "copybook_text": COPYBOOK,
    },
    "record_counts": lambda spark, _: {"spark": spark},
    "capture": lambda spark, path: {
        "frame": spark.createDataFrame([("x",)], "body string"),
        "properties": f"{path}/p.properties",
    },
    "publish": lambda _, path: {"source": f"{path}/ot", "definitions": f"{path}/ot.def"},
    "read_trail": lambda spark, path: {"spark": spark, "path": f"{path}/ot"},
    "read_messages": lambda spark, path: {
        "spark": spark,
        "path": f"{path}/messages",
        "properties": f"{path}/p.properties",
    },
    "apply": lambda spark, path: {
        "spark": spark,
        "trail": f"{path}/ot",
        "to": f"duckdb:{path}/new",
        "dry_run": True,
    },
    "capture_runner": lambda spark, _: {"spark": spark},
    "register": lambda spark, _: {"spark": spark},
    "session": lambda _, __: {"master": "local[1]"},
}
# Passed as text these name a master, and a session with it is begun; a function that is passed is called.
NOT_TRIED: Final = {"spark", "app", "conf", "runner", "progress", "counts", "options"}


def test_every_public_function_is_tried() -> None:
    assert set(CALLS) == set(functions.__all__)


@pytest.mark.spark
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_an_error_of_ours(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.write(row(1))
    write_trail(tmp_path / "ot", [[[Op("I", 1)]]])
    (tmp_path / "data").write_bytes("0102".encode("cp037"))
    good = CALLS[name](spark, str(tmp_path))
    function = getattr(functions, name)
    own = [one for one in inspect.signature(function).parameters if one not in NOT_TRIED]
    faults = []
    for parameter in [*own, *(["spark"] if "spark" in good else [])]:
        for kind, wrong in WRONG.items():
            arguments = {**good, parameter: wrong}
            if parameter == "copybook":
                del arguments["copybook_text"]
            if parameter in ("spark", "master") and isinstance(wrong, str):
                continue  # the name of a master
            try:
                function(**arguments)
            except (TrailgateError, TypeError, PySparkException):
                continue
            except Exception as error:  # noqa: BLE001  any other is a fault
                faults.append(f"{parameter}={kind}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)
