"""A trail applied to tables by Spark: tasks read the splits of a batch and fold their operations, the driver joins these and commits.

What tasks send is at most three operations a key and split, in Arrow's columns, and not rows of Spark's. The target needs nothing of the session. Only the DataFrame API is used, so a session
over Spark Connect will do; the target is written where the call is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, Unpack, get_args

from pyspark.sql import SparkSession

from trailgate.apply.jobs.apply import ApplyRun, Progress, Reading
from trailgate.apply.jobs.options import OPTIONS, ApplyKeywords, ApplyOptions
from trailgate.apply.jobs.parameters import mapped_options
from trailgate.apply.jobs.reading import SplitRead, SplitWork
from trailgate.apply.jobs.tables import ApplyReport
from trailgate.apply.targets.target import TARGETS, Target, check_mode
from trailgate.errors import MissingDependencyError, OptionError, TrailgateError
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments, list_names
from trailgate.spark.jobs import on_session, run_numbered
from trailgate.spark.trail import AHEAD
from trailgate.storage.files.addresses import Address, absolute
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.splits import TrailSplit

SPLIT_BYTES: Final = 32 << 20
BATCH_BYTES: Final = 1 << 30
Merge = Literal["library", "session"]
# Modules of targets that a session writes, each with a class ``SessionTarget`` of an address, a group and a session.
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
    """Apply what a trail has, up to its last whole transaction, to the tables of a target; return what was done.

    The options, the errors and what is promised are those of ``trailgate.apply_trail``, and either continues where the other one ended. A batch is 1 GiB of the trail unless ``batch_bytes`` states it.

    With ``merge="session"`` the session, which needs Delta for this, merges rows into Delta tables, and not this process: for tables too large for it. While it merges, settings of the session name
    Delta's application transaction, so nothing else may write Delta tables by it meanwhile. Raises ApplyError where it cannot merge. ``to`` may also be ``iceberg:CATALOG``, a catalog of the session.
    """
    given = ApplyOptions(**OPTIONS.read(options))
    with (
        on_session(spark) as running,
        ApplyRun(
            absolute(trail),
            to,
            given,
            definitions=definitions,
            reading=TaskReading(spark=running),
            target=_target(running, to, given, merge),
        ) as run,
    ):
        return run.to_end(progress)


def _target(spark: SparkSession, to: str, options: ApplyOptions, merge: Merge) -> Target | None:
    """Return the target where the session merges; None where the target's own library does."""
    scheme, _, rest = to.partition(":")
    if merge not in get_args(Merge):
        raise OptionError(f"merge is 'library' or 'session', and not {merge!r}")
    if merge == "library" and scheme != "iceberg":
        return None
    if scheme not in SESSION_TARGETS or not rest:
        raise OptionError(f"merge='session' is about Delta tables, as delta:lake/, and not {to}")
    given = mapped_options(options).options
    check_mode(to, given.mode)
    try:
        module: Any = importlib.import_module(SESSION_TARGETS[scheme])
    except ModuleNotFoundError as error:
        problem = f"{scheme}: needs the package {error.name}"
        raise MissingDependencyError.of_extra(problem, TARGETS[scheme].extra) from None
    target: Target = module.SessionTarget(rest, given.group, spark)
    return target


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReading(Reading):
    """Splits read by tasks, one each, which fold what they read."""

    spark: SparkSession
    split_bytes: int = SPLIT_BYTES
    fold_rows: int | None = 0
    batch_bytes: int = BATCH_BYTES

    def run(self, work: SplitWork, splits: Sequence[TrailSplit]) -> Iterable[SplitRead]:
        """Yield what each split has; raises the error of the earliest one that has any."""
        parts = [
            (work.trail.window(split.start.number, split.end.number + AHEAD).undefined(), split)
            for split in splits
        ]
        bare = replace(work, trail=replace(work.trail, files=()))
        return _raising(run_numbered(self.spark, parts, _Task(bare)))


@dataclass(frozen=True, slots=True)
class _Task:
    """What a task does: the files that it needs come with its part, the definitions with all."""

    work: SplitWork

    def __call__(self, _: int, part: tuple[TrailFiles, TrailSplit]) -> SplitRead | TrailgateError:
        files, split = part
        trail = replace(files, definitions=self.work.trail.definitions)
        try:
            return replace(self.work, trail=trail).read(split)
        except TrailgateError as error:
            return error


def _raising(reports: Iterable[SplitRead | TrailgateError]) -> Iterator[SplitRead]:
    for report in reports:
        if isinstance(report, TrailgateError):
            raise report
        yield report
