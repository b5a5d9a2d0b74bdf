"""Apply the operations that ``trailgate capture --apply`` has captured: after the capture, or between the batches of a live one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from trailgate.apply.commands.apply import ApplyArguments, apply
from trailgate.apply.commands.follow import PAUSE
from trailgate.apply.commands.output import print_batch
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.metrics import (
    ApplyStatistics,
    apply_metric_labels,
    format_apply_metrics,
    try_measure_lag,
)
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.reports import ApplyReport
from trailgate.apply.targets.target import check_address, check_mode
from trailgate.cli.companions import explain_options
from trailgate.errors import TargetUnavailableError
from trailgate.jobs.retries import LOG, Retries
from trailgate.live.commands.output import LiveOutput
from trailgate.storage.files.trail_files import find_begun_trail
from trailgate.terminal.output import log_to_stderr


class CompanionApply:
    """Applies the operations that a live capture publishes, at most every ``PAUSE`` seconds.

    If the target does not work, the capture continues, and the next attempt is made later.
    """

    def __init__(self, trail: str, to: str, output: LiveOutput) -> None:
        self._trail, self._to, self._output = trail, to, output
        self._run: ApplyRun | None = None
        self._due, self._waits = time.monotonic(), False
        self._retries = Retries(lasting=True)
        self._labels = apply_metric_labels(trail, to, ApplyOptions().group)
        self.statistics = ApplyStatistics()

    def published(self, new: bool) -> None:
        """Apply the operations that the live capture has published, if it is time to do so.

        That is ``PAUSE`` seconds after the last success, or after a failure when the next retry is
        due. ``new`` means that operations were published since the last call.
        """
        # Remember that there are new operations until the pause is over.
        self._waits |= new
        if not self._waits or time.monotonic() < max(self._due, self._retries.due):
            return
        try:
            self._apply()
        except TargetUnavailableError as error:
            self._retries.record_fault(error)
        else:
            self._retries.record_success()
        self._measure()

    def finish(self) -> None:
        """Apply all operations that are left, after the live capture has ended.

        Raises TargetUnavailableError if the target does not work now.
        """
        try:
            self._apply()
            if self._run is not None and self._run.notices and not self._output.is_viewed:
                notices = ApplyReport(notices=self._run.notices)
                print_batch(notices, {}, as_json=self._output.as_json)
        finally:
            self.close()

    def close(self) -> None:
        """Close the target of the companion apply."""
        if self._run is not None:
            self._run.close()

    def text(self) -> str:
        """Return the metrics of the companion apply in the format of Prometheus."""
        return format_apply_metrics(self.statistics, self._labels)

    def _apply(self) -> None:
        # There is no trail as long as all messages are bad or belong to an open transaction.
        if self._run is None and find_begun_trail(self._trail) is None:
            return
        with explain_options("apply", self._trail, self._to):
            self._apply_trail()

    def _apply_trail(self) -> None:
        if self._run is None:
            # Retries.none(): the capture must not wait for the target. A failure is retried by a
            # later call of ``published``.
            self._run = ApplyRun(self._trail, self._to, ApplyOptions(), retries=Retries.none())
        for report in self._run.batches():
            self.statistics = self.statistics.with_batch(report)
            if not self._output.is_viewed:
                print_batch(report, self._retries.faults, as_json=self._output.as_json)
        self._run.release()
        self._due, self._waits = time.monotonic() + PAUSE, False

    def _measure(self) -> None:
        self.statistics = self.statistics.with_target(self._retries)
        if self._output.metrics is not None and self._run is not None:
            self.statistics = self.statistics.with_lag(
                try_measure_lag(self._run.lag_bytes), self._run.position
            )


@contextmanager
def apply_beside(trail: str, to: str, output: LiveOutput) -> Iterator[CompanionApply]:
    """Yield a ``CompanionApply`` for a live capture. When the block ends, apply the rest.

    If the capture fails, the rest is not applied.
    """
    log_to_stderr(LOG)
    beside = CompanionApply(trail, to, output)
    try:
        yield beside
        beside.finish()
    except BaseException:
        beside.statistics = beside.statistics.with_failure()
        beside.close()
        raise


def check_apply(trail: str, to: str) -> None:
    """Check the address of ``--apply`` without opening the target. Raises OptionError, StorageError or MissingDependencyError."""
    with explain_options("apply", trail, to):
        check_address(to)
        check_mode(to, ApplyOptions().mode)


def apply_captured(trail: str, to: str, *, as_json: bool) -> None:
    """Apply the operations that ``trailgate capture --apply`` has just written to a trail, and print the result.

    Does nothing if there is no trail, because the capture wrote no operation.
    """
    if find_begun_trail(trail) is None:
        return
    with explain_options("apply", trail, to):
        apply(ApplyArguments(target=to, as_json=as_json), trail)
