"""Publish the operations that ``trailgate capture --publish`` has captured: after the capture, or in a thread beside a live one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from trailgate.cli.companions import explain_options
from trailgate.errors import TrailgateError
from trailgate.jobs.retries import PATIENCE, Retries
from trailgate.live.brokers.address import Direction, parse_address
from trailgate.live.commands.output import LiveOutput
from trailgate.publish.commands.follow import PublishWatch
from trailgate.publish.commands.output import format_publish_metrics, print_guarantee
from trailgate.publish.commands.publish import PublishArguments, publish
from trailgate.publish.job import Publication, PublicationSettings, check_publication, name_group
from trailgate.storage.files.trail_files import find_begun_trail

LOOK: Final = 0.1  # seconds between two looks for a trail that has not begun
LOG: Final = logging.getLogger("trailgate.brokers")


class CompanionPublish:
    """Publishes the trail of a live capture as it grows, in a thread of its own.

    If the broker does not work, the capture continues.
    """

    def __init__(self, trail: str, to: str, form: str, output: LiveOutput) -> None:
        address = parse_address(to, direction=Direction.SENT)
        self._trail, self._to, self._format, self._as_json = trail, to, form, output.as_json
        self._labels = {"trail": trail, "target": str(address)}
        self._stopped, self._error = Event(), list[BaseException]()
        self._retries = Retries(
            address.number("patience", PATIENCE),
            lasting=True,
            stopped=self._stopped.is_set,
            what="the broker to publish to",
            log=LOG,
        )
        show = not output.is_viewed
        self._watch = PublishWatch(None, self._retries, as_json=output.as_json, show=show)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def published(self, new: bool) -> None:
        """Raise the error that has ended the companion publication, if any.

        The capture calls this after each batch; the thread itself finds new operations.
        """
        del new  # the thread looks at the trail itself
        if self._error:
            raise self._error[0]

    def finish(self) -> None:
        """Publish all operations that are left, after the live capture has ended.

        Raises BrokerError if the broker does not work now.
        """
        self._stopped.set()
        self._thread.join()
        self.published(new=False)

    def text(self) -> str:
        """Return the metrics of the companion publication in the format of Prometheus."""
        self._watch.tick()
        return format_publish_metrics(self._watch.statistics, self._labels)

    def _run(self) -> None:
        try:
            while find_begun_trail(self._trail) is None:
                if self._stopped.wait(LOOK):
                    # All messages were bad, or the last ones have come just now.
                    if find_begun_trail(self._trail) is None:
                        return
                    break
            with explain_options("publish", self._trail, self._to):
                self._publish()
        except BaseException as error:  # noqa: BLE001  raised in the thread of the capture
            self._watch.failed()
            self._error.append(error)

    def _publish(self) -> None:
        watch = self._watch
        settings = PublicationSettings(format=self._format)
        with Publication(
            self._trail, self._to, settings, retries=self._retries, sent=watch.sent
        ) as publication:
            watch.publication = publication
            print_guarantee(publication.guarantee, self._to, as_json=self._as_json)
            publication.follow(self._stopped.is_set)
            publication.run()  # what has come between the last look and the stop


@contextmanager
def publish_beside(
    trail: str, to: str, form: str, output: LiveOutput
) -> Iterator[CompanionPublish]:
    """Yield a ``CompanionPublish`` for a live capture. When the block ends, publish the rest."""
    beside = CompanionPublish(trail, to, form, output)
    try:
        yield beside
    except BaseException as failure:
        try:
            beside.finish()
        except TrailgateError as error:
            # The error of the capture is the one to raise. It may be that of the publication,
            # raised by ``published``.
            if error is not failure:
                LOG.warning("publishing has stopped too: %s", error)
        raise
    beside.finish()


def check_publish(trail: str, to: str, form: str) -> None:
    """Check the address and the format of ``--publish`` without connecting or writing. Raises OptionError or MissingDependencyError."""
    with explain_options("publish", trail, to):
        check_publication(to, PublicationSettings(format=form, group=name_group(trail)))


def publish_captured(trail: str, to: str, form: str, *, as_json: bool) -> None:
    """Publish the operations that ``trailgate capture --publish`` has just written to a trail, and print the result.

    Does nothing if the capture wrote no trail because all messages were bad.
    """
    if find_begun_trail(trail) is None:
        return
    with explain_options("publish", trail, to):
        publish(trail, PublishArguments(target=to, format=form, as_json=as_json))
