"""What a live capture prints: a line a batch, as JSON or in words, and how it is stopped."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType

from trailgate.cli.output import quiet_pipe
from trailgate.jobs.receive.options import BatchReport
from trailgate.jobs.receive.run import LiveCapture


def print_live(live: LiveCapture, *, as_json: bool) -> None:
    """Run a live capture until it is stopped, and print what each batch did."""
    messages = operations = 0
    _log_brokers()
    with stoppable() as stop:
        for report in live.run(stop.is_asked):
            messages, operations = messages + report.messages, operations + report.operations
            with quiet_pipe():
                print(json.dumps(asdict(report)) if as_json else _sentence(report), flush=True)
    if not as_json:
        print(f"{messages:,} messages, {operations:,} operations", flush=True)
    unfinished = live.unfinished
    if unfinished is not None:
        print(f"note: {unfinished}; its messages are kept for the next start", file=sys.stderr)


def _sentence(report: BatchReport) -> str:
    lag = "" if report.lag_seconds is None else f", {report.lag_seconds:.1f} s old"
    again = f", {report.repeated:,} given again" if report.repeated else ""
    twice = f", {report.duplicates:,} sent again" if report.duplicates else ""
    bad = f", {report.quarantined:,} quarantined" if report.quarantined else ""
    return (
        f"{report.messages:,} messages{lag}, {report.transactions:,} transactions, {report.operations:,} operations{again}{twice}{bad}; "
        f"trail at file {report.trail_file}, byte {report.trail_offset}"
    )


class Stop:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self._asked = False

    def ask(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Ask to stop after the batch that is worked on."""
        self._asked = True

    def is_asked(self) -> bool:
        """Return whether to stop."""
        return self._asked


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Let SIGTERM and SIGINT ask for a stop; a second SIGINT interrupts."""
    stop = Stop()
    interrupted = signal.getsignal(signal.SIGINT)

    def first(number: int, frame: FrameType | None) -> None:
        stop.ask(number, frame)
        signal.signal(signal.SIGINT, interrupted)

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, stop.ask),
        signal.SIGINT: signal.signal(signal.SIGINT, first),
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _log_brokers() -> None:
    """Let the log of connections, made and lost, reach stderr."""
    log = logging.getLogger("trailgate.brokers")
    if not log.handlers:
        log.setLevel(logging.INFO)
        log.addHandler(logging.StreamHandler())
        log.propagate = False
