"""Run as a program in a folder: the stream sink with a fault at every step of writing, committing and aborting a batch, then the batch again.

A step is what the system is asked for below the folder: each open, write, sync, rename, removal, cut and listing. A fault is a
kill, an error of that step alone, or of it and all that follow it until the batch is given again. Steps are seen by audit hooks and
by what stands in for the calls that have none. Prints the number of steps that were tried, of all that there are with TRAILGATE_EVERY (``laws.sampled``).
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from laws import sampled
from sample_trail import DEFINITIONS, NOTES, Op, changes
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import TrailgateError
from trailgate.jobs.trail_check import check_trail
from trailgate.model.operations_table import to_operations
from trailgate.spark.trail_sink import TrailStreamWriter, trail_stream_writer
from trailgate.storage.reading.trails import read_trail
from trailgate.storage.writing.segments import SegmentWriter

AUDITED: Final = frozenset(
    [
        "open",
        "os.rename",
        "os.remove",
        "os.mkdir",
        "os.rmdir",
        "os.truncate",
        "os.listdir",
        "os.scandir",
        "shutil.rmtree",
    ]
)
KILL, ONCE, ON = "kill", "once", "on"  # kinds of faults
TRIED: Final = 45  # faults of a batch, of about 250
IN_ABORT: Final = range(
    1, 13
)  # steps after a failed one at which the process is killed: those of its abort
SOURCE: Final = [
    [Op("I", 1)],
    [Op("I", 2), Op("U", 2, "new", "old"), Op("I", 3, None, table=NOTES)],
    [Op("I", 4), Op("I", 5), Op("I", 6)],
    [Op("D", 6)],
]
ROWS: Final = to_operations(changes(SOURCE))
BATCHES: Final = ((0, 1, 3), (3, 4, 6), (6, 7, 8))  # ends of two parts, inside transactions
SCHEMA: Final = from_arrow_schema(ROWS.schema)


class Fault:
    """Strikes at a step that concerns a folder; ``part`` of a write is done then."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.kind, self.at, self.steps = ONCE, 0, 0
        self.killed_at = 0
        sys.addaudithook(self._audit)
        self._replace(os, "fsync", lambda *_: True)
        self._replace(os, "ftruncate", lambda *_: True)
        self._replace(os, "pwrite", lambda *_: True, cut=1)
        self._replace(SegmentWriter, "_write", lambda *_: True, cut=1)

    def _replace(
        self, owner: Any, name: str, concerns: Callable[..., bool], cut: int | None = None
    ) -> None:
        real = getattr(owner, name)

        def called(*given: Any) -> Any:
            if concerns(*given) and self._is_struck():
                if cut is not None:
                    data = memoryview(given[cut])[: len(given[cut]) // 2]
                    real(*given[:cut], data, *given[cut + 1 :])
                self._strike()
            return real(*given)

        setattr(owner, name, called)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in AUDITED and str(arguments[0]).startswith(self.folder) and self._is_struck():
            self._strike()

    def _is_struck(self) -> bool:
        self.steps += 1
        if self.steps == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return bool(self.at) and (
            self.steps == self.at or (self.kind == ON and self.steps > self.at)
        )

    def _strike(self) -> None:
        if self.kind == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def writer_in(folder: Path) -> TrailStreamWriter:
    options = {"path": str(folder / "ot"), "definitions": str(folder / "x.def"), "maxBytes": "1200"}
    return trail_stream_writer(options, SCHEMA)


def task(number: int, part: int, attempt: int) -> None:
    """Let this process be a task of a batch, as Spark's workers are."""
    context: Any = TaskContext._getOrCreate()
    context._localProperties = {
        "sql.streaming.queryId": "q",
        "streaming.sql.batchId": str(number),
    }
    context._partitionId, context._taskAttemptId = part, attempt


def parts_of(number: int) -> Iterator[pa.RecordBatch]:
    begin = BATCHES[number][0]
    for end in (BATCHES[number][1], BATCHES[number][2]):
        yield ROWS.slice(begin, end - begin)
        begin = end


def given(folder: Path, number: int, attempt: int) -> None:
    """Write and commit a batch; where that fails abort it, as Spark does, and raise."""
    messages: list[Any] = []
    try:
        for part, rows in enumerate(parts_of(number)):
            task(number, part, attempt)
            messages.append(None)
            messages[-1] = writer_in(folder).write(iter([rows]))
        writer_in(folder).commit(messages, number)
    except (OSError, TrailgateError):
        writer_in(folder).abort(messages, number)
        raise


def begun(folder: Path, batches: int) -> None:
    """Make a folder whose trail has some batches."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "x.def").write_bytes(write_sourcedefs(DEFINITIONS))
    for number in range(batches):
        given(folder, number, 0)


def state(folder: Path) -> tuple[list[Any], list[str]]:
    """Return the operations of the trail, and the names of what is in the folder."""
    rows = [row for batch in read_trail(folder / "ot") for row in batch.to_pylist()]
    for row in rows:
        del row["position"]  # files may be cut at other places
    return rows, sorted(path.name for path in folder.iterdir())


def is_whole(folder: Path) -> bool:
    """Return whether a check finds nothing wrong; a transaction that is open at the end is."""
    return check_trail(str(folder / "ot")).whole


def died_or_failed(
    folder: Path, number: int, kind: str, at: int, killed_at: int = 0
) -> tuple[bool, int]:
    """Give a batch in a process of its own; return whether the fault came, and the steps that were done."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        fault = Fault(folder)
        fault.kind, fault.at, fault.killed_at = kind, at, killed_at
        failed = False
        try:
            given(folder, number, 1)
        except (OSError, TrailgateError):
            failed = True
        fault.at = 0
        os.write(writing, b"failed" if failed else f"{fault.steps}".encode())
        os._exit(0)
    os.close(writing)
    status = os.waitpid(child, 0)[1]
    with os.fdopen(reading) as file:
        said = file.read()
    assert status in (0, signal.SIGKILL), status
    return status != 0 or said == "failed", int(said) if said.isdigit() else 0


def main(folder: Path) -> None:
    total = 0
    for number in range(len(BATCHES)):
        begun(folder, number + 1)
        expected, whole = state(folder), is_whole(folder)
        begun(folder, number)
        before = folder.with_name("before")
        shutil.rmtree(before, ignore_errors=True)
        shutil.copytree(folder, before)
        _, steps = died_or_failed(folder, number, ONCE, 0)
        assert steps > 20
        faults = [(kind, at, 0) for kind in (KILL, ONCE, ON) for at in range(1, steps + 1)]
        faults += [(ONCE, at, at + more) for at in (steps // 2, steps - 2) for more in IN_ABORT]
        faults = sampled(faults, TRIED, f"batch {number}")
        for kind, at, killed_at in faults:
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
            died_or_failed(folder, number, kind, at, killed_at)
            given(folder, number, 2)
            found = state(folder)
            assert found == expected, (number, kind, at, killed_at, found[1], expected[1])
            assert at % 5 or is_whole(folder) == whole, (number, kind, at)
        total += len(faults)
    sys.stdout.write(f"{total} faults\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() / "work")
