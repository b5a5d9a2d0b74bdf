"""Apply a trail to tables with Spark: tasks read and fold the trail, the driver merges and commits.

A batch of the trail is cut into splits. Each task reads one and folds its operations to at most
three per key, which it returns as Arrow columns (not as Spark rows). The driver joins these and
writes the target. The session needs no support for the target, except with ``merge="session"``.
Only the DataFrame API is used, so it also works over Spark Connect.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, Unpack, get_args

from pyspark.sql import SparkSession

from trailgate.apply.jobs.apply import ApplyRun, Progress, ThreadReading
from trailgate.apply.jobs.options import OPTIONS, ApplyKeywords, ApplyOptions
from trailgate.apply.jobs.reports import ApplyReport
from trailgate.apply.jobs.resolved_options import resolve_apply_options
from trailgate.apply.jobs.split_operations import SplitOperations, SplitWork
from trailgate.apply.targets.target import TARGETS, ApplyTarget, check_mode, has_path
from trailgate.errors import MissingDependencyError, OptionError, TrailgateError
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments, list_names
from trailgate.spark.jobs import run_numbered
from trailgate.spark.sessions import use_session
from trailgate.storage.files.addresses import Address, absolute
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.splits import TrailSplit, files_for_split

# Bytes of the trail for one task: starting a task costs little compared to reading them.
APPLY_TASK_BYTES: Final = 32 << 20
BATCH_BYTES: Final = 1 << 30
Merge = Literal["library", "session"]
# The modules of targets that a session writes. Each has a function ``open_tables``.
SESSION_TARGETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "delta": "trailgate.apply.spark.delta",
        "iceberg": "trailgate.apply.spark.iceberg",
    }
)


@check_arguments
@list_names(ApplyKeywords, OPTIONS)
def apply(
    spark: SparkSession | str,
    trail: Address,
    to: str,
    *,
    definitions: Address | Definitions | None = None,
    progress: Progress | None = None,
    merge: Merge = "library",
    **options: Unpack[ApplyKeywords],
) -> ApplyReport:
    """Apply a trail with Spark, up to its last complete transaction: tasks read it, and the driver or the session writes the target's tables.

    The options, errors and guarantees are those of ``trailgate.apply_trail``, and either can
    continue what the other one began. A batch is 1 GiB of the trail unless ``batch_bytes`` is set.

    With ``merge="session"`` the session merges rows into Delta tables instead of this process, for
    tables that are too large for one process. The session needs Delta for that. While it merges,
    settings of the session name Delta's application transaction, so nothing else may write Delta
    tables with this session. Raises ApplyError if the session cannot merge. ``to`` may also be
    ``iceberg:CATALOG``, a catalog of the session.
    """
    given = ApplyOptions(**OPTIONS.read(options))
    with (
        use_session(spark) as running,
        ApplyRun(
            absolute(trail),
            to,
            given,
            definitions=definitions,
            reading=TaskReading(spark=running),
            open_target=_session_opener(running, to, given, merge),
        ) as run,
    ):
        return run.to_end(progress)


def _session_opener(
    spark: SparkSession, to: str, options: ApplyOptions, merge: Merge
) -> Callable[[], ApplyTarget] | None:
    """Return a function that opens the target that the session writes. Return None if the target's own library writes it."""
    scheme, _, rest = to.partition(":")
    if merge not in get_args(Merge):
        raise OptionError(f"merge must be 'library' or 'session', not {merge!r}")
    if merge == "library" and (scheme != "iceberg" or has_path(to)):
        return None
    if scheme not in SESSION_TARGETS or not rest or (scheme == "iceberg" and has_path(to)):
        raise OptionError(
            f"merge='session' supports only Delta tables and catalogs of the session, such as delta:lake/ and iceberg:prod, not {to}"
        )
    given = resolve_apply_options(options).options
    check_mode(to, given.mode)
    try:
        module: Any = importlib.import_module(SESSION_TARGETS[scheme])
    except ModuleNotFoundError as error:
        problem = f"{scheme}: needs the package {error.name}"
        raise MissingDependencyError.of_extra(problem, TARGETS[scheme].extra) from None
    return partial(module.open_tables, rest, given.group, spark)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReading(ThreadReading):
    """Reads the splits of a batch of apply in Spark tasks, one split each, which also fold the operations."""

    spark: SparkSession
    split_bytes: int = APPLY_TASK_BYTES
    fold_rows: int | None = 0
    batch_bytes: int = BATCH_BYTES

    def run(self, work: SplitWork, splits: Sequence[TrailSplit]) -> Iterable[SplitOperations]:
        """Read splits of the trail in Spark tasks and yield their results in order.

        Raises the error of the earliest split that failed.
        """
        parts = [(files_for_split(work.trail, split), split) for split in splits]
        # the definitions are sent once, with the task; the files come with each part
        bare = replace(work, trail=replace(work.trail, files=()))
        return _raise_errors(run_numbered(self.spark, parts, _Task(bare)))


@dataclass(frozen=True, slots=True)
class _Task:
    """The work of a Spark task of apply: reading one split of the trail.

    Each part contains the files that it needs; the definitions are sent once, with the task.
    """

    work: SplitWork

    def __call__(
        self, _: int, part: tuple[TrailFiles, TrailSplit]
    ) -> SplitOperations | TrailgateError:
        # Errors are returned, because Spark would retry a task that raises.
        files, split = part
        trail = replace(files, definitions=self.work.trail.definitions)
        try:
            return replace(self.work, trail=trail).read(split)
        except TrailgateError as error:
            return error


def _raise_errors(reports: Iterable[SplitOperations | TrailgateError]) -> Iterator[SplitOperations]:
    for report in reports:
        if isinstance(report, TrailgateError):
            raise report
        yield report
