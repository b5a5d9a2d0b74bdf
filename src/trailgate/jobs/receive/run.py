"""Messages of a feed to a trail: parsed, appended, committed with the feed's position, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Final

from trailgate.jobs.receive.feeds.compared_ids import ComparedIds
from trailgate.jobs.receive.feeds.feed import Feed, Link, Part
from trailgate.jobs.receive.options import BatchReport, ReceiveOptions
from trailgate.jobs.receive.position import SourcePosition, read_position
from trailgate.jobs.receive.repairing import interrupted
from trailgate.jobs.receive.units import Taken, Units
from trailgate.messages.capture import Capture
from trailgate.messages.parsing.message_ids import MessageIdRule
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.recovery import Skipped
from trailgate.storage.writing.counts import Counts, added, counted

POLL_SECONDS: Final = 0.5  # how long a stop waits at most


class LiveCapture:
    """Brings what a feed gives to a trail. ``run`` continues where the trail's last commit was."""

    def __init__(
        self,
        capture: Capture,
        feed: Feed,
        appender: TrailAppender,
        prefix: str,
        options: ReceiveOptions,
    ) -> None:
        self._capture, self._feed, self._appender = capture, feed, appender
        self._prefix, self._options = prefix, options
        self._quarantine = Path(f"{prefix}.quarantine.jsonl")
        recovered = appender.recovered
        position = read_position(recovered.source_position, feed.name, prefix)
        if position is not None and position.pending is not None:
            if recovered.transactions or recovered.abandoned:
                raise interrupted(prefix)
            position = replace(position, pending=None)  # none of these was added
        self._committed = position
        self._held = 0 if position is None else position.quarantine
        self._repaired = 0 if position is None else position.repaired
        self._skipped = Skipped(recovered)
        reason = None if position is None else position.reason
        self._units = Units(
            appender.encoded,
            Path(prefix).parent,
            stop=options.on_error == "stop",
            reason=reason,
            limit=options.held_bytes,
        )
        rule = MessageIdRule.of(
            capture.options,
            ordered=not options.unordered_ids,
            remembered=options.journal.remembered,
        )
        self._ids = ComparedIds(rule)
        last = None if recovered.last is None else recovered.last.csn
        bad = None if position is None or reason is None else position.transaction
        self._state = capture.state_after(last, broken=reason is not None, bad=bad)

    def run(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[BatchReport]:
        """Yield a report of each batch until there is a reason to stop; raises the first bad message's error in stop mode."""
        if self._quarantine.exists() or self._held:
            append_lines(self._quarantine, self._held, ())
        begun = self._committed
        number = None if begun is None else begun.number
        self._ids.begin(self._feed, number, None if begun is None else begun.last_id)
        self._feed.open(number)
        busy = time.monotonic()
        while not stopped():
            part = self._feed.receive(POLL_SECONDS)
            if self._feed.is_replayed and not self._skipped.is_done:
                self._skipped.finish()
            if part is not None:
                yield self._take(part)
            elif self._feed.is_connected and self._options.until_empty:
                if time.monotonic() - busy >= self._options.idle_seconds:
                    return
                continue
            busy = time.monotonic()

    @property
    def link(self) -> Link:
        """Return how the connection to the broker is."""
        return self._feed.link

    @property
    def unfinished(self) -> str | None:
        """Return what is wrong with a last transaction whose end has not come; its messages are kept for the next start."""
        error = self._capture.finish(self._state)
        return None if error is None else error.problem

    def _take(self, received: Part) -> BatchReport:
        part, duplicates = self._ids.screened(received)
        taken = Taken((), (), self._units.next_number(part.end), self._units.reason)
        if len(part):
            parsed = self._capture.parse(part.messages, self._state, part.problems)
            self._state = parsed.state
            taken = self._units.take(part, parsed)
        counts, transactions = self._append(taken)
        if taken.lines:
            lines = BytesIO(b"".join(taken.lines))
            self._held = append_lines(self._quarantine, self._held, [lines])
        self._commit(taken)
        if taken.error is not None:
            raise taken.error
        return self._report(received, taken, duplicates, counts, transactions)

    def _append(self, taken: Taken) -> tuple[Counts, int]:
        """Append what the trail does not have yet; return operations by table and kind, and transactions."""
        counts: Counts = {}
        transactions = 0
        for batch, encoded in taken.whole:
            rest = self._skipped.rest(batch)
            if rest is None or not rest.rows:
                continue
            self._appender.append(rest, encoded if rest is batch else None)
            more, begun = counted(rest, 0, rest.rows)
            counts, transactions = added(counts, more), transactions + begun
        return counts, transactions

    def _commit(self, taken: Taken) -> None:
        last = self._ids.before(taken.number)
        position = SourcePosition(
            self._feed.name,
            taken.number,
            self._held,
            taken.reason,
            last,
            self._repaired,
            transaction=None if taken.reason is None else self._state.tx_id,
        )
        if position == self._committed:
            return
        self._appender.commit(position.encoded())
        self._committed = position
        self._feed.captured(taken.number)

    def _report(
        self, part: Part, taken: Taken, duplicates: int, counts: Counts, transactions: int
    ) -> BatchReport:
        file, offset = self._appender.place
        sent = part.sent
        return BatchReport(
            messages=len(part),
            operations=sum(count for kinds in counts.values() for count in kinds.values()),
            transactions=transactions,
            repeated=part.repeated,
            duplicates=duplicates,
            quarantined=len(taken.lines),
            lag_messages=self._feed.lag(taken.number),
            lag_seconds=None if sent is None else round(time.time() - sent / 1000, 3),
            trail_file=file,
            trail_offset=offset,
            number=taken.number,
            counts=counts,
        )
