"""The output of ``trailgate publish``: its guarantee, its result, and metrics for Prometheus (totals, the broker's faults, and the lag)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from trailgate.errors import count_noun, mask_logins
from trailgate.jobs.metrics import COUNTER, GAUGE, Metric, known_lines
from trailgate.jobs.retries import Retries
from trailgate.live.brokers.address import is_address
from trailgate.publish.job import PublishSummary
from trailgate.publish.senders.sender import PublishedState
from trailgate.terminal.layout import counts_table, print_rows
from trailgate.terminal.output import print_line, say

COUNTERS: Final = (
    Metric("trailgate_publish_messages_total", "messages", "Messages that were sent."),
    Metric("trailgate_publish_operations_total", "operations", "Operations that were sent."),
    Metric("trailgate_publish_batches_total", "batches", "Batches that were committed."),
    Metric("trailgate_publish_errors_total", "faults", "Faults of the broker. All were retried, except one that ended the run."),
    Metric("trailgate_publish_outages_total", "outages", "The number of times that the broker failed after it had worked."),
)  # fmt: skip
GAUGES: Final = (
    Metric("trailgate_publish_up", "up", "1 if the broker works, 0 if it does not or if the run ended with an error."),
    Metric("trailgate_publish_lag_bytes", "lag_bytes", "Bytes of complete transactions in the trail that are not published."),
    Metric("trailgate_publish_last_commit_timestamp_seconds", "committed", "When the last batch was committed, in seconds since 1970 UTC."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PublishStatistics:
    """Totals of a publishing run, for its metrics.

    ``faults`` and ``outages`` are the broker's, as ``Retries`` counts them, and ``up`` states
    whether the broker works. ``committed`` is the time of the last batch, in seconds since 1970
    UTC. ``before`` is the state of the publication when the run began, which the totals exclude.
    """

    messages: int = 0
    operations: int = 0
    batches: int = 0
    faults: int = 0
    outages: int = 0
    up: bool = True
    lag_bytes: int | None = None
    committed: float | None = None
    before: PublishedState = field(default_factory=lambda: PublishedState(""))

    def with_batch(self, state: PublishedState) -> PublishStatistics:
        """Return the totals of publishing after a batch that was published now and ends at ``state``."""
        return replace(
            self,
            messages=state.messages - self.before.messages,
            operations=state.operations - self.before.operations,
            batches=self.batches + 1,
            committed=round(time.time(), 3),
        )

    def with_broker(self, retries: Retries) -> PublishStatistics:
        """Return the totals with the number of the broker's faults, and whether it can be reached."""
        faults = sum(retries.faults.values())
        return replace(self, up=not retries.is_out, outages=retries.outages, faults=faults)


def format_publish_metrics(statistics: PublishStatistics, labels: Mapping[str, str]) -> str:
    """Format the metrics of a run of ``trailgate publish`` in Prometheus's text format, each with these labels."""
    rows = ((COUNTER, COUNTERS), (GAUGE, GAUGES))
    lines = (known_lines(kind, of_kind, statistics, labels) for kind, of_kind in rows)
    return "".join(f"{line}\n" for line in chain.from_iterable(lines))


def print_summary(summary: PublishSummary) -> None:
    """Print the result of a publication: its counts, its notices, and the message files that it wrote."""
    if summary.counts:
        print_rows(*counts_table(summary.counts))
    sentence = (
        f"{count_noun(summary.messages, 'message')}, {count_noun(summary.transactions, 'transaction')}, "
        f"{count_noun(summary.operations, 'operation')}"
    )
    say(sentence)
    for pattern in summary.unmatched:
        say(f"note: no table in the data matches {pattern}", stderr=True)
    for notice in summary.notices:
        say(f"note: {notice}", stderr=True)
    if is_address(summary.target):
        return
    files = summary.files
    what = "no new file" if not files else files[0]
    if len(files) > 1:
        what += f" to {files[-1]}"
    say(f"messages: {what} in {summary.target}")


def print_guarantee(guarantee: str, target: str, *, as_json: bool = False) -> None:
    """Print the delivery guarantee of a publication, such as "exactly once"."""
    shown = mask_logins(target)
    if as_json:
        print_line(json.dumps({"target": shown, "guarantee": guarantee}))
    else:
        print_line(f"{guarantee}: {shown}")
