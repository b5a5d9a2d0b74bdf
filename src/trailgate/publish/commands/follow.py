"""Run ``trailgate publish --follow``: publish the trail as it grows."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final

from trailgate.errors import TrailgateError, count_noun, mask_logins
from trailgate.jobs.metrics import (
    COUNTER,
    GAUGE,
    Metric,
    MetricsOutput,
    known_lines,
    metrics_output,
)
from trailgate.jobs.retries import PATIENCE, Retries
from trailgate.live.brokers.address import Direction, parse_address
from trailgate.publish.job import Publication, PublicationSettings, PublishSummary
from trailgate.publish.senders.sender import PublishedState
from trailgate.terminal.live_view import catch_stop_signals
from trailgate.terminal.output import quiet_pipe

MEASURED: Final = 5.0  # seconds between two measurements of the lag
LOG: Final = logging.getLogger("trailgate.brokers")
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
    """Format all known metrics of publishing in Prometheus's text format, each with these labels."""
    rows = ((COUNTER, COUNTERS), (GAUGE, GAUGES))
    lines = (known_lines(kind, of_kind, statistics, labels) for kind, of_kind in rows)
    return "".join(f"{line}\n" for line in chain.from_iterable(lines))


class PublishWatch:
    """Counts what a publishing run has sent, prints each batch as text or JSON, and keeps the metrics up to date."""

    def __init__(
        self,
        metrics: MetricsOutput[PublishStatistics] | None,
        retries: Retries,
        *,
        as_json: bool,
        show: bool = True,
    ) -> None:
        self._metrics, self._retries = metrics, retries
        self._as_json, self._show = as_json, show
        self.statistics = PublishStatistics()
        self.publication: Publication | None = None
        self._measured = 0.0

    def sent(self, state: PublishedState) -> None:
        """Report a batch of messages that a publishing run has sent.

        ``state`` is the state of the publication after the batch. The first call, before there is a
        publication, only stores the state.
        """
        before = self.statistics
        if self.publication is None:  # the state that a run stores when it begins
            self.statistics = replace(before, before=state)
            return
        self.statistics = before.with_batch(state)
        if not self._show:
            return
        with quiet_pipe():
            new = self.statistics.messages - before.messages
            if self._as_json:
                print(json.dumps({"messages": new, "position": state.position}), flush=True)
            else:
                print(f"{count_noun(new, 'message')}, up to {state.position}", flush=True)

    def tick(self, *, measure: bool = False) -> None:
        """Update the metrics of publishing.

        The lag is measured every few seconds, or if ``measure`` is set.
        """
        self.statistics = self.statistics.with_broker(self._retries)
        if self._metrics is None:
            return
        due = measure or time.monotonic() - self._measured > MEASURED
        if due and self.publication is not None:
            lag = _lag(self.publication)
            self.statistics = replace(self.statistics, lag_bytes=lag)
            self._measured = time.monotonic()
        self._metrics.show(self.statistics)

    def failed(self) -> None:
        """Record in the metrics that the publishing run ended with an error."""
        self.statistics = replace(self.statistics, up=False)
        if self._metrics is not None:
            self._metrics.show(self.statistics)


def follow_trail(
    trail: str,
    to: str,
    settings: PublicationSettings,
    definitions: str | None = None,
    *,
    metrics: str | None = None,
    as_json: bool,
) -> tuple[PublishSummary, bool]:
    """Publish a trail to a broker as it grows, until SIGTERM or SIGINT, and return the result.

    The second value states whether operations are missing from the trail.
    """
    address = parse_address(to, direction=Direction.SENT)
    labels = {"trail": mask_logins(trail), "target": str(address)}
    with ExitStack() as stack:
        is_asked = stack.enter_context(catch_stop_signals())
        output = None
        if metrics is not None:
            text = partial(format_publish_metrics, labels=labels)
            output = stack.enter_context(metrics_output(metrics, text, PublishStatistics()))

        # Retries call this while they wait for the broker, which keeps the metrics up to date.
        def stopped() -> bool:
            watch.tick()
            return is_asked()

        patience = address.number("patience", PATIENCE)
        retries = Retries(patience, lasting=True, stopped=stopped, what="the broker", log=LOG)
        watch = PublishWatch(output, retries, as_json=as_json)
        try:
            with Publication(
                trail, to, settings, definitions=definitions, retries=retries, sent=watch.sent
            ) as publication:
                watch.publication = publication
                print_guarantee(publication.guarantee, to, as_json=as_json)
                publication.follow(stopped)
            watch.tick(measure=True)
        except BaseException:
            watch.failed()
            raise
        return publication.summary(), publication.lacks_operations


def print_guarantee(guarantee: str, target: str, *, as_json: bool = False) -> None:
    """Print the delivery guarantee of a publication, such as "exactly once"."""
    shown = mask_logins(target)
    with quiet_pipe():
        if as_json:
            print(json.dumps({"target": shown, "guarantee": guarantee}), flush=True)
        else:
            print(f"{guarantee}: {shown}", flush=True)


def _lag(publication: Publication) -> int | None:
    """Return a publication's lag in bytes, or None if the trail cannot be read at the moment."""
    try:
        return publication.lag_bytes()
    except (TrailgateError, OSError):
        return None
