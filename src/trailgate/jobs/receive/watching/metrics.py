"""The metrics of a live capture in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from trailgate.jobs.receive.watching.statistics import Statistics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Text format, Comments, help text, and type information: a label's value has these escaped.
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Counter(NamedTuple):
    """One counter: its name, the sum that it is, and what it means."""

    name: str
    of: str
    help: str


class Gauge(NamedTuple):
    """One gauge: its name, the value of the last batch that it is, and what it means."""

    name: str
    of: str
    help: str


COUNTERS: Final = (
    Counter("trailgate_messages_total", "messages", "Messages that were received and stored."),
    Counter("trailgate_transactions_total", "transactions", "Transactions that were appended to the trail."),
    Counter("trailgate_repeated_total", "repeated", "Messages that the broker gave again, left out."),
    Counter("trailgate_duplicates_total", "duplicates", "Messages that were sent again, by jms.id, left out."),
    Counter("trailgate_quarantined_total", "quarantined", "Messages in the quarantine."),
    Counter("trailgate_batches_total", "batches", "Batches that were worked on."),
    Counter("trailgate_reconnections_total", "reconnections", "Connections to the broker that were made after the first one."),
)  # fmt: skip
OPERATIONS: Final = Counter(
    "trailgate_operations_total", "counts", "Operations that were appended to the trail."
)
CONNECTED: Final = Gauge(
    "trailgate_connected", "connected", "Whether there is a connection to the broker: 1 or 0."
)
RECEIVED: Final = Gauge(
    "trailgate_last_message_timestamp_seconds",
    "received",
    "When the last messages were worked on, in seconds since 1970 UTC.",
)
GAUGES: Final = (
    Gauge("trailgate_lag_messages", "lag_messages", "Messages that were received and are not in the trail."),
    Gauge("trailgate_lag_seconds", "lag_seconds", "The age of the last message when its batch was in the trail, by JMSTimestamp."),
    Gauge("trailgate_trail_file", "trail_file", "The number of the trail's last file."),
    Gauge("trailgate_trail_offset_bytes", "trail_offset", "The end of the trail in its last file."),
    Gauge("trailgate_next_message", "number", "The number of the message that comes next."),
)  # fmt: skip


def as_text(statistics: Statistics, trail: str) -> str:
    """Return all metrics; each has the trail's prefix as the label ``trail``."""
    return "".join(f"{line}\n" for line in _lines(statistics, trail))


def _lines(statistics: Statistics, trail: str) -> Iterator[str]:
    label = _label("trail", trail)
    for counter in COUNTERS:
        yield from _head(counter.name, counter.help, "counter")
        yield f"{counter.name}{{{label}}} {getattr(statistics, counter.of)}"
    yield from _head(OPERATIONS.name, OPERATIONS.help, "counter")
    for table, kinds in sorted(statistics.counts.items()):
        for kind, count in sorted(kinds.items()):
            labels = ",".join((label, _label("table", table), _label("kind", kind)))
            yield f"{OPERATIONS.name}{{{labels}}} {count}"
    yield from _gauge(CONNECTED, int(statistics.connected), label)
    if statistics.last is None:
        return
    if statistics.received is not None:
        yield from _gauge(RECEIVED, round(statistics.received, 3), label)
    for gauge in GAUGES:
        value = getattr(statistics.last, gauge.of)
        if value is not None:
            yield from _gauge(gauge, value, label)


def _gauge(gauge: Gauge, value: float, label: str) -> Iterator[str]:
    yield from _head(gauge.name, gauge.help, "gauge")
    yield f"{gauge.name}{{{label}}} {value}"


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _label(name: str, value: str) -> str:
    return f'{name}="{value.translate(_ESCAPES)}"'
