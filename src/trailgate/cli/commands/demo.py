"""``trailgate demo``: capture, show and read the sample messages, each step with its command."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
import shutil
import sys
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import typer

from trailgate.cli.capture_output import print_notes, print_summary
from trailgate.cli.output import say
from trailgate.errors import OptionError, install_command
from trailgate.storage.files.durable import lock

PROPERTIES = "dirprm/shop.properties"
MESSAGES = "messages"
TRAIL = "dirdat/ot"
ROWS = 13  # of the trail that the demo shows
MARK = ".trailgate-demo"  # a folder with this file is replaced by the next demo


def command(
    *,
    dir: Annotated[  # noqa: A002  the option's name
        Path, typer.Option(metavar="FOLDER", help="Where the sample is unpacked.")
    ] = Path("demo"),
    master: Annotated[str, typer.Option(metavar="MASTER", help="Where Spark runs.")] = "local[2]",
    spark: Annotated[bool, typer.Option(help="Run on Spark, if it is installed.")] = True,
) -> None:
    """Capture the sample messages into a trail and show it."""
    unpack(dir)
    _say(f"# The sample is in {dir}: messages, their definitions and properties.")
    on_spark = spark and importlib.util.find_spec("pyspark") is not None
    if spark and not on_spark:
        _say(f"# PySpark is not installed, so this runs in one process: {install_command('spark')}")
    _step(f"cd {shlex.quote(str(dir))}")
    with contextlib.chdir(dir):
        _walk(master if on_spark else None)


def _walk(master: str | None) -> None:
    from trailgate.cli import trail_output
    from trailgate.cli.rows import print_table
    from trailgate.storage.reading.trails import read_trail

    with _session(master) as session:
        _step(
            f"trailgate capture --properties {PROPERTIES} --from {MESSAGES} --to {TRAIL} --update-befores"
            + (f" --master '{master}'" if master else "")
        )
        _capture(session)
        _step(f"trailgate show {TRAIL} --limit {ROWS}")
        print_table(read_trail(TRAIL), ROWS, trail_output.OPERATIONS)
        if session is not None:
            _read_back(session)
    _say("\n# Next: a capture of your own with the same two commands.")


@contextlib.contextmanager
def _session(master: str | None) -> Any:
    """Yield a Spark session, or None."""
    if master is None:
        yield None
        return
    from trailgate.spark import register, session

    running = session(master, app="trailgate demo")
    register(running)
    try:
        yield running
    finally:
        running.stop()


def _capture(session: Any) -> None:
    from trailgate.cli.commands import capture as capturing
    from trailgate.jobs.capture.job import prepare
    from trailgate.jobs.capture.loading import load

    loaded = capturing.with_rules(load(PROPERTIES), full=False, befores=True, full_deletes=False)
    print_notes(loaded)
    with lock(TRAIL):
        job = prepare(loaded.capture, MESSAGES, TRAIL)
        print_summary(capturing.run(job, session))


def _read_back(session: Any) -> None:
    _step(
        f'spark.read.format("trail").load("{TRAIL}")'
        '.groupBy("table", "op_type").count().orderBy("table", "op_type").show()'
    )
    # Spark may run in another folder: it needs the whole path.
    frame = session.read.format("trail").load(str(Path(TRAIL).absolute()))
    frame.groupBy("table", "op_type").count().orderBy("table", "op_type").show(truncate=False)


def unpack(folder: Path) -> None:
    """Copy the sample into a folder; the folder of an earlier demo is replaced, others are refused."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise OptionError(f"{folder} is not empty", hint="Name another folder: --dir FOLDER")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    sample = resources.files("trailgate") / "samples"
    for part in ("dirprm", "dirdef", MESSAGES):
        _copy(sample / part, folder / part)
    (folder / "dirdat").mkdir()


def _copy(source: Traversable, target: Path) -> None:
    target.mkdir()
    for entry in source.iterdir():
        if entry.is_file():
            (target / entry.name).write_bytes(entry.read_bytes())


def _step(text: str) -> None:
    _say(f"\n$ {text}" if not text.startswith("spark.") else f"\n>>> {text}")


def _say(text: str) -> None:
    if text.startswith("\n"):
        print()
    say(text.lstrip("\n"))
    sys.stdout.flush()
