"""Run ``trailgate publish --follow``: publish the trail as it grows."""

from __future__ import annotations

import json
import logging
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from trailgate.errors import TrailgateError, count_noun, mask_logins
from trailgate.jobs.metrics import (
    MetricsOutput,
    metrics_output,
)
from trailgate.jobs.retries import PATIENCE, Retries
from trailgate.live.brokers.address import Direction, parse_address
from trailgate.publish.commands.output import (
    PublishStatistics,
    format_publish_metrics,
    print_guarantee,
)
from trailgate.publish.job import Publication, PublicationSettings, PublishSummary
from trailgate.publish.senders.sender import PublishedState
from trailgate.terminal.live_view import catch_stop_signals
from trailgate.terminal.output import print_line

MEASURED: Final = 5.0  # seconds between two measurements of the lag
LOG: Final = logging.getLogger("trailgate.brokers")


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
        new = self.statistics.messages - before.messages
        if self._as_json:
            print_line(json.dumps({"messages": new, "position": state.position}))
        else:
            print_line(f"{count_noun(new, 'message')}, up to {state.position}")

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


def _lag(publication: Publication) -> int | None:
    """Return a publication's lag in bytes, or None if the trail cannot be read at the moment."""
    try:
        return publication.lag_bytes()
    except (TrailgateError, OSError):
        return None
