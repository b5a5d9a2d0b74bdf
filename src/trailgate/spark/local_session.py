"""A local Spark session with our defaults, for the command line, the demo and the tests.

Sessions that users make themselves are never touched.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from trailgate.errors import OptionError
from trailgate.spark.jre import spark_java_home

# What Spark's masters look like; it would end the process for another one, with a page of text.
MASTER: Final = re.compile(
    r"local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]|yarn|(spark|k8s)://\S+"
)
LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
# Spark prints a remark where the level of this one is not said and the same.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# A failed task is an exception of the driver as well, and reported there.
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.scheduler.name = org.apache.spark.scheduler
logger.scheduler.level = off
logger.writing.name = org.apache.spark.sql.execution.datasources.v2
logger.writing.level = off
"""


def session(master: str = "local[*]", app: str = "trailgate", **conf: str) -> SparkSession:
    """Return a session: quiet, in UTC, workers on this Python, Java found or brought along.

    Raises OptionError for a master that Spark does not know.
    """
    if not MASTER.fullmatch(master):
        hint = "As local[2], local-cluster[2,1,1024], spark://HOST:7077, yarn or k8s://HOST"
        raise OptionError(f"{master!r} is not a master of Spark", hint=hint)
    os.environ["JAVA_HOME"] = str(spark_java_home())
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in {**_defaults(_scratch()), **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _defaults(scratch: Path) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_logging(scratch)}",
        # Halves what a Python task costs to start.
        "spark.python.unix.domain.socket.enabled": "true",
        # Each row that goes to Python takes time in proportion to the rows of its batch before it, 10,000 by default.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _scratch() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="trailgate-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _logging(scratch: Path) -> Path:
    path = scratch / "log4j2.properties"
    path.write_text(LOGGING)
    return path
