"""The adapter's report of its JMS statistics: the properties ``jms.report.*``, and when a report is due."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trailgate.errors import OptionError, Where
from trailgate.jobs.receive.watching.statistics import SUMMED, Statistics

OUTPUT: Final = "jms.report.output"
TIME: Final = "jms.report.time"
RECORDS: Final = "jms.report.records"
USED: Final = frozenset({OUTPUT, TIME, RECORDS})

# capture properties §2. The report file is the standard output here, the log stderr.
TARGETS: Final[Mapping[str, frozenset[str]]] = {
    "report": frozenset({"report"}),
    "log": frozenset({"log"}),
    "both": frozenset({"report", "log"}),
}
UNITS: Final[Mapping[str, int]] = {"sec": 1, "min": 60, "hr": 3600}
_TIME: Final = re.compile(rf"(\d+)\s*({'|'.join(UNITS)})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Where reports go, and after how many seconds or messages there is one; without either there is none."""

    targets: frozenset[str] = TARGETS["report"]
    seconds: int | None = None
    records: int | None = None


def read_reports(connection: Mapping[str, str]) -> ReportOptions:
    """Return the reports that properties ask for; raises OptionError."""
    target = connection.get(OUTPUT, "report")
    if target.casefold() not in TARGETS:
        raise _error(OUTPUT, target, f"one of {', '.join(TARGETS)}")
    seconds, records = connection.get(TIME), connection.get(RECORDS)
    if records is not None and not (records.isascii() and records.isdecimal() and int(records)):
        raise _error(RECORDS, records, "a number of messages, as 1000")
    return ReportOptions(
        TARGETS[target.casefold()],
        None if seconds is None else _seconds(seconds),
        None if records is None else int(records),
    )


def _seconds(text: str) -> int:
    matched = _TIME.fullmatch(text)
    count = int(matched[1]) * UNITS[matched[2].casefold()] if matched else 0
    if not count:
        raise _error(TIME, text, "an interval, as 30sec, 45min or 8hr")
    return count


def _error(name: str, value: str, expected: str) -> OptionError:
    return OptionError(f"{name} is {value!r}, expected {expected}", where=Where(field=name))


@dataclass(frozen=True, slots=True)
class Report:
    """What was done in an interval of ``seconds``, and since the beginning."""

    seconds: float
    interval: Statistics
    total: Statistics

    @property
    def rate(self) -> float:
        """Return messages a second in the interval."""
        return self.interval.messages / self.seconds if self.seconds else 0.0

    def fields(self) -> dict[str, Any]:
        """Return the report as plain values."""
        last = self.total.last
        return {
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(self.rate, 1),
            **{name: getattr(self.interval, name) for name in SUMMED},
            "total": {name: getattr(self.total, name) for name in SUMMED},
            "lag_messages": None if last is None else last.lag_messages,
            "lag_seconds": None if last is None else last.lag_seconds,
        }

    def __str__(self) -> str:
        done, every = self.interval, self.total
        return (
            f"JMS report: {done.messages:,} messages in {self.seconds:,.1f} s ({self.rate:,.1f}/s), {done.transactions:,} transactions, "
            f"{done.operations:,} operations; {done.repeated:,} given again, {done.duplicates:,} sent again, {done.quarantined:,} quarantined; "
            f"in all {every.messages:,} messages, {every.operations:,} operations"
        )


class Reporter:
    """Finds out when a report is due: after an interval, or after so many messages, whichever comes first."""

    def __init__(self, options: ReportOptions, now: float) -> None:
        self._options, self._begun, self._before = options, now, Statistics()

    def due(self, total: Statistics, now: float) -> Report | None:
        """Return the report that is due at a moment in seconds, None where none is."""
        seconds, done = now - self._begun, total.since(self._before)
        by_time = self._options.seconds is not None and seconds >= self._options.seconds
        by_count = self._options.records is not None and done.messages >= self._options.records
        if not by_time and not by_count:
            return None
        self._begun, self._before = now, total
        return Report(seconds, done, total)
