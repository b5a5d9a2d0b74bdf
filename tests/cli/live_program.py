"""A live capture whose messages are a list: what it prints can be looked at without a broker. Run as a program."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from capture_place import Place
from received_messages import ListFeed
from trailgate.live.commands.output import LOG, LiveOutput, print_live
from trailgate.live.jobs.feed import FeedPart
from trailgate.live.jobs.metrics import ReportOptions
from trailgate.live.jobs.run import LiveCapture, ReceiveOptions
from trailgate.model.tables import Definitions
from trailgate.storage.live.appender import TrailAppender

SOURCE = "stomp://broker.example.com:61613/orders"
MESSAGES = 40


class SlowFeed(ListFeed):
    """Gives four messages at once, ten times a second, and loses its connection once."""

    def receive(self, seconds: float) -> FeedPart | None:
        time.sleep(0.1)
        part = super().receive(seconds)
        if part is not None and part.end == MESSAGES // 2:
            LOG.warning("the connection is lost: Broken pipe (%s)", SOURCE)
        return part


def main(folder: Path, *asked: str) -> None:
    place = Place(folder, spanning=True)
    bodies = [f"I,MY.ORDERS,2026-01-01,W,1,{number}" for number in range(MESSAGES)]
    bodies[7] = "bad"
    options = ReceiveOptions("quarantine", until_empty=True, idle_seconds=0)
    tables = Definitions(tuple(place.capture.definitions), place.capture.definitions.database)
    reports = ReportOptions(
        frozenset({"report", "log"}), records=16 if "reports" in asked else None
    )
    output = LiveOutput(SOURCE, "dirdat/ot", reports, as_json="json" in asked, view=True)
    prefix = str(folder / "ot")
    with TrailAppender(prefix, tables, options.append) as appender:
        live = LiveCapture(place.capture, SlowFeed(bodies, [4] * 100), appender, prefix, options)
        print_live(live, output)


if __name__ == "__main__":
    logging.captureWarnings(capture=True)
    main(Path(sys.argv[1]), *sys.argv[2:])
