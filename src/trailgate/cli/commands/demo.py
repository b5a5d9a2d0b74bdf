"""``trailgate demo``: capture, show and query the sample messages, and print the command of each step."""

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

from trailgate.cli.capture_output import print_notes, print_summary
from trailgate.errors import OptionError, install_command
from trailgate.options import Flag
from trailgate.sql.command import command as sql
from trailgate.terminal.flags import takes
from trailgate.terminal.output import progress_bar, say

PROPERTIES = "dirprm/shop.properties"
MESSAGES = "messages"
TRAIL = "dirdat/ot"
ON_SPARK = "dirdat/sp"  # the trail captured on Spark
CAPTURE = f"trailgate capture --properties {PROPERTIES} --from {{}} --update-befores"
FIRST = f"{MESSAGES}/000[1-3]*"  # the messages captured and applied first
APPLIED, APPLIED_ON_SPARK = "dirdat/rt", "dirdat/sr"  # the trails that grow by two batches
LAKE, DATABASE = "delta:lake/", "duckdb:shop.duckdb"
STATEMENT = "SELECT CUST_CODE, NAME, CITY FROM 'dirdat/ot:GG.JMSCAP_TCUSTMER' WHERE _op_type = 'I'"
ROWS = 13  # the operations shown of the trail
MARK = ".trailgate-demo"  # this file marks a folder that the next demo may replace


@takes
def command(
    *,
    dir: Annotated[Path, Flag("FOLDER"), "The folder to unpack the sample to."] = Path("demo"),  # noqa: A002  the option's name
    master: Annotated[str, Flag("MASTER"), "Where Spark runs."] = "local[2]",
    spark: Annotated[
        bool,
        Flag(name="--spark/--no-spark"),
        "Afterwards do the same on Spark, if it is installed.",
    ] = True,
    only_spark: Annotated[bool, "Run only the part on Spark."] = False,
) -> None:
    """Capture the sample messages into a trail, show it and query it, then the same on Spark."""
    unpack(dir)
    if not only_spark:
        _say(f"# The sample is in {dir}: messages, their definitions and properties.")
        _step(f"cd {shlex.quote(str(dir))}")
    with contextlib.chdir(dir):
        if not only_spark:
            _capture_and_show()
            if _is_installed("duckdb"):
                _query(STATEMENT)
                _apply_twice(APPLIED, LAKE if _is_installed("deltalake") else DATABASE)
            else:
                _say(f"\n# DuckDB is not installed. SQL and tables: {install_command('duckdb')}")
        if spark and not _is_installed("pyspark"):
            _say(f"\n# PySpark is not installed. The same on Spark: {install_command('spark')}")
        elif spark:
            _run_on_spark(master, apply=only_spark)
    if not only_spark:
        _say("\n# Next: the same commands with messages, or a trail, of your own.")


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _capture_and_show() -> None:
    from trailgate.cli import show_rows
    from trailgate.storage.reading.trails import read_trail
    from trailgate.terminal.batches import print_table

    _step(f"{CAPTURE.format(MESSAGES)} --to {TRAIL}")
    _capture(MESSAGES, TRAIL, None)
    _step(f"trailgate show {TRAIL} --limit {ROWS}")
    print_table(read_trail(TRAIL), ROWS, show_rows.OPERATIONS)


def _apply_twice(trail: str, target: str, session: Any = None, master: str = "") -> None:
    """Capture and apply the first messages, then the rest, and query a table after each step."""
    from trailgate.cli.companion_apply import apply_captured

    on_spark = f" --master '{master}'" if master else ""
    _say("\n# A table follows its messages: capture and apply some of them, then the rest.")
    for source in (FIRST, MESSAGES):
        named = source if source == MESSAGES else f"'{source}'"
        _step(f"{CAPTURE.format(named)} --to {trail} --apply {target}{on_spark}")
        _capture(source, trail, session)
        apply_captured(trail, target, as_json=False)
        table = f"'{target.rstrip('/')}/gg/jmscap_tcustmer'"
        _query(f"SELECT cust_code, name, city FROM {table} ORDER BY 1")  # noqa: S608  the demo's own name


def _query(statement: str) -> None:
    _step(f'trailgate sql "{statement}"')
    sql(statement)


def _run_on_spark(master: str, *, apply: bool) -> None:
    from trailgate.spark import register, session

    _say("\n# The same on Spark, which takes some seconds to start.")
    running = session(master, app="trailgate demo")
    register(running)
    try:
        _step(f"{CAPTURE.format(MESSAGES)} --to {ON_SPARK} --master '{master}'")
        _capture(MESSAGES, ON_SPARK, running)
        _read_back(running)
        if apply and _is_installed("duckdb") and _is_installed("deltalake"):
            _apply_twice(APPLIED_ON_SPARK, LAKE, running, master)
    finally:
        running.stop()


def _capture(source: str, target: str, session: Any) -> None:
    from trailgate.cli.commands import capture as capturing
    from trailgate.jobs.capture.job import capture_loaded
    from trailgate.jobs.capture.loading import load_with_notes, override_rules
    from trailgate.jobs.capture.options import CaptureArguments
    from trailgate.storage.writing.trail_location import location_of

    given = CaptureArguments(update_befores=True)
    loaded = override_rules(load_with_notes(PROPERTIES), given)
    print_notes(loaded)
    with progress_bar("capturing", show=session is None) as progress:
        runner = capturing.runner_of(session, progress)
        summary = capture_loaded(loaded, given, source, location_of(target), runner)
    print_summary(summary)


def _read_back(session: Any) -> None:
    _step(
        f'spark.read.format("trail").load("{ON_SPARK}")'
        '.groupBy("table", "op_type").count().orderBy("table", "op_type").show()'
    )
    # Spark may run in another folder, so it needs the absolute path.
    frame = session.read.format("trail").load(str(Path(ON_SPARK).absolute()))
    frame.groupBy("table", "op_type").count().orderBy("table", "op_type").show(truncate=False)


def unpack(folder: Path) -> None:
    """Copy the sample messages of the demo into a folder.

    The folder of an earlier demo is replaced. Any other folder must be empty.
    """
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
