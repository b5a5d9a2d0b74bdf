"""Another PySpark than the one that is installed, with jars of table formats that are built for it: tests run there by a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from brokers.real_brokers import FETCH_SECONDS, copied_jars, unpacked
from laws import WHOLE

ROOT: Final = Path(__file__).parents[2]
# A version of PySpark, and the jars of a table format that is built for it.
DELTA: Final = ("4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
ICEBERG: Final = (
    "4.1.1",
    "org.xerial:sqlite-jdbc:3.54.1.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
OWN: Final = ("SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def pyspark_folder(version: str) -> Path:
    """Return a folder that has a PySpark to be found before the installed one; skips the test where it cannot be had."""
    with unpacked(f"pyspark-{version}") as (folder, target):
        if not folder.exists():
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
            options = ["--quiet", "--no-deps", "--no-compile", "--target", str(target)]
            done = subprocess.run(
                [*command, *options, f"pyspark=={version}"],
                capture_output=True,
                text=True,
                check=False,
                timeout=FETCH_SECONDS,
            )
            if done.returncode:
                reason = done.stderr.strip().splitlines()[-1:]
                pytest.skip(f"no PySpark {version}: pip cannot install it: {reason}")
            target.rename(folder)
    return folder


def environment_of(version: str, *coordinates: str) -> dict[str, str]:
    """Return the environment of a process that has another PySpark; ``SESSION_JARS`` are the jars for its session."""
    jars = copied_jars(*coordinates)
    path = [pyspark_folder(version), ROOT / "src", ROOT / "tests"]
    inherited = {name: value for name, value in os.environ.items() if name not in OWN}
    return inherited | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "SESSION_JARS": ",".join(map(str, sorted(jars.glob("*.jar")))),
        "SESSION_SPARK": version,
        "PYSPARK_PYTHON": sys.executable,
    }


def run_tests(file: str, version: str, *coordinates: str, **variables: str) -> None:
    """Run the tests of a file beside this one by another PySpark and with jars; fails where one of them does."""
    # Options of this run are for plugins that the other one does not load.
    environment = environment_of(version, *coordinates) | {"PYTEST_ADDOPTS": ""} | variables
    options = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:randomly",
        "--durations=20",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(Path(__file__).with_name(file))],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=3600 if WHOLE else 850,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
